package classify

import (
	"errors"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Step is a classifier in training.
type Step = engine.Step[Sample, Batch]

// TaskOptions configures [NewTask]. The zero value pads each batch to its longest text and computes
// the metrics that the fields name.
type TaskOptions struct {
	Padding data.Padding // how wide a batch becomes; on the right only

	// Metrics of an evaluation. They get the class and the label of each text; where a text has
	// several labels, 0 or 1 for each of them. Nil: accuracy.
	Metrics []metrics.Metric[int]
	// ValueMetrics are the metrics of a regression; they get each number and what it should be.
	// Nil: mse and mae.
	ValueMetrics []metrics.Metric[float64]

	// SumWindow adds the gradients of the micro-batches of an accumulation window up and does not
	// average them: what transformers 5.17 does with its own classifiers under
	// gradient_accumulation_steps, which makes gradients and logged losses that many times as
	// large.
	SumWindow bool
}

// Task ties a model to labelled texts.
type Task struct {
	model   Model
	head    Head
	limits  Limits
	options TaskOptions

	observed []observed                  // of the running evaluation
	shared   engine.Observations[judged] // the same of all processes, where they share it out
}

// judged is what was predicted of a text, and its labels; a class is a number, too. Where its label
// is to be ignored there is nothing.
type judged struct{ Got, Want []float64 }

// observed is a batch of an evaluation; what the model predicted stays on the device until the end.
type observed struct {
	predicted torch.Tensor // classes, or logits
	batch     Batch
}

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Observer[Batch]     = (*Task)(nil)
	_ engine.ObservationSharer   = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.LabelCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.InputLister[Batch]  = (*Task)(nil)
	_ engine.OptionsValidator    = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
	_ engine.ObservationSorter   = (*Task)(nil)
)

// NewStep makes a model ready for package trainer.
func NewStep(m Model, o TaskOptions, e engine.Options) (*Step, error) {
	task, err := NewTask(m, o)
	if err != nil {
		return nil, err
	}
	return engine.New(task, e)
}

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (*Task, error) {
	t := &Task{model: m, head: m.Head(), limits: m.Limits(), options: o}
	if err := t.limits.CheckPadding("classify", o.Padding); err != nil {
		return nil, err
	}
	switch {
	case len(o.Metrics) > 0 && t.head.ProblemType == Regression:
		return nil, errors.New("classify: TaskOptions.Metrics compare classes, but the model is a regression; want " +
			"ValueMetrics")
	case len(o.ValueMetrics) > 0 && t.head.ProblemType != Regression:
		return nil, errors.New("classify: TaskOptions.ValueMetrics compare numbers, but the model tells classes; " +
			"want Metrics")
	}
	switch {
	case t.head.ProblemType == Regression && o.ValueMetrics == nil:
		t.options.ValueMetrics = []metrics.Metric[float64]{&metrics.MSE{}, &metrics.MAE{}}
	case t.head.ProblemType != Regression && o.Metrics == nil:
		t.options.Metrics = []metrics.Metric[int]{&metrics.Accuracy[int]{}}
	}
	return t, nil
}

// ValidateOptions refuses options that the model cannot have: [inputs.ValidateOptions].
func (t *Task) ValidateOptions(o engine.Options) error {
	return inputs.ValidateOptions("classify", t.model, o)
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict runs the model on a batch: logits and labels.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	logits := b.Forward(p, t.model)
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{t.labels(p, b)}, Rows: b.InputIDs.Rows}
}

func (t *Task) labels(p engine.ForwardPass, b Batch) torch.Tensor {
	if t.head.ProblemType == SingleLabel {
		return engine.Input(p, b.Labels)
	}
	return engine.Input(p, b.Targets, int64(b.InputIDs.Rows), t.head.NumLabels)
}

// Inputs lists what Predict gives the device.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	b.To(p)
	t.labels(p, b)
}

