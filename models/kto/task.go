package kto

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// LossType says what loss the log probabilities of a completion give: loss_type of KTOConfig.
type LossType string

// The losses of TRL. Δ is how much more probable a completion is than to the reference, as a
// logarithm.
const (
	KTO             LossType = "kto"               // 1 - σ(β(Δ - KL)) of a good one, 1 - σ(β(KL - Δ)) of a bad one
	APOZeroUnpaired LossType = "apo_zero_unpaired" // 1 - σ(βΔ) of a good one, σ(βΔ) of a bad one
)

// TaskOptions configures [NewTask]. The zero value has the defaults of TRL's KTOConfig.
type TaskOptions struct {
	LossType LossType // empty: KTO
	Beta     float64  // how strongly the model is held to the reference; zero: 0.1
	// DesirableWeight and UndesirableWeight multiply the losses of good and of bad completions; nil:
	// 1. They make up for different numbers of the two: see [Balance].
	DesirableWeight, UndesirableWeight *float64

	// Reference is what the model is compared with. If its Run is nil, package auto sets it.
	Reference dpo.Reference

	// MaxLength is the most tokens of a prompt with a completion; zero: 1024, or what the model takes
	// if that is less; negative: what the model takes. Longer ones are cut at the end.
	MaxLength int
	Padding   data.Padding // how wide a batch becomes; on the right only

	// KeepDropout keeps the dropout of the model: disable_dropout=False. The reference has none.
	KeepDropout bool
}

// Task ties a model to completions that are good or bad. An evaluation gives the loss and everything
// that training logs (see "What is logged" above).
type Task struct {
	engine.Observations[rated]
	model     dpo.Model
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
	_ engine.BatchSizeValidator  = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
)

// NewTask makes the task of a model, and removes the model's dropout unless KeepDropout is set.
func NewTask(m dpo.Model, o TaskOptions) (t *Task, err error) {
	o.LossType, o.Beta = cmp.Or(o.LossType, KTO), cmp.Or(o.Beta, 0.1)
	o.DesirableWeight, o.UndesirableWeight = cmp.Or(o.DesirableWeight, new(1.0)), cmp.Or(o.UndesirableWeight, new(1.0))
	t = &Task{model: m, limits: m.Limits(), options: o, noisy: o.KeepDropout}
	weighs := func(w float64) bool { return w >= 0 && !math.IsInf(w, 0) }
	switch {
	case !slices.Contains([]LossType{KTO, APOZeroUnpaired}, o.LossType):
		return nil, fmt.Errorf("kto: TaskOptions.LossType is %q; want %q or %q", o.LossType, KTO, APOZeroUnpaired)
	case !(o.Beta > 0) || math.IsInf(o.Beta, 0):
		return nil, fmt.Errorf("kto: TaskOptions.Beta is %g; want a finite number above 0", o.Beta)
	case !weighs(*o.DesirableWeight) || !weighs(*o.UndesirableWeight):
		return nil, fmt.Errorf("kto: TaskOptions.DesirableWeight is %g and UndesirableWeight %g; want finite numbers of at "+
			"least 0", *o.DesirableWeight, *o.UndesirableWeight)
	case o.Reference.Run == nil:
		return nil, errors.New("kto: TaskOptions.Reference has no Run; KTOTask of package auto makes the reference")
	}
	if err := t.limits.CheckPadding("kto", o.Padding); err != nil {
		return nil, err
	}
	if t.maxLength, err = t.limits.TextLength("kto", o.MaxLength, 2); err != nil {
		return nil, err
	}
	if err := logprob.CheckOutput("kto", m); err != nil {
		return nil, err
	}
	if !o.KeepDropout {
		transformer.DisableDropout(m)
	}
	return t, nil
}

// Balance returns the weight of good completions with which they count as much as the bad ones, if
// those have the weight 1: the lower end of the range in equation 8 of the KTO paper, whose upper end
// is a third more. Set one of the weights, not both.
func Balance(samples []Sample) (desirableWeight float64) {
	good := 0
	for _, s := range samples {
		if s.Label {
			good++
		}
	}
	return float64(max(len(samples)-good, 1)) / float64(max(good, 1))
}

// ValidateOptions refuses options that the reference does not work with, or a model without padding
// ([inputs.ValidateOptions]).
func (t *Task) ValidateOptions(o engine.Options) error {
	if err := inputs.ValidateOptions("kto", t.model, o); err != nil {
		return err
	}
	if t.options.Reference.Swaps && o.Sharding != 0 {
		return errors.New("kto: Options.Sharding is set, and the reference is the adapter as it was before, whose weights " +
			"cannot take the place of those that are shared out; leave it out, or set TaskOptions.Reference")
	}
	t.noisy = t.options.KeepDropout || o.NEFTuneAlpha > 0
	return nil
}

