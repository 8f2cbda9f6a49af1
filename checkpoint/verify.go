package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Verify reads a whole checkpoint and compares it with its manifest: every file that is listed must
// be there with its size and CRC32C, and no other (hidden files aside). What it finds wrong is a
// [*DamagedError]; any other error means that it could not tell.
func Verify(path string) error {
	m, err := verifyListing(path)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := verifyFile(path, f); err != nil {
			return err
		}
	}
	return nil
}

// verifyListing checks all that can be known of a checkpoint without reading its files: the
// manifest, names and sizes.
func verifyListing(path string) (manifest, error) {
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
	listed := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		listed[f.Name] = true
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
	err = walk(path, func(name, _ string) error {
		if !listed[name] {
			return &DamagedError{Path: path, File: name,
				Err: errors.New("it is not in the manifest; if it is yours, move it elsewhere")}
		}
		return nil
	})
	var damaged *DamagedError
	if err != nil && !errors.As(err, &damaged) {
		err = fmt.Errorf("checkpoint: cannot verify: %w", err)
	}
	return m, err
}

// verifyFile reads one file and compares it with its entry in the manifest.
func verifyFile(dir string, want file) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(want.Name)))
	if err != nil {
		return fmt.Errorf("checkpoint: cannot verify: %w", err)
	}
	defer f.Close()
	size, crc, err := checksum(f)
	if err != nil { // a disk that cannot read its sectors is damage too
		return &DamagedError{Path: dir, File: want.Name, Err: err}
	}
	if got := fmt.Sprintf("%08x", crc); size != want.Size || got != want.CRC32C {
		return &DamagedError{Path: dir, File: want.Name,
			Err: fmt.Errorf("its %d bytes have CRC32C %s, its manifest says %d bytes and %s", size, got, want.Size,
				want.CRC32C)}
	}
	return nil
}
