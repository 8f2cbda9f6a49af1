// Package checkpoint stores the state of a run so that it is never lost: not to kill -9 at any
// instant, a full disk, or a flipped bit. The package handles folders and files; the caller decides
// what is in them.
//
//	store, err := checkpoint.Open("runs/a", checkpoint.Options{Keep: 2})
//	defer store.Close()
//	path, err := store.Write(500, func(dir string) error { return saveModel(dir) }) // runs/a/checkpoint-500
//	err = store.Rotate(best)
//	path, err = store.Latest() // the newest that is whole
//
// # How a checkpoint is written
//
// The files are written into a hidden folder beside the other checkpoints. MANIFEST.json records
// the size and CRC32C of each. Every file and folder is then flushed to the disk (fsync), read back
// and compared. Only after that is the folder renamed to its final name, and the renaming flushed
// too. So a folder named checkpoint-N is always whole, unless it was damaged after it was written;
// [Verify] detects that. The next [Open] removes what a killed process left behind, or puts it
// back.
//
// Only [Store.Rotate] deletes old checkpoints. A save that fails has not touched them.
//
// # Sharing a folder
//
// [Open] locks the folder for the run. A second process that opens the same folder gets a
// [*LockedError] that names the first.
//
// # Files added by others
//
// The manifest defines what a checkpoint consists of. A file added to the folder later is not part
// of the checkpoint: it is reported once, not verified, and deleted with the checkpoint. A function
// given to [Store.BeforeSeal] can add files that are part of it.
package checkpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Options configures [Open]. The zero value keeps every checkpoint, in folders named checkpoint-N.
type Options struct {
	// Keep is how many checkpoints [Store.Rotate] keeps; zero means all. Protected checkpoints
	// count, and the newest complete one is always kept, as with save_total_limit of Hugging Face's
	// Trainer: with Keep 1 and an older best checkpoint protected, both are kept.
	Keep int

	// Prefix is the part of a folder's name before the dash and the step; empty means "checkpoint".
	Prefix string

	// OnDamaged is called for each damaged checkpoint that [Store.Latest] skips. Nil means that
	// they are skipped silently as long as a complete one is found.
	OnDamaged func(*DamagedError)

	// Unmanifested is called for a checkpoint without a manifest, which another program may have
	// written. If it returns nil, the checkpoint is complete. If Unmanifested is nil, such a
	// checkpoint is damaged.
	Unmanifested func(path string) error

	// OnWarning is called, once each, for things that do no harm now but should be known: an
	// [*UnlistedError] or an [*UnsupportedError]. Nil means that [slog.Default] logs them.
	OnWarning func(error)
}

// Store is a folder of checkpoints, held by a single process. Its methods are safe for use by
// several goroutines.
type Store struct {
	dir     string
	options Options
	lock    lock
	mu      sync.Mutex // one save, rotation or search at a time
	disk    disk
	adds    []func(step int, dir string) error // registered by BeforeSeal
	warned  map[string]bool                    // subjects of the warnings given so far
}

// disk is the part of the file system that tests make fail.
type disk struct {
	rename func(from, to string) error
	sync   func(*os.File) error
	lock   func(path string) (lock lock, free bool, err error)
}

// realDisk is the file system.
func realDisk() disk { return disk{rename: os.Rename, sync: (*os.File).Sync, lock: lockFile} }

// Open creates the folder if necessary, locks it, and cleans up after a process that was killed in
// the middle of a save.
func Open(dir string, o Options) (*Store, error) { return openOn(realDisk(), dir, o) }

// openOn is Open on a disk that may be that of a test.
func openOn(d disk, dir string, o Options) (*Store, error) {
	if o.Keep < 0 {
		return nil, fmt.Errorf("checkpoint: Options.Keep is %d; it must be at least 1, or 0 to keep all", o.Keep)
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if strings.HasPrefix(o.Prefix, ".") || strings.ContainsAny(o.Prefix, `/\`) {
		return nil, fmt.Errorf("checkpoint: Options.Prefix is %q; it must be part of a file name and not begin with "+
			"a dot", o.Prefix)
	}
	dir, err := filepath.Abs(dir) // so that changing the working directory later does no harm
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("checkpoint: cannot make the run's folder: %w", err)
	}
	s := &Store{dir: dir, options: o, disk: d}
	if s.lock, err = s.takeLock(); err != nil {
		return nil, err
	}
	ours := func(name string) bool { _, ok := s.step(name); return ok } // safe, since the lock is held
	if err := s.recover(ours); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// BeforeSeal registers a function that every following [Store.Write] calls after its own function
// and before it makes the manifest. What add writes into the folder, such as the tokenizer of a
// model, is part of the checkpoint. If it returns an error, the save fails.
func (s *Store) BeforeSeal(add func(step int, dir string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adds = append(s.adds, add)
}

// warn gives a warning, but only once for each subject.
func (s *Store) warn(about string, err error) {
	if s.warned[about] {
		return
	}
	if s.warned == nil {
		s.warned = map[string]bool{}
	}
	s.warned[about] = true
	if s.options.OnWarning != nil {
		s.options.OnWarning(err)
		return
	}
	slog.Warn(err.Error())
}

// Dir returns the store's folder as an absolute path.
func (s *Store) Dir() string { return s.dir }

// Path returns the path of the checkpoint of a step, whether or not it exists.
func (s *Store) Path(step int) string {
	return filepath.Join(s.dir, s.options.Prefix+"-"+strconv.Itoa(step))
}

// Steps returns the steps of the checkpoints in the folder, complete or damaged, oldest first.
func (s *Store) Steps() ([]int, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var steps []int
	for _, e := range entries {
		if step, ok := s.step(e.Name()); ok && e.IsDir() {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// step parses the name of a checkpoint's folder. Only a name that [Store.Path] returns is valid:
// checkpoint-007 is not.
func (s *Store) step(name string) (int, bool) { return parseStep(name, s.options.Prefix) }

const defaultPrefix = "checkpoint"

// parseStep parses the name of a folder named prefix-N.
func parseStep(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix+"-")
	if !ok {
		return 0, false
	}
	step, err := strconv.Atoi(digits)
	return step, err == nil && step >= 0 && strconv.Itoa(step) == digits
}

// Close releases the lock. The store must not be used afterwards; a second Close does nothing.
func (s *Store) Close() error {
	if err := s.lock.Close(); err != nil {
		return fmt.Errorf("checkpoint: cannot unlock %s: %w", s.dir, err)
	}
	return nil
}
