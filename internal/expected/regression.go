package expected

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Tolerances between float32 runs with different kernels after some dozens of updates.
const runRTol, runATol = 2e-5, 2e-6

// trajectory is an entry of "trajectories": training y = ax + b from a = b = 0 on samples in order,
// with the rows of its log.
type trajectory struct {
	Optimizer   string
	LR          float64
	Momentum    *float64
	Betas       []float64
	Eps         *float64
	WeightDecay *float64 `json:"weight_decay"`

	N            int     // which data set
	BatchSize    int     `json:"batch_size"`
	Accumulation int     `json:"gradient_accumulation"`
	Epochs       float64 // passes over the data set
	MaxGradNorm  float64 `json:"max_grad_norm"` // 0: not limited
	Schedule     string
	Warmup       float64 `json:"warmup_steps"`

	TotalUpdates int `json:"total_updates"`
	Final        lineValues
	Log          []lineRow
}

type lineValues struct{ A, B float64 }

type lineRow struct {
	Step          int
	LR            float64
	GradNorm      float64 `json:"grad_norm_before_clip"`
	LastMicroLoss float64 `json:"last_micro_loss"`
	A, B          float64
}

func readTrajectories(d *document) []Entry {
	sets := pointSets(d)
	return entriesOf(d, "trajectories", func(_ string, c trajectory) {
		set, ok := sets[fmt.Sprint(c.N)]
		if !ok {
			unsupported("there is no data set %d; there are %q", c.N, names(sets))
		}
		c.run(set)
	})
}

// run trains like Hugging Face's Trainer, except that every micro-batch is divided by the
// accumulation steps, even in a short window: the files were computed this way.
func (c trajectory) run(set data.Slice[point]) {
	recorded.Load()
	rules := semantics.HuggingFace
	rules.Divisor = semantics.Accumulate
	if c.MaxGradNorm == 0 {
		c.MaxGradNorm = math.Inf(1)
	}
	l := newLine(0, 0)
	step := supported(engine.New(l.task(), engine.Options{Optimizer: c.builder(), MaxGradNorm: c.MaxGradNorm}))
	watch := &lineWatch{line: l, want: c.Log}
	t := supported(trainer.New(step, trainer.Options{Epochs: c.Epochs, BatchSize: c.BatchSize,
		Accumulate: c.Accumulation, LearningRate: c.LR, Schedule: supported(lr.ByName(c.Schedule, nil, c.Warmup)),
		Order: data.Sequential{}, Log: trainer.Every(1, trainer.Update), Semantics: rules, Callbacks: []any{watch},
		Progress: io.Discard}))
	result := spec.Must(t.Fit(context.Background(), set, nil))
	spec.Check(watch.failed)
	equal("the number of updates", result.GlobalStep, c.TotalUpdates)
	if watch.rows != len(c.Log) {
		spec.Failf("%d rows of the log were compared, want %d", watch.rows, len(c.Log))
	}
	l.near("the end", c.Final)
}

func (c trajectory) builder() optim.Builder {
	options := map[string]any{"lr": c.LR, "momentum": c.Momentum, "eps": c.Eps, "weight_decay": c.WeightDecay,
		"betas": c.Betas}
	maps.DeleteFunc(options, func(_ string, v any) bool { return reflect.ValueOf(v).IsZero() })
	return builderOf(c.Optimizer, spec.Must(json.Marshal(options)))
}

// lineWatch compares the log of a run row by row.
type lineWatch struct {
	line   *line
	want   []lineRow
	rows   int
	failed error
}

func (w *lineWatch) AfterLog(r *trainer.Run, row trainer.Logs) error {
	if _, ok := row["loss"]; !ok || w.failed != nil {
		return nil
	}
	for _, want := range w.want {
		if want.Step != r.GlobalStep {
			continue
		}
		w.rows++
		at := fmt.Sprintf("update %d", want.Step)
		w.failed = spec.Try(func() {
			near(at+": learning rate", row["learning_rate"], want.LR, runRTol, runATol)
			near(at+": gradient norm", row["grad_norm"], want.GradNorm, runRTol, runATol)
			near(at+": last micro-batch's loss", w.line.lastLoss, want.LastMicroLoss, runRTol, runATol)
			w.line.near(at, lineValues{want.A, want.B})
		})
	}
	return nil
}

// point is a sample of the data set y = ax + b + noise.
type point struct{ x, y float32 }

// pointSets returns the data sets by name.
func pointSets(d *document) map[string]data.Slice[point] {
	sets := map[string]data.Slice[point]{}
	for name, s := range decode[map[string]struct{ X, Y []float32 }](d.fields["datasets"]) {
		if len(s.X) != len(s.Y) {
			spec.Failf("data set %q has %d x and %d y", name, len(s.X), len(s.Y))
		}
		for i, x := range s.X {
			sets[name] = append(sets[name], point{x, s.Y[i]})
		}
	}
	return sets
}

// line is the model y = ax + b.
type line struct {
	A torch.Tensor `param:"a"`
	B torch.Tensor `param:"b"`

	lastLoss float64 // of the last micro-batch
}

func newLine(a, b float32) *line {
	return &line{A: nn.Parameter(torch.From([]float32{a})), B: nn.Parameter(torch.From([]float32{b}))}
}

func (l *line) Forward(x torch.Tensor) torch.Tensor { return x.Mul(l.A).Add(l.B) }

func (l *line) values() lineValues { return lineValues{l.A.Detach().Item(), l.B.Detach().Item()} }

func (l *line) near(at string, want lineValues) {
	got := l.values()
	near(at+": a", got.A, want.A, runRTol, runATol)
	near(at+": b", got.B, want.B, runRTol, runATol)
}

// points is a batch.
type points struct{ x, y []float32 }

func collatePoints(samples []point) (points, error) {
	var b points
	for _, s := range samples {
		b.x, b.y = append(b.x, s.x), append(b.y, s.y)
	}
	return b, nil
}

// task returns the mean squared error of the line as a task.
func (l *line) task() engine.Task[point, points] {
	return engine.TaskFunc(l, collatePoints, func(p engine.ForwardPass, b points) engine.Loss {
		loss := l.Forward(engine.Input(p, b.x)).MSELoss(engine.Input(p, b.y), torch.ReductionMean)
		l.lastLoss = loss.Item()
		return engine.Mean(loss, len(b.x))
	})
}
