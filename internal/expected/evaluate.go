package expected

import (
	"context"
	"io"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// evaluation is an entry of "evaluate_cases": what an evaluation of y = ax + b says at fixed a and
// b.
type evaluation struct {
	A, B     float32
	Loss     float64  `json:"eval_loss_mse"`
	Accuracy *float64 `json:"almost_accuracy_thresh_0_25"` // share of predictions within 0.25
	// the same of predictions that a preprocessing made larger by one
	AccuracyPlusOne *float64 `json:"almost_accuracy_logits_plus_1"`
}

// almost is how far a prediction may lie beside its target, in Hugging Face's AlmostAccuracy.
const almost = 0.25

func readEvaluations(d *document) ([]Entry, error) {
	sets, err := pointSets(d)
	if err != nil {
		return nil, err
	}
	return entriesOf(d, "evaluate_cases", func(name string, c evaluation) error {
		set, ok := sets[name]
		if !ok {
			return unsupported("there is no data set %q; there are %q", name, names(sets))
		}
		return c.run(set)
	})
}

func (c evaluation) run(set data.Slice[point]) error {
	for _, shift := range []struct {
		by   float32
		want *float64
	}{{0, c.Accuracy}, {1, c.AccuracyPlusOne}} {
		m, err := evaluateLine(c.A, c.B, shift.by, set)
		if err != nil {
			return err
		}
		if err := near("loss", m["loss"], c.Loss, 0, 1e-5); err != nil { // as Hugging Face's test: five places
			return err
		}
		if shift.want != nil {
			if err := near("accuracy", m["accuracy"], *shift.want, 0, 1e-9); err != nil {
				return err
			}
		}
	}
	return nil
}

// evaluateLine evaluates a line whose predictions are shifted before the accuracy is taken.
func evaluateLine(a, b, shift float32, set data.Slice[point]) (trainer.Metrics, error) {
	if err := torch.Load(); err != nil {
		return nil, unsupported("%v", err)
	}
	l := newLine(a, b)
	step, err := engine.New[point, points](&judged{Task: l.task(), line: l, shift: shift}, engine.Options{})
	if err != nil {
		return nil, err
	}
	t, err := trainer.New(step, trainer.Options{Semantics: semantics.HuggingFace, Progress: io.Discard})
	if err != nil {
		return nil, err
	}
	return t.Evaluate(context.Background(), set)
}

// judged is the task of a line that counts how often it is almost right.
type judged struct {
	engine.Task[point, points]
	line        *line
	shift       float32
	right, seen int
}

func (j *judged) Evaluate(p engine.Pass, b points) engine.Loss {
	predicted := j.line.Forward(engine.Input(p, b.x))
	for i, v := range torch.Values[float32](predicted) {
		j.seen++
		if math.Abs(float64(v+j.shift)-float64(b.y[i])) <= almost {
			j.right++
		}
	}
	return engine.Mean(predicted.MSELoss(engine.Input(p, b.y), torch.ReductionMean), len(b.x))
}

func (j *judged) Metrics() map[string]float64 {
	share := float64(j.right) / float64(j.seen)
	j.right, j.seen = 0, 0
	return map[string]float64{"accuracy": share}
}
