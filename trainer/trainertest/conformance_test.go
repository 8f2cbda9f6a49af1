package trainertest

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
)

func TestTheRecordingStepConforms(t *testing.T) {
	TestStep(t, func(*testing.T) trainer.Step[int, []int] { return new(Step) }, []int{3, 1, 4, 1, 5})
}

// Each broken step breaks one promise; the check of that promise must fail.

type forgetful struct{ Step } // keeps the loss after a report

func (s *forgetful) Report(ctx context.Context) (trainer.Report, error) {
	sum := s.state.LossSum
	r, err := s.Step.Report(ctx)
	s.state.LossSum = sum
	return r, err
}

type undivided struct{ Step }

func (s *undivided) Train(ctx context.Context, b []int, w trainer.Window) error {
	w.Divisor = 1
	return s.Step.Train(ctx, b, w)
}

type trainsOnEval struct{ Step }

func (s *trainsOnEval) Eval(ctx context.Context, b []int) error {
	s.state.Generator++
	return s.Step.Eval(ctx, b)
}

type keepsRows struct{ Step }

func (s *keepsRows) Metrics(ctx context.Context) (trainer.Metrics, error) {
	rows := s.rows
	m, err := s.Step.Metrics(ctx)
	s.rows = rows
	return m, err
}

type losesGenerator struct{ Step }

func (s *losesGenerator) Load(dir string, o trainer.LoadOptions) error {
	err := s.Step.Load(dir, o)
	s.state.Generator = 0
	return err
}

type loadsHalf struct{ Step }

func (s *loadsHalf) Load(dir string, o trainer.LoadOptions) error {
	s.state.Weights = 0
	return s.Step.Load(dir, o)
}

type keepsWeights struct{ Step }

func (s *keepsWeights) Load(dir string, o trainer.LoadOptions) error {
	if o.WeightsOnly {
		return nil
	}
	return s.Step.Load(dir, o)
}

type random struct{ Step }

func (s *random) Train(ctx context.Context, b []int, w trainer.Window) error {
	s.state.Generator = rand.Uint64()
	return s.Step.Train(ctx, b, w)
}

type saysNothing struct{ Step }

func (s *saysNothing) Load(dir string, o trainer.LoadOptions) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		return nil
	}
	return s.Step.Load(dir, o)
}

type copiesNothing struct{ Step }

func (s *copiesNothing) Save(dir string, o trainer.SaveOptions) error {
	if o.Later == nil {
		return s.Step.Save(dir, o)
	}
	o.Later(func() ([]string, error) { return nil, s.Step.Save(dir, trainer.SaveOptions{}) })
	return nil
}

type keepsGradients struct{ Step }

func (s *keepsGradients) ZeroGrad() error { return nil }

type alwaysFull struct{ Step }

func (s *alwaysFull) OutOfMemory(error) bool { return true }

type noBackward struct{ Step }

func (s *noBackward) Backward(context.Context) error { s.ahead = nil; return nil }

type forgetsWeights struct{ Step }

func (s *forgetsWeights) Seed(seed uint64, _ trainer.SeedOptions) error {
	s.state = state{Generator: seed}
	return nil
}

func TestBrokenStepsAreFoundOut(t *testing.T) {
	for _, c := range []struct {
		claim string
		step  func() trainer.Step[int, []int]
	}{
		{"the same run twice", func() trainer.Step[int, []int] { return new(random) }},
		{"a report starts over", func() trainer.Step[int, []int] { return new(forgetful) }},
		{"a loss is divided", func() trainer.Step[int, []int] { return new(undivided) }},
		{"an evaluation leaves", func() trainer.Step[int, []int] { return new(trainsOnEval) }},
		{"metrics start over", func() trainer.Step[int, []int] { return new(keepsRows) }},
		{"a saved step continues", func() trainer.Step[int, []int] { return new(losesGenerator) }},
		{"a folder that cannot be loaded", func() trainer.Step[int, []int] { return new(loadsHalf) }},
		{"a folder that cannot be loaded", func() trainer.Step[int, []int] { return new(saysNothing) }},
		{"loaded weights", func() trainer.Step[int, []int] { return new(keepsWeights) }},
		{"what is written later", func() trainer.Step[int, []int] { return new(copiesNothing) }},
		{"forward and backward", func() trainer.Step[int, []int] { return new(noBackward) }},
		{"seeds that begin again", func() trainer.Step[int, []int] { return new(forgetsWeights) }},
		{"gradients that are zeroed", func() trainer.Step[int, []int] { return new(keepsGradients) }},
		{"a decorator around the step", func() trainer.Step[int, []int] { return new(random) }},
		{"an out-of-memory error", func() trainer.Step[int, []int] { return new(alwaysFull) }},
	} {
		found := false
		for _, k := range checks[int, []int]() {
			if !strings.HasPrefix(k.claim, c.claim) {
				continue
			}
			found = true
			b := &bench[int, []int]{t: t, newStep: func(*testing.T) trainer.Step[int, []int] { return c.step() },
				samples: []int{3, 1, 4, 1, 5}}
			if err := k.run(b); err == nil {
				t.Errorf("%T passes the check %q", c.step(), k.claim)
			}
		}
		if !found {
			t.Errorf("no check is called %q...", c.claim)
		}
	}
}
