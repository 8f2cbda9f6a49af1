package hezar

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/internal/sharedorder"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// step is the Trainer's arithmetic as the loop expects it. Hezar's training_step is forward and
// backward in one, and its optimization_step is called for every batch.
type step[S, B any] struct {
	loops.Step[B]
	t    *Trainer[S, B]
	loss float64 // of the last batch, before division
}

var (
	_ trainer.SplitStep[int] = (*step[int, int])(nil)
	_ trainer.GroupStep[int] = (*step[int, int])(nil)
)

func (s *step[S, B]) About() trainer.About {
	return trainer.About{Text: fmt.Sprintf("%T on %s", s.t.model.Model(), s.t.device), JoinsGroup: true}
}

// Seed seeds the generators for a pass. New has seeded them for the run.
func (s *step[S, B]) Seed(_ uint64, o trainer.SeedOptions) error {
	if o.KeepModel {
		torch.ManualSeed(s.t.seed())
	}
	return nil
}

// StartLoader draws the seed of the workers, as PyTorch's DataLoader does.
func (s *step[S, B]) StartLoader(bool) error {
	if s.t.options.Rules.SeedEveryPass {
		sharedorder.Draw()
	}
	return nil
}

func (s *step[S, B]) ZeroGrad() error {
	s.t.optimizer.ZeroGrad()
	return nil
}

func (s *step[S, B]) Train(ctx context.Context, b B, w trainer.Window) error {
	if err := s.Forward(ctx, b, w); err != nil {
		return err
	}
	return s.Backward(ctx)
}

// Forward runs training_step: forward and backward.
func (s *step[S, B]) Forward(ctx context.Context, b B, w trainer.Window) error {
	t := s.t
	b, err := t.call.PrepareInputBatch(t, b)
	if err != nil {
		return err
	}
	t.window, t.averaged = w, false
	if t.parallel != nil {
		if err := t.parallel.BeforeForward(ctx, t.endsWindow()); err != nil {
			return prefixed(err)
		}
	}
	torch.Scope(func() {
		var loss torch.Tensor
		if loss, err = t.call.TrainingStep(t, b); err == nil {
			s.loss = loss.Item()
		}
	})
	if err == nil && t.parallel != nil && !t.averaged {
		err = errors.New("hezar: Overrides.TrainingStep has not called the Trainer's Backward, which averages the " +
			"gradients over the processes")
	}
	return err
}

// Backward runs optimization_step for a batch inside an accumulation window; Update runs it for the
// last batch of one.
func (s *step[S, B]) Backward(context.Context) error {
	if s.t.endsWindow() {
		return nil
	}
	return s.optimize()
}

func (s *step[S, B]) Update(context.Context, float64) (applied bool, err error) {
	return true, s.optimize()
}

func (s *step[S, B]) optimize() (err error) {
	torch.Scope(func() { err = s.t.call.OptimizationStep(s.t) })
	return err
}

func (s *step[S, B]) BatchLoss() (trainer.BatchLoss, error) {
	return trainer.BatchLoss{Loss: s.loss, Divided: s.loss / s.t.window.Divisor}, nil
}

// batches loads the training set: a Trainer makes a loader for each epoch.
type batches[S, B any] struct{ t *Trainer[S, B] }

func (b batches[S, B]) Len() int { return b.t.NumBatches }

func (b batches[S, B]) Epoch(ctx context.Context, _, skip int) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		d, err := b.t.call.CreateTrainDataloader(b.t)
		if err == nil && d.Len != b.Len()-skip {
			err = fmt.Errorf("hezar: the loader has %d batches; want the %d that are left of the %d by which the run "+
				"was planned", d.Len, b.Len()-skip, b.Len())
		}
		if err != nil {
			yield(*new(B), err)
			return
		}
		for batch, err := range d.Batches(ctx) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}
