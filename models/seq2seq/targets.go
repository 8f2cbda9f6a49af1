package seq2seq

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Decoder is what the tasks of this package know of the side of a model that writes the target
// text.
type Decoder interface {
	// DecoderStartOf is the token that begins the target text with the given labels, which are those
	// of a [Sample].
	DecoderStartOf(labels []int64) int64
	Limits() inputs.Limits
	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// TargetBatch is the target texts of a batch, padded to the same length.
type TargetBatch struct {
	Labels     data.Padded[int64] // inputs.IgnoreIndex in padding
	DecoderIDs data.Padded[int64] // the token that begins the target, then Labels without the last
	Targets    []string
}

// target is the target text of a sample.
type target struct {
	labels []int64
	text   string
}

// targets is what the tasks of this package share.
type targets struct {
	model   Decoder
	limits  inputs.Limits
	padding data.Padding
}

func newTargets(m Decoder, p data.Padding) (targets, error) {
	return targets{m, m.Limits(), p}, m.Limits().CheckPadding("seq2seq", p)
}

// Model returns the model.
func (t *targets) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *targets) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// join pads target texts to a batch and refuses what the model cannot take.
func (t *targets) join(texts []target) (b TargetBatch, err error) {
	for i, s := range texts {
		if reason := t.fault(s.labels); reason != "" {
			return b, &inputs.SampleError{Package: "seq2seq", Index: i, Reason: reason}
		}
		b.Targets = append(b.Targets, s.text)
	}
	labels := func(s target) []int64 { return s.labels }
	if b.Labels, err = data.PadField(texts, labels, inputs.IgnoreIndex, t.padding); err != nil {
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
		row[0] = t.model.DecoderStartOf(texts[i].labels)
		for j, label := range b.Labels.Row(i)[:len(row)-1] {
			if row[j+1] = label; label == inputs.IgnoreIndex {
				row[j+1] = t.limits.PadTokenID
			}
		}
	}
	return b, nil
}

// fault returns the reason why the model cannot take labels, or the empty string if it can.
func (t *targets) fault(labels []int64) string {
	if len(labels) == 0 {
		return "Labels is empty; even an empty text has the token that ends it"
	}
	if int64(len(labels)) > t.limits.MaxLength {
		return fmt.Sprintf("Labels has %d tokens, but the model has positions for %d; cut the target", len(labels),
			t.limits.MaxLength)
	}
	vocab := t.limits.TargetVocab()
	for i, id := range labels {
		if id != inputs.IgnoreIndex && (id < 0 || id >= vocab) {
			return fmt.Sprintf("label %d is %d; want an id of the vocabulary of %d, or %d for none", i, id, vocab,
				inputs.IgnoreIndex)
		}
	}
	return ""
}

// outputs are logits and the labels that they predict.
func (b TargetBatch) outputs(p engine.ForwardPass, logits torch.Tensor) engine.Outputs {
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{inputs.Matrix(p, b.Labels)},
		Rows: b.Labels.Rows}
}

// LossOf is the cross-entropy of the labels, averaged over the tokens of an accumulation window.
func (t *targets) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	labels, logits := o.Labels[0].View(-1), o.Logits[0]
	logits = logits.View(-1, logits.Size(-1))
	sum := logits.CrossEntropyLoss(labels, torch.Tensor{}, torch.ReductionSum, inputs.IgnoreIndex, 0)
	if p.Items > 0 {
		return engine.PerItem(sum.DivScalar(float64(p.Items)), o.Rows)
	}
	count := labels.NeScalar(inputs.IgnoreIndex).Sum(torch.DefaultDType).Clamp(1, nil) // without labels the loss is 0
	return engine.Mean(sum.Div(count), o.Rows)
}

// countItems counts the tokens to predict.
func (b TargetBatch) countItems() (n int64) {
	for _, label := range b.Labels.Values {
		if label != inputs.IgnoreIndex {
			n++
		}
	}
	return n
}
