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
	m := o.rule.momentum
	switch {
	case m == nil:
		return errorf(ErrOption, "%s has neither a momentum nor a beta1 that a schedule could move; set "+
			"FixedMomentum in the schedule", o.rule.name)
	case !(v >= 0) || math.IsInf(v, 0) || m.key != "momentum" && v >= 1:
		return errorf(ErrOption, "the momentum for %s is %g; want a finite number that is not negative, and below "+
			"1 for a beta", o.rule.name, v)
	case v == o.moment:
		return nil
	}
	if m.addBuffer != nil {
		buffered := slices.ContainsFunc(o.rule.states, func(s state) bool { return s.name == "momentum_buffer" })
		if buffered && v == 0 {
			return errorf(ErrOption, "the momentum of %s would become 0 after an update with momentum; want a "+
				"positive number", o.rule.name)
		}
		if !buffered {
			if err := o.addMomentumBuffer(); err != nil {
				return err
			}
		}
	}
	o.moment = v
	return nil
}

// addMomentumBuffer adds momentum to an optimizer that was made without it. PyTorch creates the
// buffer at a parameter's first gradient; for SGD, at the first that is used with momentum.
// Therefore all parameters are treated as waiting for their first gradient again.
func (o *optimizer) addMomentumBuffer() error {
	if len(o.rule.states) > 0 && o.updates > 0 {
		return errorf(ErrOption, "%s was made without momentum and has made %d updates; set its Momentum from the "+
			"beginning", o.rule.name, o.updates)
	}
	o.rule.states = slices.Clone(o.rule.states)
	o.rule.momentum.addBuffer(&o.rule)
	for _, g := range o.groups {
		for _, m := range g.members {
			m.ready = false
		}
		g.arrange()
	}
	return nil
}

// momentumOption writes the current momentum to the options of PyTorch's group.
func (o *optimizer) momentumOption(options map[string]any) {
	if o.rule.momentum == nil {
		return
	}
	if betas, ok := options["betas"].([]float64); ok {
		betas = slices.Clone(betas)
		betas[0] = o.moment
		options["betas"] = betas
		return
	}
	options[o.rule.momentum.key] = o.moment
}
