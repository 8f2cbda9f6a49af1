package optim

import (
	"github.com/gotrainer/gotrainer/torch"
)

// LayerWise makes an optimizer update each parameter during the backward pass, as soon as its
// gradient is computed, and then free the gradient, so that the gradients of a model are never in
// memory all at once. The results are those of the optimizer itself, which must update each
// parameter independently; [GrokAdamW] and [LBFGS] do not. transformers calls this
// galore_adamw_layerwise and the like. [LOMO] and [AdaLOMO] always work this way.
//
//	opt, err := optim.LayerWise{Optimizer: optim.GaLoreAdamW{LR: 1e-3}}.Build(groups)
//	...
//	opt.(optim.BackwardUpdater).BeforeBackward(rate(k))
//	loss.Backward()
//	opt.Step(rate(k))
//
// See [BackwardUpdater] for what cannot be combined with such an update.
type LayerWise struct{ Optimizer Builder }

// LearningRate returns the optimizer's learning rate.
func (l LayerWise) LearningRate() float64 { return l.Optimizer.LearningRate() }

// Build makes the optimizer and registers its hooks.
func (l LayerWise) Build(groups []Group) (Optimizer, error) {
	if l.Optimizer == nil {
		return nil, errorf(ErrOption, "LayerWise.Optimizer is not set; want the settings of an optimizer")
	}
	made, err := l.Optimizer.Build(groups)
	if err != nil {
		return nil, err
	}
	o, ok := made.(*optimizer)
	if !ok {
		if u, updates := made.(BackwardUpdater); updates {
			u.RemoveHooks()
		}
		return nil, errorf(ErrOption, "LayerWise.Optimizer is %T, which works so by itself, or not parameter by "+
			"parameter; want GaLoreAdamW, AdamW or another one of this package", l.Optimizer)
	}
	return layered(o, nil)
}

// BackwardUpdater is an [Optimizer] that updates its parameters during the backward pass: one made
// by [LayerWise], [LOMO] or [AdaLOMO]. Each update takes exactly one backward pass, so gradients
// cannot be accumulated. All gradients are freed by the end of the pass, so they cannot be clipped
// together, scaled or averaged over processes.
type BackwardUpdater interface {
	Optimizer
	// BeforeBackward starts an update with a learning rate. It must be followed by the backward
	// pass and then by Step, which counts the update and updates parameters that got a gradient in
	// some other way. A backward pass without BeforeBackward, or a second one, panics with
	// [*torch.Error]: gradients cannot be accumulated.
	BeforeBackward(lr float64)
	// RemoveHooks removes the hooks from the parameters, which keep the optimizer alive. Without
	// them it updates in Step, like other optimizers.
	RemoveHooks()
}

// layerWise is an optimizer that updates parameters in hooks during the backward pass.
type layerWise struct {
	*optimizer
	hooks   []*torch.PostAccumulateGradHook
	begun   bool
	rate    float64
	set     map[*member]settings // the settings of the current update
	updated map[*member]bool
}

// layered registers the hooks for an optimizer returned by Build.
func layered(made Optimizer, err error) (Optimizer, error) {
	if err != nil {
		return nil, err
	}
	l := &layerWise{optimizer: made.(*optimizer)}
	for _, g := range l.groups {
		if g.rule.coupled {
			return nil, errorf(ErrOption, "%s cannot work layer by layer: an update of a parameter depends on the others",
				g.rule.name)
		}
	}
	failed := torch.Try(func() {
		for _, g := range l.groups {
			for _, m := range g.members {
				if m.Tensor.NeedsGrad() {
					l.hooks = append(l.hooks, m.Tensor.RegisterPostAccumulateGradHook(func() { l.hook(m) }))
				}
			}
		}
	})
	if failed != nil {
		l.RemoveHooks()
		return nil, failed
	}
	return l, nil
}

// RemoveHooks implements [BackwardUpdater].
func (l *layerWise) RemoveHooks() {
	for _, h := range l.hooks {
		h.Remove()
	}
	l.hooks = nil
}

// BeforeBackward implements [BackwardUpdater].
func (l *layerWise) BeforeBackward(lr float64) {
	l.checkRate(lr)
	l.checkMode()
	if l.begun {
		panic(l.misuse("an update has begun already; call Step after each backward pass"))
	}
	l.begun, l.rate, l.set, l.updated = true, lr, map[*member]settings{}, map[*member]bool{}
	for _, g := range l.groups {
		set := l.begin(g, lr)
		for _, m := range g.members {
			l.set[m] = set
		}
	}
}

func (l *layerWise) misuse(text string) *torch.Error {
	return &torch.Error{Op: "optim." + l.name, Code: torch.ErrInvalid, Msg: text}
}

// hook updates a parameter whose gradient is complete.
func (l *layerWise) hook(m *member) {
	switch {
	case !l.begun:
		panic(l.misuse("it updates during the backward pass; call BeforeBackward with the learning rate before " +
			"Backward, and Step after it"))
	case l.updated[m]:
		panic(l.misuse("a second backward pass has reached " + m.Name + " before Step; gradients cannot be " +
			"accumulated, as they are freed during the pass"))
	}
	l.updated[m] = true
	l.updateAlone(m, l.set[m])
	m.Tensor.SetGrad(torch.Tensor{})
}

// Step ends an update that BeforeBackward began with the same rate. Without one, it makes a whole
// update.
func (l *layerWise) Step(lr float64) {
	if !l.begun {
		l.optimizer.Step(lr)
		return
	}
	if lr != l.rate {
		panic(l.misuse("the learning rate of Step differs from that of BeforeBackward, by which the parameters have " +
			"been updated"))
	}
	torch.Scope(func() {
		for _, g := range l.groups {
			for _, m := range g.members {
				if !l.updated[m] && m.Tensor.Grad().Defined() {
					l.updateAlone(m, l.set[m])
				}
			}
		}
	})
	l.begun, l.set, l.updated = false, nil, nil
	l.updates++
	l.lr = lr
}
