package trainertest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/trainer"
)

// splits checks a step that can stop between forward and backward.
func (b *bench[S, B]) splits() error {
	whole := b.step()
	if _, ok := whole.(trainer.SplitStep[B]); !ok {
		return skipped("the step is not a trainer.SplitStep of its batches")
	}
	want := b.windows(whole, 3)
	s := b.step()
	f := s.(trainer.SplitStep[B])
	sum := 0.0
	got := b.windowsOf(s, 3, func(ctx context.Context, batch B, w trainer.Window) error {
		must("Forward", f.Forward(ctx, batch, w))
		loss, err := f.BatchLoss()
		must("BatchLoss", err)
		if w.Items == 0 && math.Abs(loss.Divided*w.Divisor-loss.Loss) > 1e-5*math.Abs(loss.Loss) {
			return fmt.Errorf("BatchLoss is %v and divided by %v %v, want the one to be so many times the other",
				loss.Loss, w.Divisor, loss.Divided)
		}
		sum += loss.Divided
		return f.Backward(ctx)
	})
	reported := 0.0
	for i := 0; i < len(got); i += 2 { // losses and norms alternate
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
