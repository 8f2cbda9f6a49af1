package checkpoint

import (
	"errors"
	"fmt"
)

// Latest returns the newest checkpoint that is whole; each candidate is read to its end. Damaged
// ones are reported to [Options.OnDamaged] and passed over. If none is left the error is [ErrNone];
// with damaged ones it also holds a [*DamagedError] for each, and starting anew should then be
// somebody's decision.
func (s *Store) Latest() (path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps, err := s.Steps()
	if err != nil {
		return "", err
	}
	var passed []error
	for i := len(steps) - 1; i >= 0; i-- {
		path := s.Path(steps[i])
		err := Verify(path)
		if err == nil {
			return path, nil
		}
		var damaged *DamagedError
		if !errors.As(err, &damaged) {
			return "", err // not readable now: an older one would be the wrong answer
		}
		if s.options.OnDamaged != nil {
			s.options.OnDamaged(damaged)
		}
		passed = append(passed, err)
	}
	if len(passed) == 0 {
		return "", fmt.Errorf("checkpoint: %s: %w", s.dir, ErrNone)
	}
	return "", fmt.Errorf("checkpoint: %s: %w: %w", s.dir, ErrNone, errors.Join(passed...))
}
