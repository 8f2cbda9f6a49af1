package causallm

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/writing"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model computes, at each token, a logit for every word that may come next, [B, L, vocabulary].
type Model = classify.Model

// TaskOptions configures [NewTask].
type TaskOptions struct {
	Padding data.Padding // how wide a batch becomes; on the right only

	// CountFirstToken also counts the first token of each text in the divisor of the loss, though
	// nothing predicts it. transformers 5.17 does this with GPT-2, which makes losses and gradients
	// smaller by that share.
	CountFirstToken bool

	// Write has the model continue the prompts of a batch in evaluations: predict_with_generate of
	// Seq2SeqTrainer. Metrics compare the result with Sample.Target. A prompt is what is before
	// [Sample.Answer]. Nil: evaluations give only the loss.
	Write   func(p engine.ForwardPass, prompts inputs.Batch) []string
	Metrics []metrics.Metric[string]
}

// Task ties a model to texts. An evaluation gives the loss and, with TaskOptions.Write, the metrics
// of the generated texts.
type Task struct {
	evaluation
	model   Model
	limits  inputs.Limits
	options TaskOptions
	pass    engine.ForwardPass // of Predict's last call
}

// evaluation is embedded in Task.
type evaluation = writing.Evaluation[inputs.Batch]

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Predictor[Batch]    = (*Task)(nil)
	_ engine.Observer[Batch]     = (*Task)(nil)
	_ engine.ObservationSharer   = (*Task)(nil)
	_ engine.ItemCounter[Batch]  = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.OptionsValidator    = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (*Task, error) {
	e, err := writing.New("causallm", o.Write, o.Metrics)
	if err == nil {
		err = m.Limits().CheckPadding("causallm", o.Padding)
	}
	if err != nil {
		return nil, err
	}
	return &Task{evaluation: e, model: m, limits: m.Limits(), options: o}, nil
}

// ValidateOptions refuses options that the model cannot have: [inputs.ValidateOptions].
func (t *Task) ValidateOptions(o engine.Options) error {
	return inputs.ValidateOptions("causallm", t.model, o)
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict runs the model on a batch and returns logits and labels. The label at a position is the
// token there; the logits that predict it are one position earlier.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	t.pass = p
	logits, aux := b.ForwardAux(p, t.model)
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{inputs.Matrix(p, b.Labels)}, Aux: aux,
		Rows: b.InputIDs.Rows, Shifted: true}
}

// LossOf is ForCausalLMLoss of transformers: the cross-entropy of the labels. It skips the first
// label of each row, which nothing precedes. The load-balancing loss of a mixture of experts is
// added: its mean over the batches of an accumulation window, on all processes. transformers 5.17
// adds up these losses instead, as if router_aux_loss_coef grew with their number.
func (t *Task) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	labels := o.Labels[0]
	padded := torch.Call("aten::constant_pad_nd", labels, []int64{0, 1}, inputs.IgnoreIndex)[0]
	next := padded.Narrow(-1, 1, labels.Size(-1)).Contiguous().View(-1)
	logits := o.Logits[0].ToDType(torch.Float32)
	logits = logits.View(-1, logits.Size(-1))
	sum := logits.CrossEntropyLoss(next, torch.Tensor{}, torch.ReductionSum, inputs.IgnoreIndex, 0)
	if p.Items > 0 {
		return engine.PerItem(withAux(p, sum.DivScalar(float64(p.Items)), o.Aux, max(1, p.WindowLen)*p.World()), o.Rows)
	}
	count := next.NeScalar(inputs.IgnoreIndex).Sum(torch.DefaultDType).Clamp(1, nil) // without labels the loss is 0
	return engine.Mean(withAux(p, sum.Div(count), o.Aux, 1), o.Rows)
}

// withAux adds the part of the loss that the model has by itself, which is summed over the given
// number of batches.
func withAux(p engine.ForwardPass, loss, aux torch.Tensor, batches int) torch.Tensor {
	switch {
	case !aux.Defined():
		return loss
	case p.Part:
		panic(torch.Errorf("causallm.Task.Loss", torch.ErrNotSupported, "the load-balancing loss of a mixture of experts is "+
			"that of a whole batch, so a batch cannot be trained in parts: leave DivideOnOutOfMemory out and take a smaller "+
			"BatchSize, or leave output_router_logits out"))
	case batches > 1:
		aux = aux.DivScalar(float64(batches))
	}
	return loss.Add(aux)
}

// Observe has the model continue the prompts of a batch of an evaluation.
func (t *Task) Observe(b Batch, _ engine.Outputs) {
	if !t.Writes() {
		return
	}
	prompts, err := t.prompts(b)
	if err != nil {
		// This panic ends the evaluation with the error.
		panic(torch.Errorf("causallm.Task.Observe", torch.ErrInvalid, "%v", err))
	}
	t.Score(t.pass, prompts, b.Targets)
}

// CountItems counts the tokens to predict: num_items_in_batch.
func (t *Task) CountItems(b Batch) (n int64) {
	first := 1
	if t.options.CountFirstToken {
		first = 0
	}
	for i := range b.Labels.Rows {
		for _, label := range b.Labels.Row(i)[first:] {
			if label != inputs.IgnoreIndex {
				n++
			}
		}
	}
	return n
}

// Length is the number of tokens of a sample: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.InputIDs) }

// CountTokens counts the tokens of a batch, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return b.Batch.CountTokens(t.model) }