// LossOf is the loss of [Head.Loss].
func (t *Task) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	value := t.head.Loss(o.Logits[0], o.Labels[0])
	if t.options.SumWindow {
		return engine.PerItem(value, o.Rows)
	}
	return engine.Mean(value, o.Rows)
}

// Observe takes note of a batch of an evaluation.
func (t *Task) Observe(b Batch, o engine.Outputs) {
	predicted := o.Logits[0].Detach()
	if t.head.ProblemType == SingleLabel {
		predicted = predicted.ArgMax(-1, false)
	}
	t.observed = append(t.observed, observed{predicted.Keep(), b})
}

// Metrics ends an evaluation.
func (t *Task) Metrics() map[string]float64 {
	for _, j := range t.shared.Noted() {
		for i, got := range j.Got {
			t.add(got, j.Want[i])
		}
	}
	t.judge(func(_ int, got, want float64) { t.add(got, want) })
	if t.head.ProblemType == Regression {
		return engine.Results(t.options.ValueMetrics)
	}
	return engine.Results(t.options.Metrics)
}

// TakeObserved waits for the device and returns what was predicted of the first rows texts since
// the last call.
func (t *Task) TakeObserved(rows int) ([]byte, error) {
	t.note()
	return t.shared.TakeObserved(rows)
}

// SortObserved puts the texts that were observed into another order: engine.ObservationSorter.
func (t *Task) SortObserved(order []int) error {
	t.note()
	return t.shared.SortObserved(order)
}

// note waits for the device and takes note of the texts that were observed.
func (t *Task) note() {
	texts := 0
	for _, o := range t.observed {
		texts += o.batch.InputIDs.Rows
	}
	all := make([]judged, texts)
	t.judge(func(text int, got, want float64) {
		all[text].Got, all[text].Want = append(all[text].Got, got), append(all[text].Want, want)
	})
	t.shared.Note(all...)
}

// AddObserved takes note of what TakeObserved has returned on some process.
func (t *Task) AddObserved(part []byte) error { return t.shared.AddObserved(part) }

// judge waits for the device and tells what was predicted of the texts that were observed.
func (t *Task) judge(tell func(text int, got, want float64)) {
	first := 0
	for _, o := range t.observed {
		torch.Scope(func() { t.judgeBatch(o, first, tell) })
		o.predicted.Free()
		first += o.batch.InputIDs.Rows
	}
	t.observed = nil
}

func (t *Task) judgeBatch(o observed, first int, tell func(text int, got, want float64)) {
	if t.head.ProblemType == SingleLabel {
		for i, got := range torch.Values[int64](o.predicted) {
			if o.batch.Labels[i] != ignored {
				tell(first+i, float64(got), float64(o.batch.Labels[i]))
			}
		}
		return
	}
	for i, got := range torch.Values[float32](o.predicted.ToDType(torch.Float32)) {
		text, got, want := first+i/int(t.head.NumLabels), float64(got), float64(o.batch.Targets[i])
		if t.head.ProblemType == MultiLabel {
			got, want = bit(got > 0), bit(want > 0.5) // a logit of 0 is a probability of one half
		}
		tell(text, got, want)
	}
}

func (t *Task) add(got, want float64) {
	if t.head.ProblemType == Regression {
		for _, m := range t.options.ValueMetrics {
			m.Add(got, want)
		}
		return
	}
	for _, m := range t.options.Metrics {
		m.Add(int(got), int(want))
	}
}

func bit(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// Length is the number of tokens of a sample: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.InputIDs) }

// CountLabels counts the texts that the loss is the mean over: engine.LabelCounter.
func (t *Task) CountLabels(b Batch) int64 {
	n := int64(b.InputIDs.Rows)
	for _, label := range b.Labels {
		if label == ignored {
			n--
		}
	}
	return n
}

// CountTokens counts the tokens of a batch that the model computes, and how many are no padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) {
	return b.Batch.CountTokens(t.model)
}
