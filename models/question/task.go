package question

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model computes two logits for each token, [B, L, 2]: that the answer starts there, and that it
// ends there.
type Model = classify.Model

// TaskOptions configures [NewTask].
type TaskOptions struct {
	Padding data.Padding // how wide a batch becomes; on the right only
	Answers AnswerOptions

	// SumWindow sums the gradients of the micro-batches of an accumulation window instead of
	// averaging them. transformers 5.17 does this with its own models, except MPNet.
	SumWindow bool
}

// Batch is some samples, padded to the same length.
type Batch struct {
	inputs.Batch
	Start, End []int64
	Samples    []Sample
}

// Task ties a model to questions. An evaluation gives exact_match and f1 over the examples, or the
// numbers of version 2 of SQuAD (see [metrics.Squad]). The samples of an example must be adjacent,
// as [Features] makes them. Samples without an Example count only for the loss.
type Task struct {
	model   Model
	limits  inputs.Limits
	options TaskOptions

	observed []observed
	shared   engine.Observations[Scores]
}

// observed is an evaluation batch. The logits stay on the device until the end.
type observed struct {
	start, end torch.Tensor
	samples    []Sample
}

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
	t := &Task{model: m, limits: m.Limits(), options: o}
	if o.Answers.Best < 0 || o.Answers.MaxLength < 0 {
		return nil, fmt.Errorf("question: AnswerOptions has Best %d and MaxLength %d; want positive numbers, or 0 "+
			"for the "+
			"defaults", o.Answers.Best, o.Answers.MaxLength)
	}
	return t, t.limits.CheckPadding("question", o.Padding)
}

// ValidateOptions refuses options that do not work with the model ([inputs.ValidateOptions]), and
// label smoothing, which supports only one list of labels. transformers' Trainer does not smooth
// the loss of question answering either.
func (t *Task) ValidateOptions(o engine.Options) error {
	if o.LabelSmoothing != 0 {
		return fmt.Errorf("question: Options.LabelSmoothing is %g; want 0: a question has two labels, where the answer "+
			"begins and where it ends, and only the first would be trained. Options.Loss takes a loss of your own",
			o.LabelSmoothing)
	}
	return inputs.ValidateOptions("question", t.model, o)
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
		if s.Start < 0 || s.End < 0 {
			return b, &inputs.SampleError{Package: "question", Index: i,
				Reason: fmt.Sprintf("Start is %d and End %d; want "+
					"numbers of tokens, both that of [CLS] where there is no answer", s.Start, s.End)}
		}
		if s.Example != nil && len(s.Offsets) != len(s.InputIDs) {
			return b, &inputs.SampleError{Package: "question", Index: i,
				Reason: fmt.Sprintf("there are %d Offsets for %d tokens of an Example; want one for each, as "+
					"question.Features makes them", len(s.Offsets), len(s.InputIDs))}
		}
		b.Start, b.End = append(b.Start, s.Start), append(b.End, s.End)
	}
	b.Samples = samples
	b.Batch, err = t.limits.Collate("question", texts, t.options.Padding)
	return b, err
}

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict runs the model on a batch and returns the logits of starts and ends, and their labels.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	logits := b.Forward(p, t.model)
	return engine.Outputs{Logits: []torch.Tensor{column(logits, 0), column(logits, 1)},
		Labels: []torch.Tensor{engine.Input(p, b.Start), engine.Input(p, b.End)}, Rows: b.InputIDs.Rows}
}

// Inputs lists what Predict copies to the device.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	b.To(p)
	engine.Input(p, b.Start)
	engine.Input(p, b.End)
}

// column returns one of the two logits of each token, [B, L].
func column(logits torch.Tensor, i int64) torch.Tensor {
	return logits.Split(1, -1)[i].SqueezeDim(-1).Contiguous()
}

// LossOf is the mean of the cross-entropies of starts and ends. A start or end outside of the
// sample is left out.
func (t *Task) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	outside := o.Logits[0].Size(1)
	loss := func(i int) torch.Tensor {
		at := o.Labels[i].Clamp(0, outside)
		return o.Logits[i].CrossEntropyLoss(at, torch.Tensor{}, torch.ReductionMean, outside, 0)
	}
	value := loss(0).Add(loss(1)).DivScalar(2)
	if t.options.SumWindow {
		return engine.PerItem(value, o.Rows)
	}
	return engine.Mean(value, o.Rows)
}

// Observe records an evaluation batch.
func (t *Task) Observe(b Batch, o engine.Outputs) {
	t.observed = append(t.observed, observed{o.Logits[0].Detach().Keep(), o.Logits[1].Detach().Keep(), b.Samples})
}

// Metrics ends an evaluation.
func (t *Task) Metrics() map[string]float64 {
	t.note()
	squad := metrics.Squad{NoAnswers: t.options.Answers.NoAnswers}
	noted := t.shared.Noted()
	all := len(noted)
	noted = slices.DeleteFunc(noted, func(s Scores) bool { return s.Sample.Example == nil })
	if all > 0 && len(noted) == 0 {
		return nil
	}
	for _, scores := range byExample(noted) {
		var references []string
		for _, a := range scores[0].Sample.Example.Answers {
			references = append(references, a.Text)
		}
		squad.Add(metrics.SquadAnswer{Text: Answers(scores, t.options.Answers)[0].Text}, references)
	}
	return squad.Result()
}

// byExample groups samples by example. The samples of an example must be adjacent.
func byExample(all []Scores) (groups [][]Scores) {
	for i, s := range all {
		if i == 0 || !same(s.Sample.Example, all[i-1].Sample.Example) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], s)
	}
	return groups
}

func same(a, b *Example) bool {
	return a == b || a.ID == b.ID && a.Question == b.Question && a.Context == b.Context
}

// TakeObserved waits for the device and returns the logits of the first rows samples since the last
// call.
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

// note waits for the device and records the observed samples.
func (t *Task) note() {
	for _, o := range t.observed {
		start, end := values(o.start), values(o.end)
		for i, s := range o.samples {
			width := len(start) / len(o.samples)
			t.shared.Note(Scores{Sample: s, Start: start[i*width : (i+1)*width], End: end[i*width : (i+1)*width]})
		}
	}
	t.observed = nil
}

// values returns the elements of logits and frees the tensor.
func values(logits torch.Tensor) (v []float32) {
	torch.Scope(func() { v = torch.Values[float32](logits.ToDType(torch.Float32)) })
	logits.Free()
	return v
}

// Length is the number of tokens of a sample: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.InputIDs) }

// CountLabels counts the samples that contain their answer, over which the loss is averaged:
// engine.LabelCounter.
func (t *Task) CountLabels(b Batch) (n int64) {
	for i, s := range b.Samples {
		if tokens := int64(len(s.InputIDs)); b.Start[i] < tokens && b.End[i] < tokens {
			n++
		}
	}
	return n
}

// CountTokens counts the tokens of a batch that the model computes, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) {
	return b.Batch.CountTokens(t.model)
}
