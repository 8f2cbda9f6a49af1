package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Folders that are not yet or no longer checkpoints have hidden names: a dot, the name of the
// checkpoint, and one of these kinds.
const (
	unfinished = ".unfinished-" // being written; worthless until renamed
	// replaced by a new checkpoint of the same step; restored if that one was never completed
	replaced = ".replaced-"
	dropped  = ".dropped-" // being deleted
)

// hidden returns a fresh name for a folder of that kind.
func (s *Store) hidden(name, kind string) string {
	return filepath.Join(s.dir, fmt.Sprintf(".%s%s%08x", name, kind, rand.Uint32()))
}

// recover cleans up after a killed process: it removes or restores the hidden folders of the
// checkpoints whose names ours accepts. No process may be writing them.
func (s *Store) recover(ours func(name string) bool) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		name, kind := splitHidden(e.Name())
		if kind == "" || !ours(name) {
			continue
		}
		path, final := filepath.Join(s.dir, e.Name()), filepath.Join(s.dir, name)
		if _, err := os.Lstat(final); kind == replaced && os.IsNotExist(err) {
			if err := s.disk.rename(path, final); err != nil {
				return fmt.Errorf("checkpoint: cannot restore %s after an interrupted save: %w", final, err)
			}
			if err := s.syncDir(s.dir); err != nil {
				return err
			}
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("checkpoint: cannot remove what an interrupted save left behind: %w", err)
		}
	}
	return nil
}

// splitHidden returns the checkpoint's name and the kind of a hidden folder, or nothing for any
// other file.
func splitHidden(file string) (name, kind string) {
	rest, ok := strings.CutPrefix(file, ".")
	if !ok {
		return "", ""
	}
	for _, kind := range []string{unfinished, replaced, dropped} {
		if name, _, ok := strings.Cut(rest, kind); ok {
			return name, kind
		}
	}
	return "", ""
}

// drop deletes a checkpoint. It renames the folder first, so that a half-deleted folder never looks
// like a checkpoint.
func (s *Store) drop(step int) error {
	path := s.Path(step)
	away := s.hidden(filepath.Base(path), dropped)
	if err := s.disk.rename(path, away); err != nil {
		return fmt.Errorf("checkpoint: cannot delete step %d: %w", step, err)
	}
	if err := os.RemoveAll(away); err != nil {
		return fmt.Errorf("checkpoint: cannot delete step %d: %w", step, err)
	}
	return nil
}
