package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Write saves a checkpoint and returns its path. The function write is given an empty folder to put
// its files into; they need not be flushed. When Write returns without error the checkpoint is on
// the disk and has been read back; when it fails, or the process dies in it, the folder holds
// exactly the checkpoints it held before. An existing checkpoint of the same step is replaced.
//
// A disk that is full, or plainly too full for a checkpoint of the last one's size, gives a
// [*SpaceError].
func (s *Store) Write(step int, write func(dir string) error) (path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lock.held(); err != nil {
		return "", err
	}
	if step < 0 {
		return "", fmt.Errorf("checkpoint: cannot save step %d; steps count from 0", step)
	}
	path = s.Path(step)
	if err := s.preflight(path); err != nil {
		return "", err
	}
	fill := func(dir string) error {
		if err := write(dir); err != nil {
			return err
		}
		for _, add := range s.adds {
			if err := add(step, dir); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.write(path, s.hidden(filepath.Base(path), unfinished), step, fill); err != nil {
		return "", err
	}
	return path, nil
}

// write fills the folder temp, seals it, reads it back and renames it to path.
func (s *Store) write(path, temp string, step int, write func(dir string) error) error {
	if err := os.Mkdir(temp, 0o777); err != nil {
		return s.failed(path, temp, err)
	}
	finished := false
	defer func() { // also when write panics
		if !finished {
			_ = os.RemoveAll(temp) // the next Open tries again
		}
	}()
	if err := write(temp); err != nil {
		return s.failed(path, temp, err)
	}
	m, err := s.seal(temp, step)
	if err != nil {
		return s.failed(path, temp, err)
	}
	for _, f := range m.Files { // sealed files are read from the disk again, not from memory, where the system lets us
		if err := verifyFile(temp, f); err != nil {
			return s.failed(path, temp, err)
		}
	}
	if _, err := verifyListing(temp, step); err != nil {
		return s.failed(path, temp, err)
	}
	if err := s.publish(temp, path); err != nil {
		return s.failed(path, temp, err)
	}
	finished = true
	return nil
}

// seal records the files of a folder in its manifest and flushes all of it to the disk.
func (s *Store) seal(dir string, step int) (manifest, error) {
	m := manifest{Format: manifestFormat, Step: step, Files: []file{}}
	folders := map[string]bool{dir: true}
	err := walk(dir, func(name, path string) error {
		f, err := s.flush(path)
		f.Name = name
		m.Files = append(m.Files, f)
		for d := filepath.Dir(path); !folders[d]; d = filepath.Dir(d) {
			folders[d] = true
		}
		return err
	})
	if err != nil {
		return m, err
	}
	sortFiles(m.Files)
	text, err := m.encode()
	if err != nil {
		return m, err
	}
	name := filepath.Join(dir, ManifestName)
	if err := os.WriteFile(name, text, 0o666); err != nil {
		return m, err
	}
	if _, err := s.flush(name); err != nil {
		return m, err
	}
	for d := range folders {
		if err := s.syncDir(d); err != nil {
			return m, err
		}
	}
	return m, nil
}

// flush forces a file to the disk and returns its size and checksum.
func (s *Store) flush(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	size, crc, tensors, err := sums(f) // before the flush, while all of it is in memory
	if err != nil {
		return file{}, err
	}
	if err := s.disk.sync(f); err != nil {
		return file{}, fmt.Errorf("cannot flush %s to the disk: %w", path, err)
	}
	dropFromMemory(f)
	return file{Size: size, CRC32C: fmt.Sprintf("%08x", crc), Tensors: tensors}, nil
}

// publish gives a sealed folder its final name.
func (s *Store) publish(temp, path string) error {
	old := ""
	if _, err := os.Lstat(path); err == nil {
		// Two renames instead of one: if the process dies between them, Open puts the old
		// checkpoint back.
		old = s.hidden(filepath.Base(path), replaced)
		if err := s.disk.rename(path, old); err != nil {
			return err
		}
	}
	putBack := func(err error) error {
		if old != "" {
			err = errors.Join(err, s.disk.rename(old, path))
		}
		return err
	}
	if err := s.disk.rename(temp, path); err != nil {
		return putBack(err)
	}
	if err := s.syncDir(s.dir); err != nil {
		if undo := s.disk.rename(path, temp); undo != nil {
			return errors.Join(err, undo)
		}
		return putBack(err)
	}
	if old != "" {
		_ = os.RemoveAll(old) // the save is done; the next Open tries again
	}
	return nil
}

// syncDir forces the names in a folder to the disk.
func (s *Store) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	switch err := s.disk.sync(d); {
	case err == nil:
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL):
		s.warn("sync", &UnsupportedError{Path: s.dir, Err: err,
			Op: "flush folders to the disk; a checkpoint may be lost if the machine loses power soon after it is saved"})
	default:
		return fmt.Errorf("cannot flush folder %s to the disk: %w", path, err)
	}
	return nil
}

// preflight refuses a save for which there is plainly no room, before it fills the disk for
// everybody.
func (s *Store) preflight(path string) error {
	steps, err := s.Steps()
	if err != nil || len(steps) == 0 {
		return err
	}
	m, err := readManifest(s.Path(steps[len(steps)-1]))
	if err != nil {
		return nil // a damaged one tells nothing of the size to come
	}
	need := m.size() + m.size()/10
	if free := freeBytes(s.dir); free >= 0 && free < need {
		return &SpaceError{Path: path, Need: need, Free: free, Err: syscall.ENOSPC}
	}
	return nil
}

// failed says which checkpoint could not be written, and how much room there was if that is why.
func (s *Store) failed(path, temp string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		var written int64
		_ = walk(temp, func(_, file string) error {
			if info, err := os.Lstat(file); err == nil {
				written += info.Size()
			}
			return nil
		})
		return &SpaceError{Path: path, Need: written, Free: freeBytes(s.dir), Err: err}
	}
	return fmt.Errorf("checkpoint: cannot save %s: %w", path, err)
}
