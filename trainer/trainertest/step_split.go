package trainertest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/trainer"
)

// forward is a forward pass that waits for its backward pass.
type forward struct {
	gradients uint64
	loss      float64 // divided
	window    trainer.Window
}

// Train implements trainer.Step.
func (s *Step) Train(ctx context.Context, batch []int, w trainer.Window) error {
	if err := s.begin("train", "train("+batchText(batch, w)+")"); err != nil {
		return err
	}
	s.forward(batch, w)
	return s.backward()
}

// Forward implements trainer.SplitStep.
func (s *Step) Forward(_ context.Context, batch []int, w trainer.Window) error {
	if err := s.begin("forward", "forward("+batchText(batch, w)+")"); err != nil {
		return err
	}
	s.forward(batch, w)
	return nil
}

// Backward implements trainer.SplitStep.
func (s *Step) Backward(context.Context) error {
	if err := s.begin("backward", "backward"); err != nil {
		return err
	}
	return s.backward()
}

// BatchLoss implements trainer.SplitStep.
func (s *Step) BatchLoss() (trainer.BatchLoss, error) {
	return s.lately, s.begin("batchloss", "batchloss")
}

func batchText(batch []int, w trainer.Window) string {
	text := join(batch)
	if w.Divisor != 1 {
		text += "/" + number(w.Divisor)
	}
	if w.Items > 0 {
		text += fmt.Sprintf(" of %d", w.Items)
	}
	return text
}

func (s *Step) forward(batch []int, w trainer.Window) {
	st := &s.state
	st.Micro++
	f := &forward{gradients: st.Gradients, window: w}
	for _, v := range batch {
		f.gradients = mix(f.gradients, uint64(v))
	}
	if !w.KeepMode {
		f.gradients = mix(f.gradients, st.Generator) // dropout
		st.Generator = mix(st.Generator, 2)
	}
	loss := float64(mix(st.Weights, f.gradients)>>44) / (1 << 20)
	f.gradients = mix(mix(f.gradients, math.Float64bits(w.Divisor)), uint64(w.Items))
	if s.Loss != nil {
		loss = s.Loss(st.Micro, batch)
	}
	f.loss = loss / w.Divisor
	s.lately = trainer.BatchLoss{Loss: loss, Divided: f.loss}
	s.ahead = f
}

func (s *Step) backward() error {
	if s.ahead == nil {
		return errors.New("trainertest: Backward without a Forward before it")
	}
	st, f := &s.state, s.ahead
	s.ahead = nil
	st.Gradients = f.gradients
	s.skip = s.skip || f.window.SkipNonFinite && (math.IsNaN(f.loss) || math.IsInf(f.loss, 0))
	if f.window.FilterLoss && (math.IsNaN(f.loss) || math.IsInf(f.loss, 0)) {
		f.loss = st.LossSum / float64(1+f.window.SinceLog)
	}
	st.LossSum += f.loss
	return nil
}
