package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Verify reads a checkpoint completely and compares it with its manifest: every listed file must
// exist with the recorded size and CRC32C, and a folder named checkpoint-N must be of step N. Files
// that are not listed are not part of the checkpoint. If something is wrong, the error is a
// [*DamagedError]; any other error means that Verify could not find out.
func Verify(path string) error {
	step := -1
	if n, ok := parseStep(filepath.Base(path), defaultPrefix); ok {
		step = n
	}
	m, err := verifyListing(path, step)
	if err != nil {
		return err
	}
	return verifyFiles(path, m, runtime.GOMAXPROCS(0))
}

// verifyFiles compares the contents of the files with the manifest. Large files are read by several
// goroutines, since the caller is waiting to load them.
func verifyFiles(path string, m manifest, readers int) error {
	for _, f := range m.Files {
		if err := verifyFile(path, f, readers); err != nil {
			return err
		}
	}
	return nil
}

// verifyListing checks what can be checked without reading the files: the manifest, names and
// sizes, and that the checkpoint is of the step that its folder is named after. A negative step is
// not compared.
func verifyListing(path string, step int) (manifest, error) {
	info, err := os.Stat(path)
	if err != nil {
		return manifest{}, fmt.Errorf("checkpoint: cannot verify: %w", err)
	}
	if !info.IsDir() {
		return manifest{}, &DamagedError{Path: path, Err: errors.New("it is not a folder")}
	}
	m, err := readManifest(path)
	if err != nil {
		return m, err
	}
	if step >= 0 && m.Step != step && m.Step != 0 { // earlier versions of WriteFolder wrote 0
		return m, &DamagedError{Path: path, File: ManifestName, Err: fmt.Errorf("it is of step %d, the folder is "+
			"named after step %d; name the folder as it was, or so that it does not end in a number", m.Step, step)}
	}
	for _, f := range m.Files {
		info, err := os.Lstat(filepath.Join(path, filepath.FromSlash(f.Name)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return m, &DamagedError{Path: path, File: f.Name, Err: errors.New("it is missing")}
		case err != nil:
			return m, fmt.Errorf("checkpoint: cannot verify: %w", err)
		case !info.Mode().IsRegular():
			return m, &DamagedError{Path: path, File: f.Name, Err: fmt.Errorf("it is %s, not a regular file",
				info.Mode().Type())}
		case info.Size() != f.Size:
			return m, &DamagedError{Path: path, File: f.Name, Err: fmt.Errorf("it has %d bytes, its manifest says %d",
				info.Size(), f.Size)}
		}
	}
	return m, nil
}

// unlisted returns the files in a checkpoint's folder that its manifest does not list, except
// hidden ones, as far as they can be found.
func unlisted(path string, m manifest) []string {
	listed := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		listed[f.Name] = true
	}
	var others []string
	_ = filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // an unreadable folder is no reason to distrust the listed files
		}
		if file != path && strings.HasPrefix(e.Name(), ".") {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(path, file)
		if name = filepath.ToSlash(name); err == nil && !e.IsDir() && name != ManifestName && !listed[name] {
			others = append(others, name)
		}
		return nil
	})
	return others
}

// verifyFile compares a file with its entry in the manifest.
func verifyFile(dir string, want file, readers int) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(want.Name)))
	if err != nil {
		return fmt.Errorf("checkpoint: cannot verify: %w", err)
	}
	defer f.Close()
	size, crc, err := checksumBy(readers, f)
	if err != nil { // unreadable sectors are damage, too
		return &DamagedError{Path: dir, File: want.Name, Err: err}
	}
	if got := fmt.Sprintf("%08x", crc); size != want.Size || got != want.CRC32C {
		err := fmt.Errorf("its %d bytes have CRC32C %s, its manifest says %d bytes and %s", size, got, want.Size,
			want.CRC32C)
		if len(want.Tensors) > 0 && size == want.Size {
			err = fmt.Errorf("%w: %w", err, damagedTensor(dir, want))
		}
		return &DamagedError{Path: dir, File: want.Name, Err: err}
	}
	return nil
}
