package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Write saves a checkpoint and returns its path. The function write receives an empty folder to put
// its files into; they need not be flushed. When Write returns without an error, the checkpoint is
// on the disk and has been read back. If it fails, or the process dies during it, the folder holds
// exactly the checkpoints it held before. An existing checkpoint of the same step is replaced.
//
// If the disk is full, or clearly too full for a checkpoint of the last one's size, the error is a
// [*SpaceError].
func (s *Store) Write(step int, write func(dir string) error) (path string, err error) {
	d, err := s.Begin(step)
	if err != nil {
		return "", err
	}
	if err := d.Write(write); err != nil {
		return "", err
	}
	return d.path, d.Commit()
}

// Begin creates the empty folder of a checkpoint that is written in several parts, or by another
// goroutine. It becomes a checkpoint only with [Draft.Commit].
func (s *Store) Begin(step int) (*Draft, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lock.held(); err != nil {
		return nil, err
	}
	if step < 0 {
		return nil, fmt.Errorf("checkpoint: cannot save step %d; steps count from 0", step)
	}
	path := s.Path(step)
	if err := s.preflight(path); err != nil {
		return nil, err
	}
	return s.begin(path, step)
}

func (s *Store) begin(path string, step int) (*Draft, error) {
	temp := s.hidden(filepath.Base(path), unfinished)
	if err := os.Mkdir(temp, 0o777); err != nil {
		return nil, s.failed(path, temp, err)
	}
	return &Draft{store: s, step: step, path: path, temp: temp}, nil
}

// Draft is a checkpoint that is being written, made by [Store.Begin]. It is for use by one
// goroutine at a time. After an error of Write or Commit nothing is left of it.
type Draft struct {
	store      *Store
	step       int
	path, temp string
}

// Path returns the path that the checkpoint will have.
func (d *Draft) Path() string { return d.path }

// Write calls the function to put files into the folder. If it fails or panics, the folder is
// removed.
func (d *Draft) Write(write func(dir string) error) error {
	return d.orDiscard(func() error { return write(d.temp) })
}

// Commit seals the folder, reads it back and gives it its final name; see [Store.Write].
func (d *Draft) Commit() error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	return d.commit()
}

func (d *Draft) commit() error {
	return d.orDiscard(func() error {
		for _, add := range d.store.adds {
			if err := add(d.step, d.temp); err != nil {
				return err
			}
		}
		m, err := d.store.seal(d.temp, d.step)
		if err != nil {
			return err
		}
		// sealed files are read back from the disk and not from memory, if the system allows it
		if err := verifyFiles(d.temp, m, readBack); err != nil {
			return err
		}
		if _, err := verifyListing(d.temp, d.step); err != nil {
			return err
		}
		return d.store.publish(d.temp, d.path)
	})
}

// Discard removes the folder.
func (d *Draft) Discard() { _ = os.RemoveAll(d.temp) } // the next Open tries again

// orDiscard discards the draft if body fails, or panics.
func (d *Draft) orDiscard(body func() error) error {
	whole := false
	defer func() {
		if !whole {
			d.Discard()
		}
	}()
	if err := body(); err != nil {
		return d.store.failed(d.path, d.temp, err)
	}
	whole = true
	return nil
}

// readBack is the number of goroutines that read a large file back. They wait for the disk, which
// serves several readers faster than one.
const readBack = 4

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

// flush flushes a file to the disk and returns its size and checksums.
func (s *Store) flush(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return file{}, err
	}
	flushed := make(chan error, 1)
	flush := func() { flushed <- s.disk.sync(f) }
	if info.Size() < leastRange {
		flush()
	} else {
		go flush() // the checksum is computed from memory while the disk is writing
	}
	size, crc, tensors, err := sums(f)
	if failed := <-flushed; failed != nil {
		return file{}, fmt.Errorf("cannot flush %s to the disk: %w", path, failed)
	}
	if err != nil {
		return file{}, err
	}
	dropFromMemory(f)
	return file{Size: size, CRC32C: fmt.Sprintf("%08x", crc), Tensors: tensors}, nil
}

// publish renames a sealed folder to its final name.
func (s *Store) publish(temp, path string) error {
	old := ""
	if _, err := os.Lstat(path); err == nil {
		// Two renames instead of one: if the process dies between them, Open restores the old
		// checkpoint.
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

// syncDir flushes the entries of a folder to the disk.
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

// preflight refuses a save for which there is clearly no room, before it fills the disk for
// everyone.
func (s *Store) preflight(path string) error {
	steps, err := s.Steps()
	if err != nil || len(steps) == 0 {
		return err
	}
	m, err := readManifest(s.Path(steps[len(steps)-1]))
	if err != nil {
		return nil // a damaged checkpoint says nothing about the size to come
	}
	need := m.size() + m.size()/10
	if free := freeBytes(s.dir); free >= 0 && free < need {
		return &SpaceError{Path: path, Need: need, Free: free, Err: syscall.ENOSPC}
	}
	return nil
}

// failed returns the error for a checkpoint that could not be written; if there was no room, it
// says how much there was.
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
