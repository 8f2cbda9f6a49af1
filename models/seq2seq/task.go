package seq2seq

import (
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
	Decoder
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
	TargetBatch
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
	targets
	model   Model
	options TaskOptions
	pass    engine.ForwardPass // of Predict's last call
}

// evaluation is embedded in Task.
type evaluation = writing.Evaluation[inputs.Batch]

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
	if err := m.Limits().CheckPadding("seq2seq", o.Padding); err != nil {
		return nil, err
	}
	written, err := newTargets(m, o.TargetPadding)
	if err != nil {
		return nil, err
	}
	e, err := writing.New("seq2seq", o.Write, o.Metrics)
	if err != nil {
		return nil, err
	}
	return &Task{evaluation: e, targets: written, model: m, options: o}, nil
}

// Collate pads samples on the right to a batch and refuses what the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	sources, written := make([]inputs.Text, len(samples)), make([]target, len(samples))
	for i, s := range samples {
		sources[i], written[i] = s.Text, target{s.Labels, s.Target}
	}
	if b.Batch, err = t.limits.Collate("seq2seq", sources, t.options.Padding); err != nil {
		return b, err
	}
	b.TargetBatch, err = t.join(written)
	return b, err
}

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict runs the model on a batch: logits and labels.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	t.pass = p
	ids, mask, _ := b.To(p)
	return b.outputs(p, t.model.ForwardPair(ids, mask, inputs.Matrix(p, b.DecoderIDs)))
}

// Observe has the model generate from the texts of an evaluation batch.
func (t *Task) Observe(b Batch, _ engine.Outputs) {
	if t.Writes() {
		t.Score(t.pass, b.Batch, b.Targets)
	}
}

// CountItems counts the tokens to predict: num_items_in_batch.
func (t *Task) CountItems(b Batch) int64 { return b.countItems() }

// Length is the number of tokens of the source text: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.InputIDs) }

// CountTokens counts the tokens of a batch's source texts, and those that are not padding, as
// transformers counts input_ids.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return b.Tokens() }
