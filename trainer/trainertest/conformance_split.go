package trainertest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/trainer"
)

// The checks of what a step does that can be stopped between forward and backward, and seeded
// without being made again.

func (b *bench[S, B]) splits() error {
	whole, err := b.step()
	if err != nil {
		return err
	}
	if _, ok := whole.(trainer.SplitStep[B]); !ok {
		return skipped("the step is no trainer.SplitStep of its batches")
	}
	want, err := b.windows(whole, 3)
	if err != nil {
		return err
	}
	s, err := b.step()
	if err != nil {
		return err
	}
	f := s.(trainer.SplitStep[B])
	sum := 0.0
	got, err := b.windowsOf(s, 3, func(ctx context.Context, batch B, w trainer.Window) error {
		if err := f.Forward(ctx, batch, w); err != nil {
			return fmt.Errorf("Forward: %w", err)
		}
		loss, err := f.BatchLoss()
		if err != nil {
			return fmt.Errorf("BatchLoss: %w", err)
		}
		if w.Items == 0 && math.Abs(loss.Divided*w.Divisor-loss.Loss) > 1e-5*math.Abs(loss.Loss) {
			return fmt.Errorf("BatchLoss is %v and divided by %v %v, want the one to be so many times the other",
				loss.Loss, w.Divisor, loss.Divided)
		}
		sum += loss.Divided
		return f.Backward(ctx)
	})
	if err != nil {
		return err
	}
	reported := 0.0
	for i := 0; i < len(got); i += 2 { // losses and norms take turns
		reported += got[i]
	}
	if math.Abs(sum-reported) > 1e-5*math.Abs(reported) {
		return fmt.Errorf("the losses of the batches add up to %v, the reported ones to %v", sum, reported)
	}
	if err := f.Backward(context.Background()); err == nil {
		return errors.New("Backward without a Forward before it gave no error")
	}
	return same("Forward and Backward", want, got)
}

// reseeds finds a model that is made again: without the updates before, the losses would be those of
// the beginning.
func (b *bench[S, B]) reseeds() error {
	s, err := b.step()
	if err != nil {
		return err
	}
	before, err := b.windows(s, 2)
	if err != nil {
		return err
	}
	if err := s.Seed(42, trainer.SeedOptions{KeepModel: true}); err != nil {
		return fmt.Errorf("Seed: %w", err)
	}
	if err := b.startLoader(s, true); err != nil {
		return err
	}
	after, err := b.windows(s, 2)
	if err != nil {
		return err
	}
	if same("", before, after) == nil {
		return fmt.Errorf("after Seed with KeepModel the losses and norms are those of the beginning, %v: the model "+
			"was made again",
			after)
	}
	return nil
}
