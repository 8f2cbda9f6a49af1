package pickle

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Reader reads a file of torch.save and keeps only its pickle in memory. Its methods may be called
// by several goroutines.
type Reader struct {
	archive *archive
	value   any
	tensors []Tensor
	byName  map[string]int
}

// NewReader checks a file of that size, except for the values of its tensors, and returns a reader
// for it. Any defect of the file is a [*FormatError].
func NewReader(source io.ReaderAt, size int64) (*Reader, error) {
	spent := new(budget)
	a, err := openArchive(source, size, spent)
	if err != nil {
		return nil, err
	}
	read := a.readZip
	if a.legacy != nil {
		read = a.readLegacy
	}
	value, made, err := read(spent)
	if err != nil {
		return nil, err
	}
	// Most files have each tensor under one name.
	f := flattener{tensors: make([]Tensor, 0, made), byName: make(map[string]int, made), expected: made, spent: spent}
	if err := f.walk("", value, 0); err != nil {
		return nil, err
	}
	return &Reader{a, value, f.tensors, f.byName}, nil
}

// readZip reads the pickle of a zip. It also returns the number of tensors that it builds.
func (a *archive) readZip(spent *budget) (value any, made int, err error) {
	code, err := a.whole(a.files[a.root+"/data.pkl"], maxPickle)
	if err != nil {
		return nil, 0, err
	}
	m := &machine{code: code, a: a, memo: map[uint32]any{}, spent: spent}
	value, err = m.run()
	return value, m.made, err
}

// Value returns the value that was saved, usually a *[Dict].
func (r *Reader) Value() any { return r.value }

// Tensors returns all tensors, in the order of their containers.
func (r *Reader) Tensors() []Tensor {
	list := slices.Clone(r.tensors)
	for i := range list {
		list[i].Shape = slices.Clone(list[i].Shape)
	}
	return list
}

// Tensor returns the description of the tensor of that name.
func (r *Reader) Tensor(name string) (Tensor, bool) {
	i, ok := r.byName[name]
	if !ok {
		return Tensor{}, false
	}
	t := r.tensors[i]
	t.Shape = slices.Clone(t.Shape)
	return t, true
}

// Read returns the elements of a tensor, little-endian and in C order, regardless of its strides.
// If a tensor fills its storage, its CRC-32 in the zip is checked, unless checksums were switched
// off when the file was written.
func (r *Reader) Read(name string) ([]byte, error) {
	i, ok := r.byName[name]
	if !ok {
		return nil, fault(ErrNotFound, fmt.Sprintf("%q", name), "the file has %d others", len(r.tensors))
	}
	t := &r.tensors[i]
	offset, sum, err := r.archive.place(t.storage)
	if err != nil {
		return nil, err
	}
	span := make([]byte, t.span())
	if err := regularfile.ReadFullAt(r.archive.source, span, offset+t.first); err != nil {
		return nil, fmt.Errorf("pickle: tensor %q: %w", name, err)
	}
	if int64(len(span)) == t.storage.bytes && sum != crc32.ChecksumIEEE(span) && sum != 0 {
		return nil, fault(ErrChecksum, fmt.Sprintf("tensor %q", name), "it is %08x, the zip says %08x; fetch the "+
			"file again", crc32.ChecksumIEEE(span), sum)
	}
	if t.contiguous() {
		return span, nil
	}
	data := make([]byte, t.Size())
	t.gather(data, span)
	return data, nil
}

// File is a [Reader] for an open file.
type File struct {
	*Reader
	file *os.File
}

// Open opens a file and checks it as [NewReader] does. The error names the path.
func Open(path string) (*File, error) {
	f, info, err := regularfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("pickle: %w", err)
	}
	r, err := NewReader(f, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return &File{r, f}, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
