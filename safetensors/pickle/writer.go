package pickle

import (
	"archive/zip"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/safetensors"
)

// StateDict returns the value that torch.save writes for module.state_dict(): an OrderedDict of the
// tensors, in their order.
func StateDict(entries []safetensors.Entry) (*Dict, error) {
	d := &Dict{Ordered: true}
	for i := range entries {
		if _, twice := d.Get(entries[i].Name); twice {
			return nil, fmt.Errorf("pickle: two tensors are called %q; want a name for each", entries[i].Name)
		}
		if err := d.set(entries[i].Name, &entries[i]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// WriteFile writes what torch.save(value, path) writes; see [Write]. The file appears atomically:
// it is written under another name in the same folder, flushed to disk and renamed.
func WriteFile(path string, value any) error {
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("pickle: %w", err)
	}
	//nolint:errcheck // after the rename there is nothing to clean up, and before it the first error counts
	defer f.Cleanup()
	root := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if err := Write(f, root, value); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("pickle: %w", err)
	}
	return nil
}

// Write writes an archive that torch.load(FILE, weights_only=True) reads: the zip file of PyTorch
// 1.6 and later, pickle protocol 2, the tensors uncompressed and aligned so that they can be mapped
// into memory. root is the name of the folder in the archive; torch.save uses the file's name.
//
// A value is as returned by [Reader.Value], with *[safetensors.Entry] for tensors: nil, bool, int,
// int64, *big.Int, float64, string, [Tuple], *[List] and *[Dict]. Each tensor is fetched when it is
// written. An entry that occurs several times is a single tensor in the file.
func Write(w io.Writer, root string, value any) error {
	if root == "" || strings.ContainsAny(root, "/\\\x00") {
		return fmt.Errorf("pickle: the folder in the archive cannot be called %q; want a name without slashes", root)
	}
	p := &pickler{memo: map[Name]byte{}, storage: map[*safetensors.Entry]int{}}
	p.code = append(p.code, opProto, 2)
	if err := p.write(value, 0); err != nil {
		return err
	}
	p.code = append(p.code, opStop)
	a := &assembler{count: &countingWriter{w: w}, root: root}
	a.zip = zip.NewWriter(a.count)
	a.text("data.pkl", string(p.code))
	a.text(".format_version", "1")
	a.text(".storage_alignment", strconv.Itoa(alignment))
	a.text("byteorder", "little")
	for i, entry := range p.tensors {
		a.add("data/"+strconv.Itoa(i), func(w io.Writer) error { return copyTensor(w, entry) })
	}
	a.text("version", "3\n")
	a.text(".data/serialization_id", serialID())
	if a.err == nil {
		a.err = a.zip.Close()
	}
	if a.err != nil {
		return fmt.Errorf("pickle: write %s: %w", root, a.err)
	}
	return nil
}

// alignment is PyTorch's alignment of tensors in the file, in bytes.
const alignment = 64

// serialID returns a random number of 40 digits by which PyTorch distinguishes archives.
func serialID() string {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(40), nil)
	n, err := rand.Int(rand.Reader, limit)
	if err != nil {
		n = new(big.Int) // cannot happen: crypto/rand does not fail
	}
	return fmt.Sprintf("%040d", n)
}

// assembler writes the parts of an archive. After an error, its methods do nothing.
type assembler struct {
	count *countingWriter
	zip   *zip.Writer
	root  string
	err   error

	descriptor int64 // size of the data descriptor that package zip writes after the last part, before the next
}

func (a *assembler) text(name, content string) {
	a.add(name, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
}

func (a *assembler) add(name string, content func(w io.Writer) error) {
	if a.err != nil {
		return
	}
	if a.err = a.zip.Flush(); a.err != nil {
		return
	}
	h := &zip.FileHeader{Name: a.root + "/" + name, Method: zip.Store}
	h.Extra = padding(a.count.n+a.descriptor, int64(len(h.Name)))
	w, err := a.zip.CreateHeader(h)
	if err != nil {
		a.err = err
		return
	}
	c := &countingWriter{w: w}
	a.err = content(c)
	a.descriptor = 16
	if c.n >= math.MaxUint32 {
		a.descriptor = 24 // zip64: sizes take 8 bytes each
	}
}

// padding returns an extra field, with PyTorch's tag FB, after which the content begins at a
// multiple of the alignment.
func padding(offset, name int64) []byte {
	const header, mark = 30, 4 // sizes of a local file header and of the header of an extra field
	size := alignment - (offset+header+name+mark)%alignment
	extra := make([]byte, mark+size)
	copy(extra, "FB")
	extra[2], extra[3] = byte(size), byte(size>>8)
	for i := range size {
		extra[mark+i] = 'Z'
	}
	return extra
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// copyTensor writes the bytes of a tensor and checks their number.
func copyTensor(w io.Writer, e *safetensors.Entry) error {
	kind, err := kindOf(e)
	if err != nil {
		return err
	}
	want := kind.size
	for _, d := range e.Shape {
		want *= d
	}
	c := &countingWriter{w: w}
	if e.Data == nil {
		return fmt.Errorf("tensor %q has no data", e.Name)
	}
	if err := e.Data(c); err != nil {
		return fmt.Errorf("tensor %q: %w", e.Name, err)
	}
	if c.n != want {
		return fmt.Errorf("tensor %q wrote %d bytes; its type and shape, %s%v, have %d", e.Name, c.n, kind.name,
			e.Shape, want)
	}
	return nil
}

func kindOf(e *safetensors.Entry) (dtype, error) {
	for _, d := range dtypes {
		if d.file == e.DType && d.file != 0 {
			return d, nil
		}
	}
	return dtype{}, fault(ErrDType, e.Name, "PyTorch has no %s", e.DType)
}

var errDepth = errors.New("containers are too deep in each other, or contain themselves")
