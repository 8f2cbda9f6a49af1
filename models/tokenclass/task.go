package tokenclass

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model computes the logits of tokens, [B, L, labels].
type Model = classify.Model

// TaskOptions configures [NewTask].
type TaskOptions struct {
	Padding data.Padding // how wide a batch becomes; on the right only

	// Metrics are those of an evaluation. They get the labels of a text by name, without the
	// ignored ones, as seqeval wants them. Nil: precision, recall and F1 of whole entities, and
	// accuracy.
	Metrics []metrics.Metric[[]string]

	// SumWindow sums the gradients of the micro-batches of an accumulation window instead of
	// averaging them. transformers 5.17 does this with its own models, except MPNet.
	SumWindow bool
}

// Task ties a model to labelled tokens.
type Task struct {
	model   Model
	names   []string
	limits  inputs.Limits
	options TaskOptions

	observed []observed
	shared   engine.Observations[tags]
}

// observed is an evaluation batch. The predictions stay on the device until the end.
type observed struct {
	predicted torch.Tensor // classes, [B, L]
	labels    data.Padded[int64]
}

// tags are those labels of a text that count.
type tags struct{ Got, Want []int64 }

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Observer[Batch]     = (*Task)(nil)
	_ engine.ObservationSharer   = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.LabelCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.OptionsValidator    = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
	_ engine.ObservationSorter   = (*Task)(nil)
)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (*Task, error) {
	t := &Task{model: m, names: m.Head().ID2Label, limits: m.Limits(), options: o}
	if err := t.limits.CheckPadding("tokenclass", o.Padding); err != nil {
		return nil, err
	}
	if o.Metrics == nil {
		t.options.Metrics = []metrics.Metric[[]string]{&metrics.Seqeval{}}
	}
	return t, nil
}

// ValidateOptions refuses options that do not work with the model: [inputs.ValidateOptions].
func (t *Task) ValidateOptions(o engine.Options) error {
	return inputs.ValidateOptions("tokenclass", t.model, o)
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Collate pads samples to a batch. It refuses what the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	texts := make([]inputs.Text, len(samples))
	for i, s := range samples {
		texts[i] = s.Text
	}
	if b.Batch, err = t.limits.Collate("tokenclass", texts, t.options.Padding); err != nil {
		return b, err
	}
	for i, s := range samples {
		if reason := t.fault(s, samples[0].Labels != nil); reason != "" {
			return b, &inputs.SampleError{Package: "tokenclass", Index: i, Reason: reason}
		}
	}
	if samples[0].Labels == nil {
		return b, nil
	}
	b.Labels = b.Filled(Ignored)
	for i, s := range samples {
		copy(b.Labels.Row(i), s.Labels)
	}
	return b, nil
}

func (t *Task) fault(s Sample, labelled bool) string {
	switch {
	case (s.Labels != nil) != labelled:
		return "some samples of the batch have Labels and others have none; want all or none"
	case labelled && len(s.Labels) != len(s.InputIDs):
		return fmt.Sprintf("Labels has %d classes for %d tokens; Align makes one for each token", len(s.Labels),
			len(s.InputIDs))
	}
	for i, label := range s.Labels {
		if (label < 0 || label >= int64(len(t.names))) && label != Ignored {
			return fmt.Sprintf("Labels of token %d is %d; want 0 to %d, or %d to leave the token out", i, label,
				len(t.names)-1, Ignored)
		}
	}
	return ""
}

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Inputs lists what Predict copies to the device.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	b.To(p)
	inputs.Matrix(p, b.Labels)
}

// Predict runs the model on a batch and returns logits and labels.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	o := engine.Outputs{Logits: []torch.Tensor{b.Forward(p, t.model)}, Rows: b.InputIDs.Rows}
	if b.Labels.Values != nil {
		o.Labels = []torch.Tensor{inputs.Matrix(p, b.Labels)}
	}
	return o
}

// LossOf is the cross-entropy of the tokens that are not ignored.
func (t *Task) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	if len(o.Labels) == 0 {
		return engine.Loss{Rows: o.Rows}
	}
	value := inputs.TokenLoss(o.Logits[0], o.Labels[0])
	if t.options.SumWindow {
		return engine.PerItem(value, o.Rows)
	}
	return engine.Mean(value, o.Rows)
}

// Observe records an evaluation batch.
func (t *Task) Observe(b Batch, o engine.Outputs) {
	if len(o.Labels) > 0 {
		t.observed = append(t.observed, observed{o.Logits[0].Detach().ArgMax(-1, false).Keep(), b.Labels})
	}
}

// Metrics ends an evaluation.
func (t *Task) Metrics() map[string]float64 {
	t.note()
	for _, text := range t.shared.Noted() {
		got, want := t.texts(text.Got), t.texts(text.Want)
		for _, m := range t.options.Metrics {
			m.Add(got, want)
		}
	}
	return engine.Results(t.options.Metrics)
}

func (t *Task) texts(classes []int64) []string {
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = t.names[c]
	}
	return names
}

// TakeObserved waits for the device and returns the predictions for the first rows texts since the
// last call.
func (t *Task) TakeObserved(rows int) ([]byte, error) {
	t.note()
	return t.shared.TakeObserved(rows)
}

// SortObserved reorders the observed texts: engine.ObservationSorter.
func (t *Task) SortObserved(order []int) error {
	t.note()
	return t.shared.SortObserved(order)
}

// AddObserved adds what TakeObserved returned on some process.
func (t *Task) AddObserved(part []byte) error { return t.shared.AddObserved(part) }

// note waits for the device and records the observed texts.
func (t *Task) note() {
	for _, o := range t.observed {
		predicted := torch.Values[int64](o.predicted)
		o.predicted.Free()
		for row := range o.labels.Rows {
			var text tags
			for i, label := range o.labels.Row(row) {
				if label != Ignored {
					text.Got = append(text.Got, predicted[row*o.labels.Width+i])
					text.Want = append(text.Want, label)
				}
			}
			t.shared.Note(text)
		}
	}
	t.observed = nil
}

// Length is the number of tokens of a sample: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.InputIDs) }

// CountLabels counts the labels that the loss is averaged over: engine.LabelCounter.
func (t *Task) CountLabels(b Batch) (n int64) {
	for _, label := range b.Labels.Values {
		if label != Ignored {
			n++
		}
	}
	return n
}

// CountTokens counts the tokens of a batch that the model computes, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) {
	return b.Batch.CountTokens(t.model)
}
