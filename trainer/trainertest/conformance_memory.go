package trainertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/trainer"
)

// The checks of what a step does for a run that begins after another one, or after one that ran out
// of memory.

func (b *bench[S, B]) zeroesGradients() error {
	var runs [2][]float64
	for i := range runs {
		s, err := b.step()
		if err != nil {
			return err
		}
		if i == 1 { // a window that gets no update
			batch, err := s.Collate(b.samples)
			if err != nil {
				return fmt.Errorf("Collate: %w", err)
			}
			if err := s.Train(context.Background(), batch, trainer.Window{Len: 2, Divisor: 2}); err != nil {
				return fmt.Errorf("Train: %w", err)
			}
			if err := s.ZeroGrad(); err != nil {
				return fmt.Errorf("ZeroGrad: %w", err)
			}
			if _, err := s.Report(context.Background()); err != nil {
				return fmt.Errorf("Report: %w", err)
			}
			if err := s.Seed(42, trainer.SeedOptions{}); err != nil {
				return fmt.Errorf("Seed: %w", err)
			}
			if err := b.startLoader(s, true); err != nil {
				return err
			}
		}
		if runs[i], err = b.windows(s, 1); err != nil {
			return err
		}
	}
	return same("after ZeroGrad", runs[0], runs[1])
}

func (b *bench[S, B]) judgesMemory() error {
	s, err := b.step()
	if err != nil {
		return err
	}
	if s.OutOfMemory(nil) || s.OutOfMemory(errors.New("out of luck")) {
		return errors.New("OutOfMemory takes any error for one of memory")
	}
	return nil
}
