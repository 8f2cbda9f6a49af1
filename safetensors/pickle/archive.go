package pickle

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// maxPickle limits the size of data.pkl. A tensor takes about 100 bytes in it, so there is room for
// 300,000.
const maxPickle = 32 << 20

// archive is the zip file around a pickle: NAME/data.pkl, NAME/data/0 and so on, NAME/byteorder; or
// a file of the older format.
type archive struct {
	source io.ReaderAt
	size   int64
	root   string
	files  map[string]*zip.File
	legacy map[string]*legacyStorage // storages of the older format by key; nil for zip files
}

const howToConvert = `convert it in Python: safetensors.torch.save_file(torch.load("FILE", weights_only=True), "model.safetensors")`

// maxDirectory limits how much is read to list the files of the zip. A file takes about 80 bytes.
const maxDirectory = 4 << 20

// directory limits reading from the source while the zip's list of files is read.
type directory struct {
	io.ReaderAt
	left int64 // negative if there is no limit any more
}

func (d *directory) ReadAt(p []byte, offset int64) (int, error) {
	if d.left >= 0 {
		if d.left -= int64(len(p)); d.left < 0 {
			d.left = 0
			return 0, fault(ErrTooLarge, "", "the zip's list of files has more than %d bytes", maxDirectory)
		}
	}
	return d.ReaderAt.ReadAt(p, offset)
}

func openArchive(source io.ReaderAt, size int64, spent *budget) (*archive, error) {
	if isLegacy(source, size) {
		return &archive{source: source, size: size, legacy: map[string]*legacyStorage{}}, nil
	}
	list := &directory{source, maxDirectory}
	z, err := zip.NewReader(list, size)
	list.left = -1
	if _, ok := errors.AsType[*FormatError](err); ok {
		return nil, err
	}
	if errors.Is(err, zip.ErrFormat) {
		return nil, notZip(source, size)
	}
	if err != nil {
		return nil, fault(ErrMalformed, "", "%v", err)
	}
	if err := spent.take(400 * len(z.File)); err != nil {
		return nil, err
	}
	a := &archive{source: source, size: size, files: make(map[string]*zip.File, len(z.File))}
	for _, f := range z.File {
		if a.files[f.Name] != nil {
			return nil, fault(ErrMalformed, f.Name, "the zip has it twice")
		}
		a.files[f.Name] = f
		if root, ok := strings.CutSuffix(f.Name, "/data.pkl"); ok && !strings.Contains(root, "/") {
			if a.root != "" {
				return nil, fault(ErrMalformed, "", "the zip has both %s/data.pkl and %s", a.root, f.Name)
			}
			a.root = root
		}
	}
	if a.root == "" {
		return nil, fault(ErrNotZip, "", "the zip has %d files but no NAME/data.pkl", len(z.File))
	}
	if a.files[a.root+"/constants.pkl"] != nil {
		return nil, fault(ErrScript, "", "save its weights instead: torch.save(module.state_dict(), FILE)")
	}
	return a, a.checkByteOrder()
}

// notZip returns the error about a file that is not a zip, with what it seems to be.
func notZip(source io.ReaderAt, size int64) error {
	head := make([]byte, min(size, 8))
	if err := regularfile.ReadFullAt(source, head, 0); err != nil {
		return fmt.Errorf("pickle: %w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{opProto}):
		return fault(ErrNotZip, "", "it is a pickle, but not one of torch.save; %s", howToConvert)
	case bytes.HasPrefix(head, []byte("PK")):
		return fault(ErrMalformed, "", "it begins as a zip and has no end; was it cut short?")
	}
	return fault(ErrNotZip, "", "it begins with % x; is it a safetensors file, or a text that stands for a large file?",
		head)
}

func (a *archive) checkByteOrder() error {
	f := a.files[a.root+"/byteorder"]
	if f == nil {
		return nil // older files have none and are little-endian
	}
	text, err := a.whole(f, 16)
	if err != nil {
		return err
	}
	if order := strings.TrimSpace(string(text)); order != "little" {
		return fault(ErrBigEndian, "", "its byteorder is %q; convert it on such a machine", order)
	}
	return nil
}

// whole reads a file of the zip of at most most bytes.
func (a *archive) whole(f *zip.File, most uint64) ([]byte, error) {
	offset, err := a.stored(f)
	if err != nil {
		return nil, err
	}
	if f.UncompressedSize64 > most {
		return nil, fault(ErrTooLarge, f.Name, "it has %d bytes; want at most %d", f.UncompressedSize64, most)
	}
	content := make([]byte, f.UncompressedSize64)
	if err := regularfile.ReadFullAt(a.source, content, offset); err != nil {
		return nil, fault(ErrMalformed, f.Name, "%v", err)
	}
	return content, nil
}

// holds checks that a storage of the pickle exists with the right size.
func (a *archive) holds(s storage, count int64, spent *budget) error {
	if a.legacy != nil {
		return a.holdsLegacy(s, count, spent)
	}
	f := a.files[s.name]
	if f == nil {
		return fault(ErrMalformed, s.name, "the pickle mentions it, but the zip does not have it")
	}
	if uint64(count*s.dtype.size) != f.UncompressedSize64 {
		return fault(ErrMalformed, s.name, "it has %d bytes, but the pickle counts %d elements of %d",
			f.UncompressedSize64, count, s.dtype.size)
	}
	_, err := a.stored(f)
	return err
}

// place returns where the bytes of a storage begin, and their CRC-32, or zero if there is none.
func (a *archive) place(s storage) (offset int64, sum uint32, err error) {
	if a.legacy != nil {
		return a.legacy[s.key].offset, 0, nil
	}
	f := a.files[s.name]
	offset, err = a.stored(f)
	return offset, f.CRC32, err
}

// stored returns where the bytes of a file of the zip begin, which must not be compressed.
func (a *archive) stored(f *zip.File) (int64, error) {
	if f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64 {
		return 0, fault(ErrMalformed, f.Name, "it is compressed, which torch.save does not do; unpack it and zip it "+
			"again with -0")
	}
	if f.Flags&1 != 0 {
		return 0, fault(ErrMalformed, f.Name, "it is encrypted")
	}
	offset, err := f.DataOffset()
	if err != nil {
		return 0, fault(ErrMalformed, f.Name, "%v", err)
	}
	if offset < 0 || offset > a.size || f.UncompressedSize64 > uint64(a.size-offset) {
		return 0, fault(ErrMalformed, f.Name, "it has %d bytes from byte %d on, but the file ends at %d",
			f.UncompressedSize64, offset, a.size)
	}
	return offset, nil
}
