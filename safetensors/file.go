package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile writes a file with the given tensors, see [Write]. The file appears atomically, even
// if the machine loses power: it is written under another name in the same folder, flushed to disk
// and renamed. An existing file is replaced, and stays unchanged if anything fails.
func WriteFile(path string, entries []Entry, metadata map[string]string) error {
	return replaceFile(path, func(w io.Writer) error { return Write(w, entries, metadata) })
}

// replaceFile atomically replaces a file by what write writes.
func replaceFile(path string, write func(io.Writer) error) error {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := createBeside(dir, base)
	if err != nil {
		return fmt.Errorf("safetensors: cannot write %s: %w", path, err)
	}
	defer func() { // even if write panics
		f.Close()
		os.Remove(f.Name()) // fails if it has been renamed
	}()
	if err := write(f); err != nil {
		return fmt.Errorf("safetensors: cannot write %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("safetensors: cannot flush %s to the disk: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("safetensors: cannot write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("safetensors: cannot write %s: %w", path, err)
	}
	return syncDir(dir)
}

// createBeside creates a file with a new name. Unlike os.CreateTemp, it leaves permissions to the
// user's umask.
func createBeside(dir, base string) (*os.File, error) {
	for {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%08x", base, rand.Uint32()))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// syncDir flushes the names in a folder to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	defer d.Close()
	// Some file systems can only flush files; then nothing more can be done for the name.
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("safetensors: cannot flush folder %s to the disk: %w", dir, err)
	}
	return nil
}
