package reward

import (
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// TaskOptions configures [NewTask]. The zero value has the defaults of TRL's RewardConfig.
type TaskOptions struct {
	// CenterRewardsCoefficient is the weight of a term of the loss that keeps rewards near 0, the
	// mean of (chosen + rejected)²: center_rewards_coefficient. TRL recommends 0.01. Zero: none.
	CenterRewardsCoefficient float64

	// MaxLength is the maximum number of tokens of a text. Zero: 1024, or the model's maximum if
	// that is less; negative: the model's maximum. Nothing is cut: Collate refuses longer texts, and
	// Task.Keep drops them.
	MaxLength int
	Padding   data.Padding // how wide a batch becomes; on the right only

	KeepDropout bool // keep the dropout of the model: disable_dropout=False
}

// Task ties a model to preferences. An evaluation gives the loss and everything that training logs
// (see "What is logged" above).
type Task struct {
	engine.Observations[pair]
	model     classify.Model
	limits    inputs.Limits
	options   TaskOptions
	maxLength int
}

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Evaluator[Batch]    = (*Task)(nil)
	_ engine.ObservationSharer   = (*Task)(nil)
	_ engine.ObservationSorter   = (*Task)(nil)
	_ engine.TrainingLogger      = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.InputLister[Batch]  = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.OptionsValidator    = (*Task)(nil)
	_ engine.Lengther[Sample]    = (*Task)(nil)
)

// NewTask makes the task of a model with one label, and removes the model's dropout unless
// KeepDropout is set.
func NewTask(m classify.Model, o TaskOptions) (*Task, error) {
	t := &Task{model: m, limits: m.Limits(), options: o}
	if n := m.Head().NumLabels; n != 1 {
		return nil, fmt.Errorf("reward: the model has %d labels; want one, whose logit is the reward of a text: "+
			"RewardModel of package auto loads it so, or set Options.ID2Label to one text", n)
	}
	if err := t.limits.CheckPadding("reward", o.Padding); err != nil {
		return nil, err
	}
	if c := o.CenterRewardsCoefficient; !(c >= 0) || math.IsInf(c, 0) {
		return nil, fmt.Errorf("reward: TaskOptions.CenterRewardsCoefficient is %g; want a number above 0, or 0 for none", c)
	}
	var err error
	if t.maxLength, err = t.limits.TextLength("reward", o.MaxLength, 1); err != nil {
		return nil, err
	}
	if !o.KeepDropout {
		transformer.DisableDropout(m)
	}
	return t, nil
}

// ValidateOptions refuses options that do not work with the model: [inputs.ValidateOptions].
func (t *Task) ValidateOptions(o engine.Options) error {
	return inputs.ValidateOptions("reward", t.model, o)
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Inputs lists what Loss copies to the device.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	b.To(p)
	b.margins(p)
}

// margins returns the margins of the samples, [n]; undefined: all are 0.
func (b Batch) margins(p engine.ForwardPass) torch.Tensor {
	if b.Margins == nil {
		return torch.Tensor{}
	}
	return engine.Input(p, b.Margins)
}

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss {
	loss, r := t.pass(p, b)
	l := engine.Mean(loss, b.Pairs())
	torch.NoGrad(func() { l.Logged = r.log() })
	return l
}

// pass returns the loss and the rewards of a batch.
func (t *Task) pass(p engine.ForwardPass, b Batch) (loss torch.Tensor, r rewards) {
	// in float32, to which accelerate converts the outputs of a 16-bit model
	r.all = b.Forward(p, t.model).ToDType(torch.Float32).SqueezeDim(-1)
	halves := r.all.Chunk(2, 0)
	r.chosen, r.rejected = halves[0], halves[1]
	better := r.chosen.Sub(r.rejected)
	if margins := b.margins(p); margins.Defined() {
		better = better.Sub(margins)
	}
	loss = functional.LogSigmoid(better).Mean(torch.DefaultDType).Neg()
	if c := t.options.CenterRewardsCoefficient; c != 0 {
		loss = loss.Add(r.chosen.Add(r.rejected).Square().Mean(torch.DefaultDType).MulScalar(c))
	}
	return loss, r
}

// rewards holds the rewards of a batch: of the chosen texts, [n], the rejected ones, and both, [2n].
type rewards struct{ chosen, rejected, all torch.Tensor }

// names of the logged values, in the order of rewards.log.
var names = []string{"min_reward", "mean_reward", "max_reward", "accuracy", "margin"}

// log returns the logged values, [len(names)].
func (r rewards) log() torch.Tensor {
	mean := func(t torch.Tensor) torch.Tensor { return t.Mean(torch.DefaultDType) }
	return torch.Stack([]torch.Tensor{r.all.Min(), mean(r.all), r.all.Max(),
		mean(r.chosen.Gt(r.rejected).ToDType(torch.Float32)), mean(r.chosen.Sub(r.rejected))}, 0).ToDType(torch.Float64)
}

// TrainingLogs returns the names of the values that are logged besides the loss.
func (t *Task) TrainingLogs() []string { return names }

// pair holds the values of a sample in an evaluation.
type pair struct{ Chosen, Rejected float64 }

// Evaluate runs the model on an evaluation batch.
func (t *Task) Evaluate(p engine.ForwardPass, b Batch) engine.Loss {
	loss, r := t.pass(p, b)
	n := b.Pairs()
	values := torch.Values[float32](r.all)
	for i := range n {
		t.Note(pair{float64(values[i]), float64(values[n+i])})
	}
	return engine.Mean(loss, n)
}

// Metrics returns the values named by TrainingLogs over all samples of the evaluation.
func (t *Task) Metrics() map[string]float64 {
	pairs := t.Noted()
	if len(pairs) == 0 {
		return nil
	}
	least, most := math.Inf(1), math.Inf(-1)
	var chosen, rejected, right float64
	for _, p := range pairs {
		least, most = min(least, p.Chosen, p.Rejected), max(most, p.Chosen, p.Rejected)
		chosen, rejected = chosen+p.Chosen, rejected+p.Rejected
		if p.Chosen > p.Rejected {
			right++
		}
	}
	n := float64(len(pairs))
	return map[string]float64{"min_reward": least, "mean_reward": (chosen + rejected) / (2 * n), "max_reward": most,
		"accuracy": right / n, "margin": (chosen - rejected) / n}
}
