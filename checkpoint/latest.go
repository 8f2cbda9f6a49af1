package checkpoint

import (
	"errors"
	"fmt"
	"runtime"
)

// verify is [Verify] for a checkpoint of the store. It also warns of files that are not part of it.
func (s *Store) verify(step int) error {
	path := s.Path(step)
	m, foreign, err := s.listing(step)
	if err != nil || foreign {
		return err
	}
	if err := verifyFiles(path, m, runtime.GOMAXPROCS(0)); err != nil {
		return err
	}
	s.warnUnlisted(path, m)
	return nil
}

// listing is verifyListing for a checkpoint of the store. If that has no manifest, it asks
// [Options.Unmanifested].
func (s *Store) listing(step int) (m manifest, foreign bool, err error) {
	m, err = verifyListing(s.Path(step), step)
	if s.options.Unmanifested == nil || !errors.Is(err, ErrNoManifest) {
		return m, false, err
	}
	return m, true, s.options.Unmanifested(s.Path(step))
}

// warnUnlisted warns of files that were added to a checkpoint later.
func (s *Store) warnUnlisted(path string, m manifest) {
	if files := unlisted(path, m); len(files) > 0 {
		s.warn(path, &UnlistedError{Path: path, Files: files})
	}
}

// Latest returns the newest complete checkpoint. Each candidate is read to its end. Damaged ones
// are reported to [Options.OnDamaged] and skipped. If none is left, the error is [ErrNone]. If
// there were damaged ones, it also includes a [*DamagedError] for each; a program should then not
// start over without a person's decision.
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
		err := s.verify(steps[i])
		if err == nil {
			return path, nil
		}
		var damaged *DamagedError
		if !errors.As(err, &damaged) {
			return "", err // it cannot be read now: to return an older one would be wrong
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
