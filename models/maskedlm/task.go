package maskedlm

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model computes a logit for each word of the vocabulary at each token, [B, L, vocabulary].
type Model = classify.Model

// TaskOptions configures [NewTask].
type TaskOptions struct {
	Masking Masking
	Padding data.Padding // how wide a batch becomes; on the right only

	MaskTokenID int64 // of [MASK] or <mask>; required
	VocabSize   int64 // tokens of the tokenizer, from which random ones are drawn; zero: those of the model

	// SumWindow sums the gradients of the micro-batches of an accumulation window instead of
	// averaging them. transformers 5.17 does this with its own models, except MPNet.
	SumWindow bool
}

// Task ties a model to texts. An evaluation gives the loss, with masks drawn for it.
type Task struct {
	model      Model
	limits     inputs.Limits
	options    TaskOptions
	masking    Masking
	vocabulary vocabulary
	generator  *torch.Generator // nil means the default one
}

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Predictor[Batch]    = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.LabelCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.OptionsValidator    = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
	_ engine.GeneratorOwner      = (*Task)(nil)
)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (t *Task, err error) {
	t = &Task{model: m, limits: m.Limits(), options: o}
	if err := t.limits.CheckPadding("maskedlm", o.Padding); err != nil {
		return nil, err
	}
	if t.masking, err = o.Masking.resolved(); err != nil {
		return nil, err
	}
	if t.options.VocabSize == 0 {
		t.options.VocabSize = t.limits.VocabSize
	}
	t.vocabulary = vocabulary{o.MaskTokenID, t.options.VocabSize}
	switch v := t.vocabulary; {
	case v.size < 1 || v.size > t.limits.VocabSize:
		return nil, fmt.Errorf("maskedlm: TaskOptions.VocabSize is %d; want 1 to %d, the vocabulary of the model",
			v.size,
			t.limits.VocabSize)
	case v.maskID < 1 || v.maskID >= t.limits.VocabSize:
		return nil, fmt.Errorf("maskedlm: TaskOptions.MaskTokenID is %d; want the id of the tokenizer's mask token, "+
			"below "+
			"%d", v.maskID, t.limits.VocabSize)
	}
	if t.masking.Seed != 0 {
		if err := torch.Try(func() { t.generator = torch.NewGenerator(t.masking.Seed) }); err != nil {
			return nil, fmt.Errorf("maskedlm: %w", err)
		}
	}
	return t, nil
}

// ValidateOptions refuses options that do not work with the model: [inputs.ValidateOptions].
func (t *Task) ValidateOptions(o engine.Options) error {
	return inputs.ValidateOptions("maskedlm", t.model, o)
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Generators returns the generator of masks if they have their own.
func (t *Task) Generators() map[string]*torch.Generator {
	if t.generator == nil {
		return nil
	}
	return map[string]*torch.Generator{"masks": t.generator}
}

// Loss masks a batch and runs the model on it.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict masks a batch, runs the model on it, and returns logits and labels.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	ids, labels := t.Mask(b)
	masked := b.Batch
	masked.InputIDs.Values = torch.Values[int64](ids)
	logits := masked.Forward(p, t.model)
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{engine.InputTensor(p, labels)},
		Rows: b.InputIDs.Rows}
}

// Mask draws masks for a batch and returns the ids that the model gets and the labels, [B, L], on
// the CPU.
func (t *Task) Mask(b Batch) (ids, labels torch.Tensor) {
	host := engine.ForwardPass{}
	return t.masking.mask(inputs.Matrix(host, b.InputIDs), inputs.Matrix(host, b.Keep), inputs.Matrix(host, b.Words),
		t.vocabulary, t.generator)
}

// LossOf is the cross-entropy of the masked tokens.
func (t *Task) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	loss := inputs.TokenLoss
	if p.Part {
		loss = partLoss
	}
	value := loss(o.Logits[0], o.Labels[0])
	if t.options.SumWindow {
		return engine.PerItem(value, o.Rows)
	}
	return engine.Mean(value, o.Rows)
}

// partLoss is [inputs.TokenLoss] for a part of a batch, which may have no masked tokens: its loss
// is then 0.
func partLoss(logits, labels torch.Tensor) torch.Tensor {
	shape := logits.Shape()
	sum := logits.View(-1, shape[len(shape)-1]).CrossEntropyLoss(labels.View(-1), torch.Tensor{}, torch.ReductionSum,
		inputs.IgnoreIndex, 0)
	return sum.Div(labels.NeScalar(inputs.IgnoreIndex).Sum(torch.DefaultDType).Clamp(1, nil))
}

// Length is the number of tokens of a sample: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.InputIDs) }

// CountLabels counts the tokens that may be masked: engine.LabelCounter. They are the weights of a
// batch's parts, each of which draws its own masks.
func (t *Task) CountLabels(b Batch) (n int64) {
	for _, keep := range b.Keep.Values {
		if keep == 0 {
			n++
		}
	}
	return n
}

// CountTokens counts the tokens of a batch that the model computes, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) {
	return b.Batch.CountTokens(t.model)
}
