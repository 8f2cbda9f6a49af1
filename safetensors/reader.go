package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Reader reads a safetensors file of which it keeps the header only. Its methods may be called by
// several goroutines.
type Reader struct {
	source io.ReaderAt
	header header
	byName map[string]int // index into header.tensors
}

// NewReader checks a file of that size completely, its tensors' values aside, and returns a reader
// of it. Any fault of the file is a [*FormatError].
func NewReader(source io.ReaderAt, size int64) (*Reader, error) {
	if size < lengthSize {
		return nil, malformed(ErrHeaderTooSmall, "it has %d bytes", size)
	}
	var length [lengthSize]byte
	if err := readFull(source, length[:], 0); err != nil {
		return nil, fmt.Errorf("safetensors: cannot read the length of the header: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > MaxHeader {
		return nil, malformed(ErrHeaderTooLarge, "its length is given as %d; is this a safetensors file?", n)
	}
	if int64(n) > size-lengthSize {
		return nil, malformed(ErrHeaderLength, "its length is given as %d, the file has %d bytes; was it cut short?", n,
			size)
	}
	text := make([]byte, n)
	if err := readFull(source, text, lengthSize); err != nil {
		return nil, fmt.Errorf("safetensors: cannot read the header: %w", err)
	}
	h, err := parseHeader(text, size-lengthSize-int64(n))
	if err != nil {
		return nil, err
	}
	r := &Reader{source: source, header: h, byName: make(map[string]int, len(h.tensors))}
	for i, t := range h.tensors {
		r.byName[t.Name] = i
	}
	return r, nil
}

// Tensors returns the tensors in the order in which they lie in the file.
func (r *Reader) Tensors() []Tensor {
	tensors := slices.Clone(r.header.tensors)
	for i := range tensors {
		tensors[i].Shape = slices.Clone(tensors[i].Shape)
	}
	return tensors
}

// Tensor returns the description of the tensor of that name.
func (r *Reader) Tensor(name string) (Tensor, bool) {
	i, ok := r.byName[name]
	if !ok {
		return Tensor{}, false
	}
	t := r.header.tensors[i]
	t.Shape = slices.Clone(t.Shape)
	return t, true
}

// Metadata returns the strings under __metadata__, such as format: pt; nil if the file has no such
// key.
func (r *Reader) Metadata() map[string]string { return maps.Clone(r.header.metadata) }

// ReadInto reads the bytes of a tensor into buffer, which must have just their number.
func (r *Reader) ReadInto(name string, buffer []byte) error {
	i, ok := r.byName[name]
	if !ok {
		return malformedTensor(name, ErrNotFound, "the file has %d others", len(r.byName))
	}
	t := r.header.tensors[i]
	if int64(len(buffer)) != t.Size {
		return fmt.Errorf("safetensors: tensor %q has %d bytes (%s%d), the buffer %d", name, t.Size, t.DType, t.Shape,
			len(buffer))
	}
	if err := readFull(r.source, buffer, t.Offset); err != nil {
		return fmt.Errorf("safetensors: cannot read tensor %q: %w", name, err)
	}
	return nil
}

// Read returns the bytes of a tensor.
func (r *Reader) Read(name string) ([]byte, error) {
	t, _ := r.Tensor(name) // ReadInto says if there is none
	buffer := make([]byte, t.Size)
	if err := r.ReadInto(name, buffer); err != nil {
		return nil, err
	}
	return buffer, nil
}

// readFull fills buffer; a source that ends earlier is an error.
func readFull(source io.ReaderAt, buffer []byte, offset int64) error {
	n, err := source.ReadAt(buffer, offset)
	if n == len(buffer) {
		return nil // io.EOF is allowed at the very end
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// File is a [Reader] of a file that it has open.
type File struct {
	*Reader
	file *os.File
}

// Open opens a safetensors file and checks it as [NewReader] does. The error names the path.
func Open(path string) (*File, error) {
	f, info, err := regularfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	r, err := NewReader(f, info.Size())
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &File{Reader: r, file: f}, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
