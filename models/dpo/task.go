package dpo

import (
	"errors"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model is a decoder in two parts, so that log probabilities can be computed without the logits of
// a whole batch in memory. The decoders of package auto are such models.
type Model interface {
	// Hidden maps token ids, [B, L], to the input of the output layer, [B, L, hidden]. The mask,
	// [B, L], has 0 for padding; undefined means that there is none.
	Hidden(ids, mask torch.Tensor) torch.Tensor
	// OutputEmbeddings gives each word of the vocabulary a logit.
	OutputEmbeddings() *nn.Linear
	// Logits says how those logits are transformed.
	Logits() transformer.Logits
	Limits() inputs.Limits
	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// Reference is what a model is compared with.
type Reference struct {
	// Run calls f with the reference: the trained model as it was, or a model of its own, which is
	// moved to the training's device and put into evaluation mode.
	Run func(f func(m Model))
	// Swaps says that Run temporarily puts other weights into the trained model. A model that is
	// sharded over processes (engine.Options.Sharding) cannot do this.
	Swaps bool
}

// TaskOptions configures [NewTask]. The zero value has the defaults of TRL's DPOConfig.
type TaskOptions struct {
	LossOptions
	// Reference is what the model is compared with. If its Run is nil, package auto sets it.
	Reference Reference
	// Precomputed says that all samples have Sample.Reference, so that no reference is needed.
	Precomputed bool

	// MaxLength is the most tokens of a prompt with an answer; zero: 1024, or what the model takes
	// if that is less; negative: what the model takes.
	MaxLength int
	// KeepEnd cuts longer ones at the beginning instead of the end: truncation_mode "keep_end",
	// which TRL is about to drop.
	KeepEnd bool
	Padding data.Padding // how wide a batch becomes; on the right only

	// KeepDropout keeps the dropout of the model: disable_dropout=False. The reference has none.
	KeepDropout bool
}

// Task ties a model to preferences. An evaluation gives the loss and everything that training logs
// (see "What is logged" above).
type Task struct {
	engine.Observations[pair]
	model     Model
	limits    inputs.Limits
	options   TaskOptions
	maxLength int

	noisy bool          // the model has noise in training mode that must not affect the reference
	place logprob.Place // of a separate reference model
}

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Evaluator[Batch]    = (*Task)(nil)
	_ engine.ObservationSharer   = (*Task)(nil)
	_ engine.TrainingLogger      = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.OptionsValidator    = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
)

// NewTask makes the task of a model, and removes the model's dropout unless KeepDropout is set.
func NewTask(m Model, o TaskOptions) (t *Task, err error) {
	t = &Task{model: m, limits: m.Limits(), options: o, noisy: o.KeepDropout}
	if t.options.LossOptions, err = o.LossOptions.resolved(); err != nil {
		return nil, err
	}
	if err := t.limits.CheckPadding("dpo", o.Padding); err != nil {
		return nil, err
	}
	if t.maxLength, err = t.limits.TextLength("dpo", o.MaxLength, 2); err != nil {
		return nil, err
	}
	if (o.Reference.Run == nil) != o.Precomputed {
		return nil, errors.New("dpo: want one of TaskOptions.Reference, with Run, and Precomputed; DPOTask of package auto " +
			"makes the reference")
	}
	if err := logprob.CheckOutput("dpo", m); err != nil {
		return nil, err
	}
	if !o.KeepDropout {
		transformer.DisableDropout(m)
	}
	return t, nil
}

// ValidateOptions refuses options that the reference does not work with, or a model without padding
// ([inputs.ValidateOptions]).
func (t *Task) ValidateOptions(o engine.Options) error {
	if err := inputs.ValidateOptions("dpo", t.model, o); err != nil {
		return err
	}
	if t.options.Reference.Swaps && o.Sharding != 0 {
		return errors.New("dpo: Options.Sharding is set, and the reference is the adapter as it was before, whose weights " +
			"cannot take the place of those that are shared out; Precompute the log probabilities of the reference")
	}
	t.noisy = t.options.KeepDropout || o.NEFTuneAlpha > 0
	return nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss runs the model, and the reference if its log probabilities are not precomputed.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss {
	loss, s := t.pass(p, b, t.noisy)
	l := engine.Mean(loss, b.Pairs())
	torch.NoGrad(func() { l.Logged = s.log() })
	return l
}

// pass is the loss of a batch, and what is logged of it.
func (t *Task) pass(p engine.ForwardPass, b Batch, noisy bool) (torch.Tensor, statistics) {
	v := t.view(p, b)
	reference := t.reference(p, v, noisy)
	own := t.score(t.model, v, t.options.UseWeighting)
	logps := t.sequences(v, own.LogProbs)
	c := compared{chosenTokenLogps: half(own.LogProbs, 0), chosenMask: half(v.Answers, 0), chosenTokens: half(v.tokens, 0),
		rejectedTokens: half(v.tokens, 1)}
	c.chosen, c.rejected = halves(logps)
	c.refChosen, c.refRejected = halves(reference)
	c.chosenLogratios, c.rejectedLogratios = c.chosen.Sub(c.refChosen), c.rejected.Sub(c.refRejected)
	if t.options.UseWeighting {
		c.weights = weights(v, own)
	}
	return t.options.loss(c), statistics{v, own, c, t.options.Beta}
}

// weights are how probable the model finds pairs, per token: equation 2 of WPO.
func weights(v view, s logprob.Scored) (w torch.Tensor) {
	torch.NoGrad(func() {
		aligned := s.LogProbs.Sub(s.Squares).Mul(v.Answers)
		chosen, rejected := halves(logprob.SumLast(aligned).Div(logprob.SumLast(v.Answers).Clamp(1, nil)).Exp())
		w = chosen.Mul(rejected)
	})
	return w
}

// halves are what is of the chosen answers and what of the rejected ones.
func halves(t torch.Tensor) (chosen, rejected torch.Tensor) {
	c := t.Chunk(2, 0)
	return c[0], c[1]
}

func half(t torch.Tensor, i int) torch.Tensor {
	n := t.Size(0) / 2
	return t.Narrow(0, int64(i)*n, n)
}

// view is a batch on the device of a pass, 2n rows.
type view struct {
	logprob.View
	tokens    torch.Tensor // how many tokens answers have, [2n] of float32
	reference torch.Tensor // [2n]; undefined: it is to be computed
	counts    [2]int64     // the tokens of all chosen answers that are predicted, and of the rejected ones
}

func (t *Task) view(p engine.ForwardPass, b Batch) (v view) {
	v.View = logprob.NewView(p, t.model, b.Batch, b.Answers)
	rows := len(v.Tokens)
	for row, n := range v.Predicted {
		v.counts[2*row/rows] += n
	}
	v.tokens = engine.Input(p, v.Tokens, int64(rows)).ToDType(torch.Float32)
	if b.Reference != nil {
		v.reference = torch.From(b.Reference, int64(rows)).ToDevice(p.Device) // in float32, whatever the precision is
	}
	return v
}

// score scores the tokens of a batch, [2n, L-1]; those of no answer have 0.
func (t *Task) score(m Model, v view, squares bool) logprob.Scored {
	return v.Score(m, logprob.Options{Squares: squares})
}

// sequences are the log probabilities of the answers, [2n].
func (t *Task) sequences(v view, perToken torch.Tensor) torch.Tensor {
	if t.options.LDAlpha == nil {
		return logprob.SumLast(perToken)
	}
	place := v.Answers.CumSum(1, torch.DefaultDType)
	chosen, rejected := halves(logprob.SumLast(v.Answers))
	shorter := chosen.Minimum(rejected)
	shared := torch.Cat([]torch.Tensor{shorter, shorter}, 0).Unsqueeze(1)
	tail := place.Gt(shared)
	head := place.GtScalar(0).LogicalAnd(tail.LogicalNot())
	return logprob.SumLast(perToken.Mul(head)).Add(logprob.SumLast(perToken.Mul(tail)).MulScalar(*t.options.LDAlpha))
}

// reference are the log probabilities of the answers as the reference has them, [2n].
func (t *Task) reference(p engine.ForwardPass, v view, noisy bool) (logps torch.Tensor) {
	if v.reference.Defined() {
		return v.reference
	}
	if t.options.Reference.Run == nil {
		panic(torch.Errorf("dpo.Task.Loss", torch.ErrValue, "TaskOptions.Precomputed is set, but the samples have no "+
			"Sample.Reference: Task.Precompute"))
	}
	torch.NoGrad(func() {
		t.options.Reference.Run(func(m Model) {
			if m != t.model {
				t.place.Move(m, p.Device)
			}
			if noisy && m == t.model {
				nn.SetTraining(m, false)
				defer nn.SetTraining(m, true)
			}
			logps = torch.Return(func() torch.Tensor { return t.sequences(v, t.score(m, v, false).LogProbs) })
		})
	})
	return logps
}
