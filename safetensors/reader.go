package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Reader reads a safetensors file and keeps only its header in memory. It is safe for concurrent
// use.
type Reader struct {
	source io.ReaderAt
	header header
}

// NewReader checks a file of the given size completely, except for the values of its tensors, and
// returns a reader for it. Any defect of the file is a [*FormatError].
func NewReader(source io.ReaderAt, size int64) (*Reader, error) {
	if size < lengthSize {
		return nil, malformed(ErrHeaderTooSmall, "it has %d bytes", size)
	}
	var length [lengthSize]byte
	if err := regularfile.ReadFullAt(source, length[:], 0); err != nil {
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
	text, err := readText(source, lengthSize, int(n))
	if err != nil {
		return nil, fmt.Errorf("safetensors: cannot read the header: %w", err)
	}
	h, err := parseHeader(text, size-lengthSize-int64(n))
	if err != nil {
		return nil, err
	}
	return &Reader{source: source, header: h}, nil
}

// Tensors returns the tensors in the order in which they are stored.
func (r *Reader) Tensors() []Tensor {
	tensors := slices.Clone(r.header.tensors)
	for i := range tensors {
		tensors[i].Shape = slices.Clone(tensors[i].Shape)
	}
	return tensors
}

// Tensor returns the description of the tensor with the given name.
func (r *Reader) Tensor(name string) (Tensor, bool) {
	i, ok := r.header.byName[name]
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

// ReadInto reads the bytes of a tensor into buffer, which must have exactly the right length.
func (r *Reader) ReadInto(name string, buffer []byte) error {
	i, ok := r.header.byName[name]
	if !ok {
		return malformedTensor(name, ErrNotFound, "the file has %d others", len(r.header.byName))
	}
	t := r.header.tensors[i]
	if int64(len(buffer)) != t.Size {
		return fmt.Errorf("safetensors: tensor %q has %d bytes (%s%d), the buffer %d", name, t.Size, t.DType, t.Shape,
			len(buffer))
	}
	if err := regularfile.ReadFullAt(r.source, buffer, t.Offset); err != nil {
		return fmt.Errorf("safetensors: cannot read tensor %q: %w", name, err)
	}
	return nil
}

// Section returns a reader for the bytes of a tensor, to read them piece by piece.
func (r *Reader) Section(name string) (*io.SectionReader, error) {
	i, ok := r.header.byName[name]
	if !ok {
		return nil, malformedTensor(name, ErrNotFound, "the file has %d others", len(r.header.byName))
	}
	t := r.header.tensors[i]
	return io.NewSectionReader(r.source, t.Offset, t.Size), nil
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

// readText reads size bytes as a string, without copying the whole.
func readText(source io.ReaderAt, offset int64, size int) (string, error) {
	var text strings.Builder
	text.Grow(size)
	piece := make([]byte, min(size, 1<<16))
	for text.Len() < size {
		piece = piece[:min(size-text.Len(), len(piece))]
		if err := regularfile.ReadFullAt(source, piece, offset+int64(text.Len())); err != nil {
			return "", err
		}
		text.Write(piece)
	}
	return text.String(), nil
}

// File is a [Reader] for an open file.
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
