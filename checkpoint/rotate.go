package checkpoint

import (
	"errors"
	"path/filepath"
	"slices"
)

// Rotate deletes the oldest checkpoints beyond [Options.Keep], but never a protected one, such as the best, and never the newest that is
// whole. Protected checkpoints are named by the paths that [Store.Write] returned; the last element is what counts, so that a run's
// folder may have been moved. A damaged checkpoint does not count as one that was kept.
func (s *Store) Rotate(protect ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Keep == 0 {
		return nil
	}
	steps, err := s.Steps()
	if err != nil {
		return err
	}
	slices.Reverse(steps) // newest first
	whole := make(map[int]bool, len(steps))
	for _, step := range steps {
		_, err := verifyListing(s.Path(step)) // sizes, not contents: those were read when it was written
		whole[step] = err == nil
	}
	keep := s.choose(steps, whole, protect)
	if keep == nil {
		return nil
	}
	slices.Reverse(steps) // oldest first, so that a failure leaves the newer ones
	var errs []error
	for _, step := range steps {
		if !keep[step] {
			errs = append(errs, s.drop(step))
		}
	}
	return errors.Join(append(errs, s.syncDir(s.dir))...)
}

// choose returns the steps to keep, or nil for all of them. The steps come newest first.
func (s *Store) choose(steps []int, whole map[int]bool, protect []string) map[int]bool {
	keep := make(map[int]bool)
	count := 0
	for _, path := range protect {
		if step, ok := s.step(filepath.Base(path)); ok && slices.Contains(steps, step) && !keep[step] {
			keep[step] = true
			if whole[step] {
				count++
			}
		}
	}
	newest := true
	for _, step := range steps {
		if !whole[step] {
			continue
		}
		if !keep[step] && (newest || count < s.options.Keep) {
			keep[step] = true
			count++
		}
		newest = false
	}
	if newest || count < s.options.Keep {
		return nil // too few whole ones to part with anything
	}
	return keep
}
