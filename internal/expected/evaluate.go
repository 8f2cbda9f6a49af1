package expected

import (
	"context"
	"io"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// evaluation is an entry of "evaluate_cases": the results of evaluating y = ax + b for given a and
// b.
type evaluation struct {
	A, B     float32
	Loss     float64  `json:"eval_loss_mse"`
	Accuracy *float64 `json:"almost_accuracy_thresh_0_25"` // share of predictions within 0.25
	// The same after preprocessing has increased the predictions by one.
	AccuracyPlusOne *float64 `json:"almost_accuracy_logits_plus_1"`
}

// almost is the tolerance of Hugging Face's AlmostAccuracy.
const almost = 0.25

func readEvaluations(d *document) []Entry {
	sets := pointSets(d)
	return entriesOf(d, "evaluate_cases", func(name string, c evaluation) {
		set, ok := sets[name]
		if !ok {
			unsupported("there is no data set %q; there are %q", name, names(sets))
		}
		c.run(set)
	})
}

func (c evaluation) run(set data.Slice[point]) {
	for _, shift := range []struct {
		by   float32
		want *float64
	}{{0, c.Accuracy}, {1, c.AccuracyPlusOne}} {
		m := evaluateLine(c.A, c.B, shift.by, set)
		near("loss", m["loss"], c.Loss, 0, 1e-5) // five decimals, as in Hugging Face's test
		if shift.want != nil {
			near("accuracy", m["accuracy"], *shift.want, 0, 1e-9)
		}
	}
}

// evaluateLine evaluates a line whose predictions are shifted before the accuracy is computed.
func evaluateLine(a, b, shift float32, set data.Slice[point]) trainer.Metrics {
	recorded.Load()
	l := newLine(a, b)
	step := spec.Must(engine.New[point, points](&almostTask{Task: l.task(), line: l, shift: shift}, engine.Options{}))
	t := spec.Must(trainer.New(step, trainer.Options{Semantics: semantics.HuggingFace, Progress: io.Discard}))
	return spec.Must(t.Evaluate(context.Background(), set))
}

// almostTask is the task of a line that counts how often predictions are almost right.
type almostTask struct {
	engine.Task[point, points]
	line        *line
	shift       float32
	right, seen int
}

func (j *almostTask) Evaluate(p engine.ForwardPass, b points) engine.Loss {
	predicted := j.line.Forward(engine.Input(p, b.x))
	for i, v := range torch.Values[float32](predicted) {
		j.seen++
		if math.Abs(float64(v+j.shift)-float64(b.y[i])) <= almost {
			j.right++
		}
	}
	return engine.Mean(predicted.MSELoss(engine.Input(p, b.y), torch.ReductionMean), len(b.x))
}

func (j *almostTask) Metrics() map[string]float64 {
	share := float64(j.right) / float64(j.seen)
	j.right, j.seen = 0, 0
	return map[string]float64{"accuracy": share}
}
