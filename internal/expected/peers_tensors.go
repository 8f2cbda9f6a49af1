package expected

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Claims about numbers that do not depend on the peer's data: they hold for any points near a line.

// noisyLine returns points near y = 2x + 3.
func noisyLine(n int) data.Slice[point] {
	set := make(data.Slice[point], n)
	for i := range set {
		x := math.Sin(float64(i) * 1.7)
		set[i] = point{float32(x), float32(2*x + 3 + 0.4*math.Sin(float64(i)*5.3))}
	}
	return set
}

// trainLine trains a line from a = b = 0.
func trainLine(o trainer.Options, set data.Slice[point]) (lineValues, *trainer.Result) {
	recorded.Load()
	l := newLine(0, 0)
	o.Semantics, o.Progress = semantics.HuggingFace, io.Discard
	t := spec.Must(trainer.New(spec.Must(engine.New(l.task(), engine.Options{})), o))
	r := spec.Must(t.Fit(context.Background(), set, nil))
	return l.values(), r
}

// sameGradients: accumulating two batches of 4 trains like batches of 8, within the tolerance of
// torch.testing.assert_close.
func sameGradients(prose) {
	set := noisyLine(64)
	whole, _ := trainLine(trainer.Options{BatchSize: 8, LearningRate: 0.1}, set)
	halves, _ := trainLine(trainer.Options{BatchSize: 4, Accumulate: 2, LearningRate: 0.1}, set)
	const rtol, atol = 1.3e-6, 1e-5
	near("a under accumulation", halves.A, whole.A, rtol, atol)
	near("b under accumulation", halves.B, whole.B, rtol, atol)
}

// peerEvaluation: the loss is the mean over rows, for any size of the last batch; a shift before
// the metrics does not change the loss.
type peerEvaluation struct {
	prose
	A, B    float32
	EvalLen []int `json:"eval_len"`
}

func (c peerEvaluation) run() {
	if len(c.EvalLen) == 0 {
		unsupported("there is no eval_len")
	}
	for _, n := range c.EvalLen {
		set := noisyLine(n)
		sum, right, rightPlusOne := 0.0, 0.0, 0.0
		for _, p := range set {
			predicted := p.x*c.A + c.B
			d := float64(predicted) - float64(p.y)
			sum += d * d
			if math.Abs(d) <= almost {
				right++
			}
			if math.Abs(float64(predicted+1)-float64(p.y)) <= almost {
				rightPlusOne++
			}
		}
		rows := float64(n)
		e := evaluation{A: c.A, B: c.B, Loss: sum / rows, Accuracy: new(right / rows),
			AccuracyPlusOne: new(rightPlusOne / rows)}
		if err := spec.Try(func() { e.run(set) }); err != nil {
			spec.Failf("%d samples: %w", n, err)
		}
	}
}

// adamW: the optimizer finds the least-squares solution for a vector.
type adamW struct {
	prose
	W0, Target []float64
	Loss       string
	Optimizer  string
	Steps      int
	Expect     []float64 // a number instead of words
	Tol        float64
}

func (c adamW) run() {
	if c.Loss != "MSE" || c.Optimizer != "AdamW lr 0.2 wd 0" {
		unsupported("loss %q and optimizer %q; want MSE and AdamW lr 0.2 wd 0", c.Loss, c.Optimizer)
	}
	if len(c.W0) != len(c.Target) || len(c.W0) != len(c.Expect) || len(c.W0) == 0 {
		unsupported("w0, target and expect have %d, %d and %d values; want as many of each", len(c.W0),
			len(c.Target), len(c.Expect))
	}
	recorded.Load()
	torch.Scope(func() {
		w, target := nn.Parameter(torch.From(c.W0)), torch.From(c.Target)
		opt := optim.NewAdamW([]torch.Named{{Name: "w", Tensor: w}}, optim.AdamW{WeightDecay: new(0.0)})
		for range c.Steps {
			torch.Scope(func() {
				w.MSELoss(target, torch.ReductionMean).Backward()
				opt.Step(0.2)
				opt.ZeroGrad()
			})
		}
		allNear("weight", at(torch.Values[float64](w.Detach())), c.Expect, 0, c.Tol)
	})
}

// resume: a run that resumes from a checkpoint ends like the whole run, bit for bit, with the same
// log; the checkpoint must exist.
type resume struct {
	prose
	Samples    int     `json:"train_len"`
	Total      int     `json:"total_steps"`
	Save       int     `json:"save_steps"`
	Rate       float64 `json:"lr"`
	ResumeFrom []int   `json:"resume_from"`
}

func (c resume) run() {
	if len(c.ResumeFrom) == 0 {
		unsupported("there is no resume_from")
	}
	dir := spec.Must(os.MkdirTemp("", "expected-"))
	defer os.RemoveAll(dir)
	set := noisyLine(c.Samples)
	train := func(name string, from int) (lineValues, *trainer.Result) {
		o := trainer.Options{OutputDir: filepath.Join(dir, name), LearningRate: c.Rate,
			Save: trainer.Every(c.Save, trainer.Update), Log: trainer.Every(c.Save, trainer.Update)}
		if from > 0 {
			o.ResumeFrom = filepath.Join(dir, "whole", fmt.Sprintf("checkpoint-%d", from))
		}
		return trainLine(o, set)
	}
	whole, result := train("whole", 0)
	equal("the number of updates", result.GlobalStep, c.Total)
	for _, from := range c.ResumeFrom {
		part, again := train(fmt.Sprint("from", from), from)
		equal(fmt.Sprintf("resumed from %d: the end", from), part, whole)
		sameHistory(fmt.Sprintf("resumed from %d", from), again.History, result.History)
	}
	if spec.Try(func() { train("nowhere", 999999) }) == nil {
		spec.Failf("resuming from a checkpoint that is not there is no error")
	}
}

// sameHistory compares logs, ignoring timings and the totals of a session at the end of a run.
func sameHistory(what string, got, want []trainer.Logs) {
	equal(what+": the number of rows of the log", len(got), len(want))
	for i := range want {
		a, b := maps.Clone(got[i]), maps.Clone(want[i])
		for _, row := range []trainer.Logs{a, b} {
			maps.DeleteFunc(row, func(name string, _ float64) bool {
				return name == "train_loss" || strings.HasSuffix(name, "_runtime") || strings.HasSuffix(name,
					"_per_second")
			})
		}
		if !maps.Equal(a, b) {
			spec.Failf("%s: row %d of the log is %v, want %v", what, i, a, b)
		}
	}
}
