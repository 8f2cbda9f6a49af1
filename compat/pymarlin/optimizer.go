package pymarlin

import (
	"fmt"

	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Optimizer is an optimizer of a module, with its learning rate. A module may have several, each
// with its own parameters and schedule; the gradients of all are clipped by a single norm.
type Optimizer struct {
	optimizer optim.Optimizer
	peak      float64 // the rate that a schedule starts from
	rate      float64
	scheduled *LRScheduler // the last schedule made for this optimizer; nil: none
	pre, post []func()
}

// NewOptimizer makes an optimizer from settings such as optim.AdamW for the given parameters.
func NewOptimizer(settings optim.Builder, params []torch.Named) (*Optimizer, error) {
	return NewGroupedOptimizer(settings, []optim.Group{{Params: params}})
}

// NewGroupedOptimizer makes an optimizer for groups of parameters, such as those of optim.NoDecay.
func NewGroupedOptimizer(settings optim.Builder, groups []optim.Group) (*Optimizer, error) {
	o, err := settings.Build(groups)
	if err != nil {
		return nil, fmt.Errorf("pymarlin: NewOptimizer: %w", err)
	}
	return &Optimizer{optimizer: o, peak: settings.LearningRate(), rate: settings.LearningRate()}, nil
}

// Rates returns the rates of the groups: param_groups[i]["lr"].
func (o *Optimizer) Rates() []float64 { return torchsave.Rates(o.optimizer, o.rate) }

// SetRate changes the learning rate, until a schedule changes it again.
func (o *Optimizer) SetRate(rate float64) { o.rate = rate }

// Optimizer returns the underlying optimizer.
func (o *Optimizer) Optimizer() optim.Optimizer { return o.optimizer }

// RegisterStepPreHook registers a function called before each step: register_step_pre_hook.
func (o *Optimizer) RegisterStepPreHook(f func()) { o.pre = append(o.pre, f) }

// RegisterStepPostHook registers a function called after each step that was made:
// register_step_post_hook.
func (o *Optimizer) RegisterStepPostHook(f func()) { o.post = append(o.post, f) }

// Step changes the parameters by their gradients, at the current rate.
func (o *Optimizer) Step() {
	_ = o.step(func() (bool, error) { o.optimizer.Step(o.rate); return true, nil })
}

// step calls make, which makes the update, between the hooks.
func (o *Optimizer) step(make func() (applied bool, err error)) error {
	for _, f := range o.pre {
		f()
	}
	applied, err := make()
	if err != nil || !applied {
		return err
	}
	for _, f := range o.post {
		f()
	}
	return nil
}

// ZeroGrad removes the gradients of its parameters.
func (o *Optimizer) ZeroGrad() { o.optimizer.ZeroGrad() }

// State returns the optimizer's state_dict() in PyTorch's form: a checkpoint can be continued in
// Python too.
func (o *Optimizer) State() (State, error) {
	s, err := torchsave.StateDict(o.optimizer, o.rate)
	if err != nil {
		return nil, fmt.Errorf("pymarlin: %w", err)
	}
	if o.scheduled != nil {
		groups, _ := s["param_groups"].([]any)
		for i, g := range groups {
			group, _ := g.(State)
			o.scheduled.addTo(group, torchsave.Scale(o.optimizer.Groups()[i]))
		}
	}
	return s, nil
}

// LoadState restores a state_dict() of PyTorch, or a State. The optimizer keeps the settings it
// was made with; only the rate is restored.
func (o *Optimizer) LoadState(s State) error {
	rate, err := torchsave.LoadStateDict(o.optimizer, s)
	if err == nil {
		o.rate = rate
	}
	return err
}
