package accelerate_test

import (
	"context"
	"testing"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// points returns points on the line y = 2x + 1.
func points(n int) data.Dataset[[2]float32] {
	return data.Func(n, func(i int) ([2]float32, error) {
		x := float32(i%5) / 4
		return [2]float32{x, 2*x + 1}, nil
	})
}

func collate(samples [][2]float32) ([][2]float32, error) { return samples, nil }

// run is a small training run, set up as a user would.
type run struct {
	acc   *accelerate.Accelerator
	model *nn.Linear
	opt   *accelerate.Optimizer
	sched *accelerate.Schedule
	train *accelerate.Loader[[2]float32, [][2]float32]
}

func newRun(t *testing.T, o accelerate.Options, l accelerate.LoaderOptions, samples int, s lr.Schedule,
	updates int) *run {
	t.Helper()
	acc, err := accelerate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := accelerate.SetSeed(1); err != nil {
		t.Fatal(err)
	}
	r := &run{acc: acc, model: nn.NewLinear(1, 1, nil)}
	if err := acc.PrepareModel(r.model); err != nil {
		t.Fatal(err)
	}
	r.opt = acc.PrepareOptimizer(optim.NewSGD(nn.Params(r.model), optim.SGD{Momentum: 0.9}), 0.1)
	if r.train, err = accelerate.PrepareLoader(acc, points(samples), collate, l); err != nil {
		t.Fatal(err)
	}
	if r.sched, err = acc.PrepareSchedule(r.opt, s, updates); err != nil {
		t.Fatal(err)
	}
	return r
}

// step is the body of Accumulate.
func (r *run) step(b [][2]float32) error {
	x, y := columns(b)
	r.acc.Backward(r.model.Forward(x).MSELoss(y, torch.ReductionMean))
	if r.acc.SyncGradients() {
		if _, err := r.acc.ClipGradNorm(nn.Params(r.model), 1); err != nil {
			return err
		}
	}
	if err := r.opt.Step(); err != nil {
		return err
	}
	if err := r.sched.Step(); err != nil {
		return err
	}
	r.opt.ZeroGrad()
	return nil
}

// pass trains on the batches of a loader and calls after following each one.
func (r *run) pass(t *testing.T, l *accelerate.Loader[[2]float32, [][2]float32], after func(batch int)) {
	t.Helper()
	i := 0
	for b, err := range l.Batches(context.Background()) {
		if err == nil {
			err = r.acc.Accumulate(func() error { return r.step(b) })
		}
		if err != nil {
			t.Fatal(err)
		}
		i++
		if after != nil {
			after(i)
		}
	}
}

func (r *run) weights() [2]float64 {
	return [2]float64{r.model.Weight.Item(), r.model.Bias.Item()}
}
