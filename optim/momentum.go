package optim

import (
	"math"
	"slices"
)

// MomentumSetter is implemented by an [Optimizer] whose momentum, or first beta, a schedule may
// change from update to update, as OneCycleLR and CyclicLR of package optim/lr do. All optimizers
// of this package implement it.
type MomentumSetter interface {
	// SetMomentum changes the momentum of all groups, or their beta1 if the optimizer has betas,
	// starting with the next Step. It returns [ErrOption] for an optimizer that has neither, and
	// for a value that the optimizer's settings would not allow.
	SetMomentum(momentum float64) error
}

// momentum describes the setting that SetMomentum changes.
type momentum struct {
	key   string // its key in PyTorch's group: "momentum", "beta1", or "betas", whose first number it is
	value float64
	// adds the buffer as a state, for a rule that was made with momentum 0 and therefore without
	// it; nil if there always is one
	addBuffer func(r *rule)
}

func momentumOf(v float64) *momentum { return &momentum{key: "momentum", value: v} }
func beta1Of(v float64) *momentum    { return &momentum{key: "betas", value: v} }

func (m *momentum) withBuffer(add func(r *rule)) *momentum {
	m.addBuffer = add
	return m
}

// SetMomentum implements [MomentumSetter].
func (o *optimizer) SetMomentum(v float64) error {
	for _, g := range o.groups {
		if err := o.checkMomentum(g, v); err != nil {
			return err
		}
	}
	for _, g := range o.groups {
		if r := g.rule; v != g.moment && r.momentum.addBuffer != nil && !r.hasMomentumBuffer() {
			o.addMomentumBuffer(r)
		}
		g.moment = v
	}
	return nil
}

// checkMomentum returns the reason why a group cannot have a momentum.
func (o *optimizer) checkMomentum(g *group, v float64) error {
	r := g.rule
	switch m := r.momentum; {
	case m == nil:
		return errorf(ErrOption, "%s has neither a momentum nor a beta1 that a schedule could move; set "+
			"FixedMomentum in the schedule", r.name)
	case !(v >= 0) || math.IsInf(v, 0) || m.key != "momentum" && v >= 1:
		return errorf(ErrOption, "the momentum for %s is %g; want a finite number that is not negative, and below "+
			"1 for a beta", r.name, v)
	case v == g.moment || m.addBuffer == nil:
		return nil
	}
	switch {
	case r.hasMomentumBuffer() && v == 0:
		return errorf(ErrOption, "the momentum of %s would become 0 after an update with momentum; want a "+
			"positive number", r.name)
	case !r.hasMomentumBuffer() && len(r.states) > 0 && o.updates > 0:
		return errorf(ErrOption, "%s was made without momentum and has made %d updates; set its Momentum from the "+
			"beginning", r.name, o.updates)
	}
	return nil
}

func (r *rule) hasMomentumBuffer() bool {
	return slices.ContainsFunc(r.states, func(s state) bool { return s.name == "momentum_buffer" })
}

// addMomentumBuffer adds momentum to a rule that was made without it. PyTorch creates the buffer
// at a parameter's first gradient; for SGD, at the first that is used with momentum. Therefore all
// parameters of the rule are treated as waiting for their first gradient again.
func (o *optimizer) addMomentumBuffer(r *rule) {
	r.states = slices.Clone(r.states)
	r.momentum.addBuffer(r)
	for _, g := range o.groups {
		if g.rule != r {
			continue
		}
		for _, m := range g.members {
			m.ready = false
		}
		g.arrange()
	}
}

// momentumOption writes the current momentum to the options of PyTorch's group.
func (g *group) momentumOption(options map[string]any) {
	if g.rule.momentum == nil {
		return
	}
	if betas, ok := options["betas"].([]float64); ok {
		betas = slices.Clone(betas)
		betas[0] = g.moment
		options["betas"] = betas
		return
	}
	options[g.rule.momentum.key] = g.moment
}
