package checkpoint

import (
	"errors"
	"path/filepath"
	"slices"
)

// Rotate deletes the oldest checkpoints beyond [Options.Keep]. It never deletes a protected
// checkpoint, such as the best, or the newest complete one. Protected checkpoints are given by the
// paths that [Store.Write] returned; only the last element of a path counts, so a run's folder may
// have been moved. A damaged checkpoint does not count towards Keep, and is deleted when its turn
// comes.
func (s *Store) Rotate(protect ...string) error { return s.rotate(s.options.Keep, protect) }

// MakeRoom is Rotate for a checkpoint that found the disk full. It keeps one checkpoint fewer, but
// always the newest complete one and the protected ones. With Keep 0 or 1 it deletes nothing.
func (s *Store) MakeRoom(protect ...string) error {
	if s.options.Keep <= 1 {
		return nil
	}
	return s.rotate(s.options.Keep-1, protect)
}

func (s *Store) rotate(count int, protect []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if count == 0 {
		return nil
	}
	steps, err := s.Steps()
	if err != nil {
		return err
	}
	slices.Reverse(steps) // newest first
	whole := make(map[int]bool, len(steps))
	for _, step := range steps {
		m, foreign, err := s.listing(step) // checks sizes, not contents, which were checked when it was written
		if whole[step] = err == nil; whole[step] && !foreign {
			s.warnUnlisted(s.Path(step), m)
		}
	}
	keep := s.choose(steps, whole, protect, count)
	slices.Reverse(steps) // oldest first, so that a failure leaves the newer ones
	var errs []error
	for _, step := range steps {
		if !keep[step] {
			errs = append(errs, s.drop(step))
		}
	}
	return errors.Join(append(errs, s.syncDir(s.dir))...)
}

// choose returns the steps to keep. The steps come newest first. A step is given up only if enough
// complete ones are kept that are newer or protected. So no checkpoint is deleted because a newer
// one could not be read, even temporarily.
func (s *Store) choose(steps []int, whole map[int]bool, protect []string, most int) map[int]bool {
	keep := make(map[int]bool)
	count := 0 // complete ones among them
	for _, path := range protect {
		if step, ok := s.step(filepath.Base(path)); ok && slices.Contains(steps, step) && !keep[step] {
			keep[step] = true
			if whole[step] {
				count++
			}
		}
	}
	newest := true // there has been no complete one yet
	for _, step := range steps {
		if !keep[step] && (newest || count < most) {
			keep[step] = true
			if whole[step] {
				count++
			}
		}
		if whole[step] {
			newest = false
		}
	}
	return keep
}