// ValidateBatchSize refuses batches of one sample for the loss kto, as TRL does.
func (t *Task) ValidateBatchSize(size int) error {
	if t.options.LossType == KTO && size == 1 {
		return fmt.Errorf("kto: BatchSize is 1, and the loss %s compares each prompt with the completion of another "+
			"sample of its batch; want at least 2, or TaskOptions.LossType %s", KTO, APOZeroUnpaired)
	}
	return nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss runs the model and the reference.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss {
	loss, s := t.pass(p, b, t.noisy)
	l := engine.Mean(loss, len(b.Labels))
	torch.NoGrad(func() { l.Logged = s.log(p) })
	return l
}

// pass returns the loss of a batch and the numbers that are logged of it.
func (t *Task) pass(p engine.ForwardPass, b Batch, noisy bool) (torch.Tensor, statistics) {
	v := logprob.NewView(p, t.model, b.Completions.Batch, b.Completions.Answers)
	s := statistics{view: v, labels: b.Labels, kl: torch.TensorOptions{Device: p.Device}.Zeros(1)}
	var mismatched logprob.View
	var moved, reference, referenceMoved torch.Tensor // log probabilities; moved are those of mismatched completions
	if t.options.LossType == KTO {
		mismatched = logprob.NewView(p, t.model, b.Mismatched.Batch, b.Mismatched.Answers)
		torch.NoGrad(func() { moved = logps(t.model, mismatched) })
	}
	s.scored = v.Score(t.model, logprob.Options{})
	s.logps = logprob.SumLast(s.scored.LogProbs)
	t.withReference(p, noisy, func(m dpo.Model) {
		if moved.Defined() {
			referenceMoved = logps(m, mismatched)
		}
		reference = logps(m, v)
	})
	if moved.Defined() {
		mean := moved.Sub(referenceMoved).Mean(torch.DefaultDType).Detach()
		s.kl = p.Gather(mean.View(1)).Mean(torch.DefaultDType).Clamp(0, nil)
	}
	ratios := s.logps.Sub(reference)
	s.rewards = ratios.Detach().MulScalar(t.options.Beta)
	s.good, s.bad = t.rows(p, b.Labels)
	return t.loss(ratios.IndexSelect(0, s.good), ratios.IndexSelect(0, s.bad), s.kl), s
}

// loss returns the loss of the logarithms of how much more probable completions are than to the
// reference, of good and of bad ones.
func (t *Task) loss(good, bad, kl torch.Tensor) torch.Tensor {
	gate := func(ratios torch.Tensor) torch.Tensor { return ratios.MulScalar(t.options.Beta).Sigmoid() }
	rest := func(share torch.Tensor) torch.Tensor { return share.Neg().AddScalar(1) }
	if t.options.LossType == KTO {
		good, bad = rest(gate(good.Sub(kl))), rest(gate(kl.Sub(bad)))
	} else {
		good, bad = rest(gate(good)), gate(bad)
	}
	losses := torch.Cat([]torch.Tensor{good.MulScalar(*t.options.DesirableWeight),
		bad.MulScalar(*t.options.UndesirableWeight)}, 0)
	return losses.NanMean(nil, false, torch.DefaultDType)
}

// logps returns the log probabilities of completions, [n].
func logps(m dpo.Model, v logprob.View) torch.Tensor {
	return torch.Return(func() torch.Tensor { return logprob.SumLast(v.Score(m, logprob.Options{}).LogProbs) })
}

// withReference runs f with the reference, without gradients.
func (t *Task) withReference(p engine.ForwardPass, noisy bool, f func(m dpo.Model)) {
	torch.NoGrad(func() {
		t.options.Reference.Run(func(m dpo.Model) {
			if m != t.model {
				t.place.Move(m, p.Device)
			}
			if noisy && m == t.model {
				nn.SetTraining(m, false)
				defer nn.SetTraining(m, true)
			}
			f(m)
		})
	})
}

// rows returns the indices of good and of bad completions.
func (t *Task) rows(p engine.ForwardPass, labels []bool) (good, bad torch.Tensor) {
	var at [2][]int64
	for i, is := range labels {
		k := 1
		if is {
			k = 0
		}
		at[k] = append(at[k], int64(i))
	}
	return engine.Input(p, at[0], int64(len(at[0]))), engine.Input(p, at[1], int64(len(at[1])))
}
