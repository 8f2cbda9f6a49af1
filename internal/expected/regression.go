package expected

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// float32 runs of different kernels agree about this closely after some dozens of updates.
const runRTol, runATol = 2e-5, 2e-6

// trajectory is an entry of "trajectories": a training of y = ax + b from a = b = 0 on samples in
// their order, with the rows of its log.
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

func readTrajectories(d *document) ([]Entry, error) {
	sets, err := pointSets(d)
	if err != nil {
		return nil, err
	}
	return entriesOf(d, "trajectories", func(_ string, c trajectory) error {
		set, ok := sets[fmt.Sprint(c.N)]
		if !ok {
			return unsupported("there is no data set %d; there are %q", c.N, names(sets))
		}
		return c.run(set)
	})
}

// run trains as Hugging Face's Trainer does, but with every micro-batch divided by the
// accumulation, a short window's too: the files are computed so.
func (c trajectory) run(set data.Slice[point]) error {
	if err := torch.Load(); err != nil {
		return unsupported("%v", err)
	}
	builder, err := c.builder()
	if err != nil {
		return err
	}
	schedule, err := lr.ByName(c.Schedule, nil, c.Warmup)
	if err != nil {
		return unsupported("%v", err)
	}
	rules := semantics.HuggingFace
	rules.Divisor = semantics.Accumulate
	if c.MaxGradNorm == 0 {
		c.MaxGradNorm = math.Inf(1)
	}
	l := newLine(0, 0)
	step, err := engine.New(l.task(), engine.Options{Optimizer: builder, MaxGradNorm: c.MaxGradNorm})
	if err != nil {
		return unsupported("%v", err)
	}
	watch := &lineWatch{line: l, want: c.Log}
	t, err := trainer.New(step, trainer.Options{Epochs: c.Epochs, BatchSize: c.BatchSize, Accumulate: c.Accumulation,
		LearningRate: c.LR, Schedule: schedule,
		Order: data.Sequential{}, Log: trainer.Every(1, trainer.Update), Semantics: rules, Callbacks: []any{watch},
		Progress: io.Discard})
	if err != nil {
		return unsupported("%v", err)
	}
	result, err := t.Fit(context.Background(), set, nil)
	switch {
	case err != nil:
		return err
	case watch.failed != nil:
		return watch.failed
	case result.GlobalStep != c.TotalUpdates:
		return fmt.Errorf("there were %d updates, want %d", result.GlobalStep, c.TotalUpdates)
	case watch.rows != len(c.Log):
		return fmt.Errorf("%d rows of the log were compared, want %d", watch.rows, len(c.Log))
	}
	return l.near("the end", c.Final)
}

func (c trajectory) builder() (optim.Builder, error) {
	options := map[string]any{"lr": c.LR, "momentum": c.Momentum, "eps": c.Eps, "weight_decay": c.WeightDecay}
	if c.Betas != nil {
		options["betas"] = c.Betas
	}
	for name, v := range options {
		if f, ok := v.(*float64); ok && f == nil {
			delete(options, name)
		}
	}
	text, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	return builderOf(c.Optimizer, text)
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
		for _, v := range []struct {
			what      string
			got, want float64
		}{{"learning rate", row["learning_rate"], want.LR}, {"gradient norm", row["grad_norm"], want.GradNorm},
			{"last micro-batch's loss", w.line.lastLoss, want.LastMicroLoss}} {
			if w.failed = near(at+": "+v.what, v.got, v.want, runRTol, runATol); w.failed != nil {
				return nil
			}
		}
		w.failed = w.line.near(at, lineValues{want.A, want.B})
	}
	return nil
}

// point is a sample of the data set y = ax + b + noise.
type point struct{ x, y float32 }

// pointSets reads the data sets by their names.
func pointSets(d *document) (map[string]data.Slice[point], error) {
	raw, err := decode[map[string]struct{ X, Y []float32 }](d.fields["datasets"])
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", "datasets", err)
	}
	sets := map[string]data.Slice[point]{}
	for name, s := range raw {
		if len(s.X) != len(s.Y) {
			return nil, fmt.Errorf("data set %q has %d x and %d y", name, len(s.X), len(s.Y))
		}
		for i, x := range s.X {
			sets[name] = append(sets[name], point{x, s.Y[i]})
		}
	}
	return sets, nil
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

func (l *line) near(at string, want lineValues) error {
	got := l.values()
	if err := near(at+": a", got.A, want.A, runRTol, runATol); err != nil {
		return err
	}
	return near(at+": b", got.B, want.B, runRTol, runATol)
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

// task is the mean squared error of the line.
func (l *line) task() engine.Task[point, points] {
	return engine.TaskFunc(l, collatePoints, func(p engine.Pass, b points) engine.Loss {
		loss := l.Forward(engine.Input(p, b.x)).MSELoss(engine.Input(p, b.y), torch.ReductionMean)
		l.lastLoss = loss.Item()
		return engine.Mean(loss, len(b.x))
	})
}
