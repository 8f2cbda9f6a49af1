package classify

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Step is a classifier in training.
type Step = engine.Step[Sample, Batch]

// TaskOptions configures [NewTask]. The zero value pads each batch to its longest text and computes
// the default metrics.
type TaskOptions struct {
	Padding data.Padding // how wide a batch becomes; on the right only

	// Metrics are those of an evaluation. They get the class and the label of each text or, if a
	// text has several labels, 0 or 1 for each of them. Nil: accuracy.
	Metrics []metrics.Metric[int]
	// ValueMetrics are the metrics of a regression. They get each predicted number and its target.
	// Nil: mse and mae.
	ValueMetrics []metrics.Metric[float64]

	// SumWindow sums the gradients of the micro-batches of an accumulation window instead of
	// averaging them. transformers 5.17 does this with its own classifiers under
	// gradient_accumulation_steps, which makes gradients and logged losses that many times as
	// large.
	SumWindow bool
}

// Task ties a model to labelled texts.
type Task struct {
	judge
	model   Model
	limits  Limits
	options TaskOptions
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
	t := &Task{model: m, limits: m.Limits(), options: o}
	if err := t.limits.CheckPadding("classify", o.Padding); err != nil {
		return nil, err
	}
	var err error
	t.judge, err = newJudge(m.Head(), o.Metrics, o.ValueMetrics, o.SumWindow)
	return t, err
}

// ValidateOptions refuses options that do not work with the model: [inputs.ValidateOptions].
func (t *Task) ValidateOptions(o engine.Options) error {
	return inputs.ValidateOptions("classify", t.model, o)
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict runs the model on a batch and returns logits and labels.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	logits := b.Forward(p, t.model)
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{t.labels(p, b.answers())},
		Rows: b.InputIDs.Rows}
}

// Inputs lists what Predict copies to the device.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	b.To(p)
	t.labels(p, b.answers())
}

// Observe records an evaluation batch.
func (t *Task) Observe(b Batch, o engine.Outputs) { t.observe(b.answers(), o) }

// Length is the number of tokens of a sample: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.InputIDs) }

// CountLabels counts the texts that the loss is averaged over: engine.LabelCounter.
func (t *Task) CountLabels(b Batch) int64 { return b.answers().counted() }

// CountTokens counts the tokens of a batch that the model computes, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) {
	return b.Batch.CountTokens(t.model)
}
