package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// ahead is a forward pass whose backward pass has not come yet, and the loss of the last batch.
type ahead struct {
	loss    Loss
	window  trainer.Window
	waiting bool
	last    torch.Tensor // the loss of the last batch as the task returned it; undefined: none yet
	divisor float64      // what it is divided by before backward
}

func (a *ahead) drop() {
	if a.waiting {
		a.free()
	}
	a.forget()
}

// free frees what Backward needs.
func (a *ahead) free() {
	a.loss.Value.Free()
	a.loss.Logged.Free()
	a.waiting = false
}

func (a *ahead) forget() {
	a.last.Free()
	a.last = torch.Tensor{}
}

// Forward runs the forward pass of a micro-batch. Its graph is kept until Backward.
func (s *Step[S, B]) Forward(ctx context.Context, b B, w trainer.Window) (err error) {
	if is[TrainingStepper[B]](s.task) {
		return fmt.Errorf("engine: %T has a training step of its own (engine.TrainingStepper), which cannot be "+
			"divided into forward and backward: implement Loss alone, or use no hook and no report that comes "+
			"between them", s.task)
	}
	s.ahead.drop()
	if s.graphs != nil {
		s.graphs.once("micro-batches with a hook or a report between forward and backward")
		s.graphs.gradients(true)
	}
	if err := s.beforeForward(ctx, w); err != nil {
		return err
	}
	return s.stepped(func() error {
		s.mode(true, w.KeepMode)
		loss := s.loss(s.trainingPass(w), b)
		if loss.Value = loss.Value.Keep(); loss.Logged.Defined() {
			loss.Logged = loss.Logged.Keep()
		}
		s.ahead.loss, s.ahead.window, s.ahead.waiting = loss, w, true
		divisor := w.Divisor
		if loss.whole {
			divisor = 1
		}
		s.ahead.forget()
		s.ahead.last, s.ahead.divisor = loss.Value.Detach().Keep(), divisor
		if o, ok := s.task.(LossObserver[B]); ok {
			o.ObserveLoss(b, loss.Value.Detach().DivScalar(divisor))
		}
		return nil
	})
}

// Backward adds the gradient of the last Forward.
func (s *Step[S, B]) Backward(ctx context.Context) error {
	if !s.ahead.waiting {
		return errors.New("engine: Backward without a Forward before it")
	}
	return s.gather(s.ahead.window, func() torch.Tensor {
		defer s.ahead.free()
		return s.backward(ctx, s.ahead.loss, s.ahead.window)
	})
}

// BatchLoss waits for the device and returns the loss of the last Forward or Eval.
func (s *Step[S, B]) BatchLoss() (l trainer.BatchLoss, err error) {
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
	if !s.ahead.last.Defined() {
		return l, errNoLoss
	}
	err = scoped(func() error {
		value := mean(s.ahead.last)
		l.Loss = value.Item()
		l.Divided = l.Loss
		if s.ahead.divisor != 1 {
			l.Divided = value.DivScalar(s.ahead.divisor).Item()
		}
		return nil
	})
	return l, err
}

var errNoLoss = errors.New("engine: BatchLoss: the batch has no loss, since it has no labels or none has been seen yet")
