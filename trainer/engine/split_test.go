package engine_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// between is a hook that counts the forward passes and keeps their losses.
type between struct {
	losses []trainer.BatchLoss
	stopAt int
	aside  string // an evaluation with this name before the second backward pass; empty: none
}

func (b *between) AfterForward(r *trainer.Run) error {
	loss, err := r.BatchLoss()
	if err != nil {
		return err
	}
	b.losses = append(b.losses, loss)
	if _, ok := r.Batch().(engine.Examples); !ok {
		return fmt.Errorf("Run.Batch is a %T", r.Batch())
	}
	if b.aside != "" && len(b.losses) == 2 {
		if _, err := r.Evaluate(b.aside); err != nil {
			return err
		}
	}
	if len(b.losses) == b.stopAt {
		return trainer.StopError("as asked")
	}
	return nil
}

func TestForwardAndBackwardAreTrainInTwoParts(t *testing.T) {
	run := func(hooks ...any) (string, *trainer.Result) {
		s := newStep(t, engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
		tr, err := trainer.New(s, quiet(trainer.Options{Epochs: 1, BatchSize: 4, Accumulate: 3,
			Log: trainer.Every(1, trainer.Update), Callbacks: hooks}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), ring(22), nil)
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint(s), r
	}
	whole, a := run()
	hook := new(between)
	split, b := run(hook)
	if whole != split {
		t.Errorf("weights after Forward and Backward differ from those after Train")
	}
	if a.TrainLoss != b.TrainLoss || len(hook.losses) != 6 {
		t.Errorf("train losses are %v and %v, %d forward passes seen, want equal ones and 6", a.TrainLoss, b.TrainLoss,
			len(hook.losses))
	}
	sum := 0.0
	for _, l := range hook.losses {
		sum += l.Divided
		if want := l.Loss / 3; math.Abs(l.Divided-want) > 1e-6 {
			t.Errorf("divided loss is %v, want %v", l.Divided, want)
		}
	}
	if want := b.TrainLoss * float64(b.GlobalStep); math.Abs(sum-want) > 1e-5 {
		t.Errorf("divided losses add up to %v, the log says %v", sum, want)
	}
}

func TestAStopBeforeBackwardLeavesTheWeightsOfTheLastUpdate(t *testing.T) {
	fit := func(o trainer.Options) (string, *trainer.Result) {
		s := newStep(t, engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
		o.BatchSize = 4
		tr, err := trainer.New(s, quiet(o))
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), ring(32), nil)
		if err != nil {
			t.Fatal(err)
		}
		return parameters(s), r
	}
	short, _ := fit(trainer.Options{MaxSteps: 3, Schedule: lr.Constant{}})
	stopped, r := fit(trainer.Options{Epochs: 1, Schedule: lr.Constant{}, Callbacks: []any{&between{stopAt: 4}}})
	if short != stopped || r.GlobalStep != 3 || r.StopReason != "as asked" {
		t.Errorf("stopped before the backward pass of the fourth batch: step %d, %q, weights %s, want 3, \"as "+
			"asked\", %s", r.GlobalStep, r.StopReason, stopped, short)
	}
}

// parameters returns a fingerprint of what updates change.
func parameters(s *step) string {
	h := sha256.New()
	for _, p := range nn.Params(s.Model()) {
		h.Write(p.Tensor.Bytes())
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

func TestEvaluationBetweenForwardAndBackwardChangesNothingButTheGenerator(t *testing.T) {
	for _, stay := range []bool{false, true} {
		s := newStep(t, engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
		modes := &modeHook{s: s}
		tr, err := trainer.New(s, quiet(trainer.Options{
			Epochs: 2, BatchSize: 8, EvalBatchSize: 8, Semantics: semantics.Rules{StayInEvalMode: stay},
			Callbacks: []any{modes, &between{aside: "aside"}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fit(t.Context(), ring(32), ring(16)); err != nil {
			t.Fatal(err)
		}
		want := "true true true true true true true true"
		if stay { // from the third batch to the end of the first epoch
			want = "true true false false true true true true"
		}
		if got := modes.text(); got != want {
			t.Errorf("stay %v: training modes of the forward passes are %s, want %s", stay, got, want)
		}
	}
}

// modeHook records in which mode each forward pass was made.
type modeHook struct {
	s     *step
	modes []bool
}

func (m *modeHook) AfterForward(*trainer.Run) error {
	m.modes = append(m.modes, m.s.Model().(*net).Dropout.Training())
	return nil
}

func (m *modeHook) text() string { return strings.Trim(fmt.Sprint(m.modes), "[]") }

func TestSeedMayKeepTheModel(t *testing.T) {
	testenv.RequireTorch(t)
	s, err := engine.NewFromInit(func() (engine.Task[data.Example, engine.Examples],
		error) {
		return engine.Classify(newNet()), nil
	}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := s.Model()
	if err := s.Seed(7, trainer.SeedOptions{KeepModel: true}); err != nil || s.Model() != before {
		t.Errorf("Seed with KeepModel = %v, model made again: %v; want the same model", err, s.Model() != before)
	}
	if err := s.Seed(7, trainer.SeedOptions{}); err != nil || s.Model() == before {
		t.Errorf("Seed = %v, model made again: %v; want another model", err, s.Model() != before)
	}
}

func TestBackwardNeedsAForward(t *testing.T) {
	s := newStep(t, engine.Options{})
	if err := s.Backward(t.Context()); err == nil {
		t.Error("Backward without a Forward = nil, want an error")
	}
	if _, err := s.BatchLoss(); err == nil {
		t.Error("BatchLoss without a batch = nil, want an error")
	}
}
