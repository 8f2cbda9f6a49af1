package engine_test

import (
	"context"
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// watchedTask sees the losses of its training.
type watchedTask struct {
	engine.Task[data.Example, engine.Examples]
	losses []float64
	rows   []int
}

func (w *watchedTask) ObserveLoss(b engine.Examples, loss torch.Tensor) {
	w.losses = append(w.losses, loss.Item())
	w.rows = append(w.rows, len(b.Classes))
}

func TestLossesAndNormsAreShown(t *testing.T) {
	testenv.RequireTorch(t)
	net := newNet()
	task := &watchedTask{Task: engine.Classify(net)}
	step, err := engine.New[data.Example, engine.Examples](task, engine.Options{Optimizer: optim.SGD{LR: 0.1},
		MaxGradNorm: math.Inf(1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := step.GradNorm(); ok || err != nil {
		t.Errorf("before the first update there is a norm: %v (%v)", ok, err)
	}
	ctx := context.Background()
	for i, n := range []int{4, 2} {
		b, err := step.Collate(ring(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := step.Train(ctx, b, trainer.Window{Index: i, Len: 2, Divisor: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if err := step.Clip(ctx); err != nil {
		t.Fatal(err)
	}
	if len(task.losses) != 2 || task.rows[0] != 4 || task.rows[1] != 2 {
		t.Fatalf("losses %v of batches of %v rows", task.losses, task.rows)
	}
	report, err := step.Report(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if want := float64(float32(task.losses[0]) + float32(task.losses[1])); report.LossSum != want {
		t.Errorf("the losses add up to %g, reported were %g: LossObserver must see the loss that is passed to backward", want,
			report.LossSum)
	}
	if norm, ok, err := step.GradNorm(); !ok || err != nil || norm != report.GradNorm || !(norm > 0) {
		t.Errorf("norm %g, %v (%v); reported was %g", norm, ok, err, report.GradNorm)
	}
}

func TestTheStepTellsWhetherItsOptimizerIsFused(t *testing.T) {
	testenv.RequireTorch(t)
	for implementation, want := range map[optim.Implementation]bool{optim.Fused: true, optim.ForLoop: false,
		optim.Foreach: false} {
		s := newStep(t, engine.Options{Optimizer: optim.AdamW{LR: 0.1, Implementation: implementation}})
		if got := s.About().Fused; got != want {
			t.Errorf("%s: About().Fused = %v, want %v", implementation, got, want)
		}
	}
}
