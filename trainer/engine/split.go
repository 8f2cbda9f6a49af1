package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// pendingPass is a forward pass that waits for its backward pass, and the loss of the last batch.
type pendingPass struct {
	loss    Loss
	window  trainer.Window
	waiting bool
	last    torch.Tensor // the loss of the last batch as the task returned it; undefined: none yet
	divisor float64      // the divisor of that loss before the backward pass
}

func (p *pendingPass) drop() {
	if p.waiting {
		p.free()
	}
	p.forget()
}

// free frees what Backward would need.
func (p *pendingPass) free() {
	p.loss.Value.Free()
	p.loss.Logged.Free()
	p.waiting = false
}

func (p *pendingPass) forget() {
	p.last.Free()
	p.last = torch.Tensor{}
}

// forward is [Step.Forward].
func (s *core) forward(ctx context.Context, b any, w trainer.Window) (err error) {
	if s.task.isTrainingStepper {
		return fmt.Errorf("engine: %T has a training step of its own (engine.TrainingStepper), which cannot be "+
			"divided into forward and backward: implement Loss alone, or use no hook and no report that comes "+
			"between them", s.task.given)
	}
	s.pending.drop()
	if s.graphs != nil {
		s.graphs.once("micro-batches with a hook or a report between forward and backward")
		s.graphs.gradients(true)
	}
	if err := s.beforeForward(ctx, w); err != nil {
		return err
	}
	return s.stepped(func() error {
		s.mode(true, w.KeepMode)
		loss := s.loss(s.trainingPass(ctx, w), b)
		if loss.Value = loss.Value.Keep(); loss.Logged.Defined() {
			loss.Logged = loss.Logged.Keep()
		}
		s.pending.loss, s.pending.window, s.pending.waiting = loss, w, true
		divisor := w.Divisor
		if loss.whole {
			divisor = 1
		}
		s.pending.forget()
		s.pending.last, s.pending.divisor = loss.Value.Detach().Keep(), divisor
		if s.task.isLossObserver {
			s.task.ObserveLoss(b, loss.Value.Detach().DivScalar(divisor))
		}
		return nil
	})
}

// Backward adds the gradient of the last Forward.
func (s *core) Backward(ctx context.Context) error {
	if !s.pending.waiting {
		return errors.New("engine: Backward without a Forward before it")
	}
	return s.gather(s.pending.window, func() torch.Tensor {
		defer s.pending.free()
		return s.backward(ctx, s.pending.loss, s.pending.window)
	})
}

// BatchLoss waits for the device and returns the loss of the last Forward or Eval.
func (s *core) BatchLoss() (l trainer.BatchLoss, err error) {
	if s.eval.batches > 0 {
		var loss float64
		err = scoped(func() (err error) {
			if s.eval.Shared && s.eval.own.Defined() {
				loss = s.eval.own.Item()
				return nil
			}
			loss, err = s.eval.losses.last()
			return err
		})
		return trainer.BatchLoss{Loss: loss, Divided: loss}, err
	}
	if !s.pending.last.Defined() {
		return l, errNoLoss
	}
	err = scoped(func() error {
		value := mean(s.pending.last)
		l.Loss = value.Item()
		l.Divided = l.Loss
		if s.pending.divisor != 1 {
			l.Divided = value.DivScalar(s.pending.divisor).Item()
		}
		return nil
	})
	return l, err
}

var errNoLoss = errors.New("engine: BatchLoss: the batch has no loss, since it has no labels or none has been seen yet")
