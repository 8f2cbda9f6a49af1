package seq2seq

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/writing"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model predicts the tokens of a target text from a source text.
type Model interface {
	// ForwardPair maps the token ids of source texts, [B, L], and of target texts, [B, T], to a
	// logit for every word that may follow each target token, [B, T, vocabulary]. The mask, [B, L],
	// has 0 where the source is padding; undefined means that there is none.
	ForwardPair(ids, mask, decoderIDs torch.Tensor) torch.Tensor
	// DecoderStartOf is the token that begins the target text with the given labels, which are those
	// of a [Sample].
	DecoderStartOf(labels []int64) int64
	Limits() inputs.Limits
	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// Sample is a source text and its target text.
type Sample struct {
	inputs.Text         // the source
	Labels      []int64 // the target, with its end token; [inputs.IgnoreIndex] where a token is not learned
	Target      string  // the target as text, for metrics
}

// Batch is some samples; the sources are padded to one length, the targets to another.
type Batch struct {
	inputs.Batch
	Labels     data.Padded[int64] // inputs.IgnoreIndex in padding
	DecoderIDs data.Padded[int64] // the token that begins the target, then Labels without the last
	Targets    []string
}

// TaskOptions configures [NewTask].
type TaskOptions struct {
	Padding       data.Padding // how wide the sources become; on the right only
	TargetPadding data.Padding // and the targets

	// Write has the model generate from the source texts of a batch in evaluations:
	// predict_with_generate. Metrics compare the result with Target. Nil: evaluations give only the
	// loss.
	Write   func(p engine.ForwardPass, b inputs.Batch) []string
	Metrics []metrics.Metric[string]
}

// Task ties a model to pairs of texts.
type Task struct {
	evaluation
	model   Model
	limits  inputs.Limits
	options TaskOptions
	pass    engine.ForwardPass // of Predict's last call
}

// evaluation is embedded in Task.
type evaluation = writing.Evaluation

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Observer[Batch]     = (*Task)(nil)
	_ engine.ObservationSharer   = (*Task)(nil)
	_ engine.ItemCounter[Batch]  = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (*Task, error) {
	for _, p := range []data.Padding{o.Padding, o.TargetPadding} {
		if err := m.Limits().CheckPadding("seq2seq", p); err != nil {
			return nil, err
		}
	}
	e, err := writing.New("seq2seq", o.Write, o.Metrics)
	if err != nil {
		return nil, err
	}
	return &Task{evaluation: e, model: m, limits: m.Limits(), options: o}, nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Collate pads samples on the right to a batch and refuses what the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	texts := make([]inputs.Text, len(samples))
	b.Targets = make([]string, len(samples))
	for i, s := range samples {
		texts[i], b.Targets[i] = s.Text, s.Target
	}
	if b.Batch, err = t.limits.Collate("seq2seq", texts, t.options.Padding); err != nil {
		return b, err
	}
	for i, s := range samples {
		if reason := t.fault(s.Labels); reason != "" {
			return b, &inputs.SampleError{Package: "seq2seq", Index: i, Reason: reason}
		}
	}
	labels := func(s Sample) []int64 { return s.Labels }
	if b.Labels, err = data.PadField(samples, labels, inputs.IgnoreIndex, t.options.TargetPadding); err != nil {
		return b, err
	}
	if int64(b.Labels.Width) > t.limits.MaxLength {
		return b, fmt.Errorf("seq2seq: TargetPadding.Multiple makes rows of %d labels, but the model has positions for %d",
			b.Labels.Width, t.limits.MaxLength)
	}
	b.DecoderIDs = b.Labels
	b.DecoderIDs.Values = make([]int64, len(b.Labels.Values))
	for i := range b.Labels.Rows {
		row := b.DecoderIDs.Row(i)
		row[0] = t.model.DecoderStartOf(samples[i].Labels)
		for j, label := range b.Labels.Row(i)[:len(row)-1] {
			if row[j+1] = label; label == inputs.IgnoreIndex {
				row[j+1] = t.limits.PadTokenID
			}
		}
	}
	return b, nil
}

// fault returns the reason why the model cannot take labels, or the empty string if it can.
func (t *Task) fault(labels []int64) string {
	if len(labels) == 0 {
		return "Labels is empty; even an empty text has the token that ends it"
	}
	if int64(len(labels)) > t.limits.MaxLength {
		return fmt.Sprintf("Labels has %d tokens, but the model has positions for %d; cut the target", len(labels),
			t.limits.MaxLength)
	}
	for i, id := range labels {
		if id != inputs.IgnoreIndex && (id < 0 || id >= t.limits.VocabSize) {
			return fmt.Sprintf("label %d is %d; want an id of the vocabulary of %d, or %d for none", i, id, t.limits.VocabSize,
				inputs.IgnoreIndex)
		}
	}
	return ""
}

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict runs the model on a batch: logits and labels.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	t.pass = p
	ids, mask, _ := b.To(p)
	logits := t.model.ForwardPair(ids, mask, inputs.Matrix(p, b.DecoderIDs))
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{inputs.Matrix(p, b.Labels)},
		Rows: b.InputIDs.Rows}
}

// LossOf is the cross-entropy of the labels, averaged over the tokens of an accumulation window.
func (t *Task) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	labels, logits := o.Labels[0].View(-1), o.Logits[0]
	logits = logits.View(-1, logits.Size(-1))
	sum := logits.CrossEntropyLoss(labels, torch.Tensor{}, torch.ReductionSum, inputs.IgnoreIndex, 0)
	if p.Items > 0 {
		return engine.PerItem(sum.DivScalar(float64(p.Items)), o.Rows)
	}
	count := labels.NeScalar(inputs.IgnoreIndex).Sum(torch.DefaultDType).Clamp(1, nil) // without labels the loss is 0
	return engine.Mean(sum.Div(count), o.Rows)
}

// Observe has the model generate from the texts of an evaluation batch.
func (t *Task) Observe(b Batch, _ engine.Outputs) {
	if t.Writes() {
		t.Score(t.pass, b.Batch, b.Targets)
	}
}

// CountItems counts the tokens to predict: num_items_in_batch.
func (t *Task) CountItems(b Batch) (n int64) {
	for _, label := range b.Labels.Values {
		if label != inputs.IgnoreIndex {
			n++
		}
	}
	return n
}

// Length is the number of tokens of the source text: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.InputIDs) }

// CountTokens counts the tokens of a batch's source texts, and those that are not padding, as
// transformers counts input_ids.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return b.Tokens() }
