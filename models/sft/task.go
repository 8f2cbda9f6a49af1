package sft

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Sample is a text as token ids, with the tokens to learn.
type Sample = causallm.Sample

// Batch is some samples, padded to the same length.
type Batch = causallm.Batch

// Model is a decoder in two parts, so that its loss can be computed without the logits of a whole
// batch in memory. The decoders of package auto are such models.
type Model interface {
	causallm.Model
	// Hidden maps token ids, [B, L], to the input of the output layer, [B, L, hidden]. The mask,
	// [B, L], has 0 for padding; undefined means that there is none.
	Hidden(ids, mask torch.Tensor) torch.Tensor
	// OutputEmbeddings gives each word of the vocabulary a logit.
	OutputEmbeddings() *nn.Linear
	// Logits says how those logits are transformed.
	Logits() transformer.Logits
}

// LossType selects the loss of a token: loss_type of SFTConfig.
type LossType string

// The losses of TRL.
const (
	NLL LossType = "nll" // the negative logarithm of its probability
	// DFT multiplies that by the probability, without its gradient: dynamic fine-tuning
	// (arXiv:2508.05629).
	DFT LossType = "dft"
)

// TaskOptions configures [NewTask]. The zero value has the defaults of TRL's SFTConfig.
type TaskOptions struct {
	LossType LossType // empty: NLL
	// MaxLength is the most tokens of a text; longer ones are cut at the end. Zero: 1024, or what the
	// model takes if that is less; negative: what the model takes.
	MaxLength int
	// KeepEnd cuts longer texts at their start instead: truncation_mode="keep_end".
	KeepEnd bool
	Padding data.Padding // how wide a batch becomes; on the right only
	// CountFirstToken: see causallm.TaskOptions.
	CountFirstToken bool
}

// Task ties a model to texts. An evaluation gives the loss and everything that training logs (see
// "What is logged" above).
type Task struct {
	engine.Observations[counts]
	texts     *causallm.Task // collates and counts
	model     Model
	loss      LossType
	maxLength int
	keepEnd   bool
}

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Evaluator[Batch]    = (*Task)(nil)
	_ engine.ObservationSharer   = (*Task)(nil)
	_ engine.TrainingLogger      = (*Task)(nil)
	_ engine.ItemCounter[Batch]  = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.OptionsValidator    = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (t *Task, err error) {
	t = &Task{model: m, loss: cmp.Or(o.LossType, NLL), keepEnd: o.KeepEnd}
	if known := []LossType{NLL, DFT}; !slices.Contains(known, t.loss) {
		return nil, fmt.Errorf("sft: TaskOptions.LossType is %q; want one of %q", t.loss, known)
	}
	if t.maxLength, err = m.Limits().TextLength("sft", o.MaxLength, 2); err != nil {
		return nil, err
	}
	if err := logprob.CheckOutput("sft", m); err != nil {
		return nil, err
	}
	t.texts, err = causallm.NewTask(m, causallm.TaskOptions{Padding: o.Padding, CountFirstToken: o.CountFirstToken})
	return t, err
}

// ValidateOptions refuses options that the model cannot have.
func (t *Task) ValidateOptions(o engine.Options) error { return t.texts.ValidateOptions(o) }

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Length is the length of a sample as it is trained on: engine.Lengther.
func (t *Task) Length(s Sample) int { return min(len(s.InputIDs), t.maxLength) }

// CountItems counts the tokens to predict: num_items_in_batch.
func (t *Task) CountItems(b Batch) int64 { return t.texts.CountItems(b) }

// CountTokens counts the tokens of a batch, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return t.texts.CountTokens(b) }

// Collate cuts samples to TaskOptions.MaxLength and pads them on the right to a batch. It refuses
// what the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	kept := make([]Sample, len(samples))
	for i, s := range samples {
		if err := t.check(i, s); err != nil {
			return b, err
		}
		kept[i] = t.cut(s)
	}
	return t.texts.Collate(kept)
}

// check refuses a sample, of the given number in its batch, with labels that are not its tokens, and
// one that joins texts and would be cut.
func (t *Task) check(i int, s Sample) error {
	if s.Lengths != nil && len(s.InputIDs) > t.maxLength {
		return &inputs.SampleError{Package: "sft", Index: i, Reason: fmt.Sprintf("it joins texts to %d tokens, and "+
			"TaskOptions.MaxLength is %d; pack them into samples of at most that many", len(s.InputIDs), t.maxLength)}
	}
	if len(s.Labels) != len(s.InputIDs) {
		return nil // the next task refuses labels of another number than the tokens
	}
	for j, label := range s.Labels {
		if label != inputs.IgnoreIndex && label != s.InputIDs[j] {
			return &inputs.SampleError{Package: "sft", Index: i, Reason: fmt.Sprintf("label %d is %d, and the token "+
				"there is %d; want the token, or IgnoreIndex (%d) if it is not to be learned", j, label, s.InputIDs[j],
				inputs.IgnoreIndex)}
		}
	}
	return nil
}

// cut cuts a sample to TaskOptions.MaxLength.
func (t *Task) cut(s Sample) Sample {
	if s.Labels != nil && len(s.Labels) != len(s.InputIDs) {
		return s // the next task refuses it
	}
	for _, numbers := range []*[]int64{&s.InputIDs, &s.TokenTypeIDs, &s.AttentionMask, &s.Labels} {
		*numbers = t.kept(*numbers)
	}
	return s
}

// kept is what TaskOptions.MaxLength leaves of the numbers of a text's tokens.
func (t *Task) kept(numbers []int64) []int64 {
	switch over := len(numbers) - t.maxLength; {
	case over <= 0:
		return numbers
	case t.keepEnd:
		return numbers[over:]
	}
	return numbers[:t.maxLength]
}

// Keep leaves out the samples of which TaskOptions.MaxLength leaves no token to learn, as TRL does.
func (t *Task) Keep(samples []Sample) []Sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool {
		learned := func(label int64) bool { return label != inputs.IgnoreIndex }
		return s.Labels != nil && !slices.ContainsFunc(t.kept(s.Labels), learned)
	})
}

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.learn(t.model, p, b) }

// learn is Loss with the given model.
func (t *Task) learn(m logprob.Model, p engine.ForwardPass, b Batch) engine.Loss {
	loss, v, s := t.pass(m, p, b)
	torch.NoGrad(func() { loss.Logged = logged(v, s) })
	return loss
}

// pass is the loss of a batch, with the scores of its tokens.
func (t *Task) pass(m logprob.Model, p engine.ForwardPass, b Batch) (engine.Loss, logprob.View, logprob.Scored) {
	learned := make([]bool, len(b.Labels.Values))
	for i, label := range b.Labels.Values {
		learned[i] = label != inputs.IgnoreIndex
	}
	v := logprob.NewView(p, m, b.Batch, learned)
	s := v.Score(m, logprob.Options{})
	each := s.LogProbs.Neg()
	if t.loss == DFT {
		each = each.Mul(s.LogProbs.Detach().Exp())
	}
	sum, rows := each.Sum(torch.DefaultDType), b.InputIDs.Rows
	if p.Items > 0 {
		return engine.PerItem(sum.DivScalar(float64(p.Items)), rows), v, s
	}
	return engine.Mean(sum.DivScalar(float64(max(predicted(v), 1))), rows), v, s
}

// predicted counts the tokens that are learned and have a token in front of them.
func predicted(v logprob.View) (n int64) {
	for _, row := range v.Predicted {
		n += row
	}
	return n
}
