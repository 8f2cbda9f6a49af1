package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ManifestName is the file of a checkpoint that lists its other files.
const ManifestName = "MANIFEST.json"

// manifestFormat is incremented when an older reader would misjudge a newer manifest. Format 1 had
// no checksums of tensors.
const manifestFormat = 2

// maxManifest limits how much of a manifest is read; a million files fit.
const maxManifest = 128 << 20

// manifest is the content of MANIFEST.json. The file is exactly what encode returns, so that any
// change to it is noticed.
type manifest struct {
	Format   int    `json:"format"`
	Step     int    `json:"step"`
	Files    []file `json:"files"`    // by name
	Checksum string `json:"checksum"` // CRC32C of this file with an empty checksum
}

type file struct {
	Name   string `json:"name"` // relative to the checkpoint's folder, with slashes
	Size   int64  `json:"size"`
	CRC32C string `json:"crc32c"` // eight hexadecimal digits

	// Tensors are the checksums of the tensors in a safetensors file, by name. They show which
	// tensor is damaged.
	Tensors map[string]string `json:"tensors,omitempty"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the manifest as it is written to its file, with its checksum.
func (m manifest) encode() ([]byte, error) {
	m.Checksum = ""
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	m.Checksum = fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli))
	text, err = json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

// readManifest returns the manifest of a checkpoint. If the manifest itself is damaged, the error
// is a [*DamagedError].
func readManifest(dir string) (manifest, error) {
	var m manifest
	f, err := os.Open(filepath.Join(dir, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, &DamagedError{Path: dir, Err: ErrNoManifest}
	}
	if err != nil {
		return m, fmt.Errorf("checkpoint: cannot verify: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("it is larger than %d bytes", maxManifest)
	}
	if err == nil {
		m, err = decodeManifest(text)
	}
	if err != nil {
		err = &DamagedError{Path: dir, File: ManifestName, Err: err}
	}
	return m, err
}

// decodeManifest refuses any text that encode would not have written.
func decodeManifest(text []byte) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	if m.Format < 1 || m.Format > manifestFormat {
		return m, fmt.Errorf("its format is %d, this version reads 1 to %d", m.Format, manifestFormat)
	}
	want, err := m.encode()
	if err != nil {
		return m, err
	}
	if !bytes.Equal(text, want) {
		return m, fmt.Errorf("it was changed after it was written (its own checksum is wrong)")
	}
	for i, f := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || f.Name == ManifestName || f.Size < 0 {
			return m, fmt.Errorf("it lists the impossible file %q of %d bytes", f.Name, f.Size)
		}
		if i > 0 && m.Files[i-1].Name >= f.Name {
			return m, fmt.Errorf("it lists %q after %q", f.Name, m.Files[i-1].Name)
		}
	}
	return m, nil
}

// size returns the total size of all files.
func (m manifest) size() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// walk calls visit for each file of a checkpoint, except for the manifest and hidden files such as
// .DS_Store, which are not part of it. Anything that is neither a regular file nor a folder is an
// error.
func walk(dir string, visit func(name, path string) error) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == dir:
			return nil
		case strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == ManifestName {
			return err
		}
		name = filepath.ToSlash(name)
		if !e.Type().IsRegular() {
			return &DamagedError{Path: dir, File: name,
				Err: fmt.Errorf("it is %s; a checkpoint holds regular files and folders only", e.Type())}
		}
		return visit(name, path)
	})
}

// checksum reads a file to its end and returns its size and checksum.
func checksum(f *os.File) (size int64, crc uint32, err error) {
	buffer := buffers.Get().(*[1 << 20]byte)
	defer buffers.Put(buffer)
	h := crc32.New(castagnoli)
	size, err = io.CopyBuffer(h, onlyReader{f}, buffer[:])
	return size, h.Sum32(), err
}

// leastRange is the smallest range of a file that is worth another reader.
const leastRange = 8 << 20

// checksumBy is checksum by several goroutines, each of which reads a range of the file.
func checksumBy(readers int, f *os.File) (size int64, crc uint32, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	n := min(int64(readers), info.Size()/leastRange)
	if n < 2 {
		return checksum(f)
	}
	size = info.Size()
	sums, errs := make([]uint32, n), make([]error, n)
	begin := func(i int64) int64 { return i * (size / n) }
	length := func(i int64) int64 {
		if i == n-1 {
			return size - begin(i)
		}
		return size / n
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { sums[i], errs[i] = checksumOf(io.NewSectionReader(f, begin(i), length(i)), length(i)) })
	}
	all.Wait()
	for i, sum := range sums {
		crc = combine(crc, sum, length(int64(i)))
	}
	return size, crc, errors.Join(errs...)
}

// buffers avoids allocating a large buffer for each of many small files.
var buffers = sync.Pool{New: func() any { return new([1 << 20]byte) }}

// onlyReader hides the methods by which io.CopyBuffer would bypass the large buffer.
type onlyReader struct{ io.Reader }

// sortFiles sorts files into the order of the manifest, which differs from that of a walk through
// folders.
func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.Name, b.Name) })
}
