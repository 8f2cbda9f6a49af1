package classify

import (
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// ChoiceSample is some texts of which one is right, such as a beginning with several endings.
type ChoiceSample struct {
	Choices []inputs.Text
	Label   int64 // which one is right, from 0; inputs.IgnoreIndex leaves the sample out of the loss
}

// ChoiceBatch is some samples, all of their texts padded to the same length.
type ChoiceBatch struct {
	inputs.Batch // of all choices of all samples

	Counts []int // how many choices each sample has
	Labels []int64
}

// ChoiceStep is a model that chooses in training.
type ChoiceStep = engine.Step[ChoiceSample, ChoiceBatch]

// ChoiceTaskOptions configures [NewChoiceTask]. Its fields are those of [TaskOptions].
type ChoiceTaskOptions struct {
	Padding   data.Padding
	Metrics   []metrics.Metric[int] // they get the index of the choice and the label; nil: accuracy
	SumWindow bool
}

// ChoiceTask ties a model that gives each text one number to samples of several texts: multiple
// choice. The loss is the cross-entropy of the choices of a sample.
//
// The samples of a batch may have different numbers of choices, which transformers does not allow:
// choices that a sample does not have get the logit -Inf.
type ChoiceTask struct {
	judge
	model   Model
	limits  Limits
	padding data.Padding
	smooth  bool // labels are smoothed, over all choices of a batch
}

var _ interface {
	engine.Task[ChoiceSample, ChoiceBatch]
	engine.Observer[ChoiceBatch]
	engine.ObservationSharer
	engine.ObservationSorter
	engine.TokenCounter[ChoiceBatch]
	engine.LabelCounter[ChoiceBatch]
	engine.Configurer
	engine.OptionsValidator
	engine.Lengther[ChoiceSample]
} = (*ChoiceTask)(nil)

// NewChoiceTask makes the task of a model whose logits are [B, 1].
func NewChoiceTask(m Model, o ChoiceTaskOptions) (*ChoiceTask, error) {
	t := &ChoiceTask{model: m, limits: m.Limits(), padding: o.Padding}
	if err := t.limits.CheckPadding("classify", o.Padding); err != nil {
		return nil, err
	}
	var err error
	t.judge, err = newJudge(Head{ProblemType: SingleLabel}, o.Metrics, nil, o.SumWindow)
	return t, err
}

// Collate pads the choices of samples to a batch. It refuses what the model cannot take, before it
// can fail inside an operator.
func (t *ChoiceTask) Collate(samples []ChoiceSample) (b ChoiceBatch, err error) {
	var texts []inputs.Text
	for i, s := range samples {
		if reason := t.faultOf(s, samples[0]); reason != "" {
			return b, &SampleError{Package: "classify", Index: i, Reason: reason}
		}
		texts = append(texts, s.Choices...)
		b.Counts, b.Labels = append(b.Counts, len(s.Choices)), append(b.Labels, s.Label)
	}
	b.Batch, err = t.limits.Collate("classify", texts, t.padding)
	return b, err
}

// faultOf says why a sample cannot be in a batch with the first one; empty: it can.
func (t *ChoiceTask) faultOf(s, first ChoiceSample) string {
	n := len(s.Choices)
	switch {
	case n == 0:
		return "Choices is empty; want a text for each choice"
	case (s.Label < 0 || s.Label >= int64(n)) && s.Label != ignored:
		return fmt.Sprintf("Label is %d; want 0 to %d, or %d to leave the sample out of the loss", s.Label, n-1, ignored)
	case t.smooth && n != len(first.Choices):
		return fmt.Sprintf("there are %d choices, and %d in the first sample; Options.LabelSmoothing needs as many in each",
			n, len(first.Choices))
	}
	for i, c := range s.Choices {
		if reason := t.limits.Fault(c); reason != "" {
			return fmt.Sprintf("choice %d: %s", i, reason)
		}
	}
	return ""
}

// ValidateOptions refuses options that do not work with the model: [inputs.ValidateOptions].
func (t *ChoiceTask) ValidateOptions(o engine.Options) error {
	t.smooth = o.LabelSmoothing != 0
	return inputs.ValidateOptions("classify", t.model, o)
}

// Model returns the model.
func (t *ChoiceTask) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *ChoiceTask) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss runs the model on a batch.
func (t *ChoiceTask) Loss(p engine.ForwardPass, b ChoiceBatch) engine.Loss {
	return t.LossOf(p, t.Predict(p, b))
}

// Predict runs the model on a batch and returns logits, [samples, most choices], and labels.
func (t *ChoiceTask) Predict(p engine.ForwardPass, b ChoiceBatch) engine.Outputs {
	return engine.Outputs{Logits: []torch.Tensor{b.bySample(p, b.Forward(p, t.model))},
		Labels: []torch.Tensor{engine.Input(p, b.Labels)}, Rows: len(b.Counts)}
}

// bySample arranges the numbers of all choices, [B, 1], by samples.
func (b ChoiceBatch) bySample(p engine.ForwardPass, numbers torch.Tensor) torch.Tensor {
	most, all := 0, 0
	for _, n := range b.Counts {
		most, all = max(most, n), all+n
	}
	if all == most*len(b.Counts) {
		return numbers.View(-1, int64(most))
	}
	from := make([]int64, 0, most*len(b.Counts)) // where each comes from; all: it is no choice
	first := 0
	for _, n := range b.Counts {
		for i := range most {
			if i < n {
				from = append(from, int64(first+i))
			} else {
				from = append(from, int64(all))
			}
		}
		first += n
	}
	none := numbers.Narrow(0, 0, 1).Detach().FullLike(math.Inf(-1))
	return torch.Cat([]torch.Tensor{numbers, none}, 0).IndexSelect(0, engine.Input(p, from)).View(-1, int64(most))
}

// LossOf is the cross-entropy of the choices.
func (t *ChoiceTask) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	value := o.Logits[0].CrossEntropyLoss(o.Labels[0], torch.Tensor{}, torch.ReductionMean, ignored, 0)
	if t.sumWindow {
		return engine.PerItem(value, o.Rows)
	}
	return engine.Mean(value, o.Rows)
}

// Observe records an evaluation batch.
func (t *ChoiceTask) Observe(b ChoiceBatch, o engine.Outputs) { t.observe(b.answers(), o) }

func (b ChoiceBatch) answers() answers { return answers{rows: len(b.Counts), labels: b.Labels} }

// Length is the number of tokens of a sample's longest choice: engine.Lengther.
func (t *ChoiceTask) Length(s ChoiceSample) (n int) {
	for _, c := range s.Choices {
		n = max(n, len(c.InputIDs))
	}
	return n
}

// CountLabels counts the samples that the loss is averaged over: engine.LabelCounter.
func (t *ChoiceTask) CountLabels(b ChoiceBatch) int64 { return b.answers().counted() }

// CountTokens counts the tokens of a batch that the model computes, and those that are not padding.
func (t *ChoiceTask) CountTokens(b ChoiceBatch) (all, nonPadding int64) {
	return b.Batch.CountTokens(t.model)
}
