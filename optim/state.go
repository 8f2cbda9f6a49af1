package optim

import (
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

func (o *optimizer) State() []torch.Named {
	var all []torch.Named
	for _, g := range o.groups {
		if g.rule.stateAtOnce {
			g.begin(o.lr * g.LRScale)
		}
		for _, m := range g.members {
			if !m.ready {
				continue
			}
			for i, t := range m.states {
				if !t.Defined() {
					continue
				}
				if g.rule.states[i].number && g.rule.implementation != Fused && !holds(t, m.numbers[i]) {
					torch.NoGrad(func() { t.Fill_(m.numbers[i]) })
				}
				all = append(all, torch.Named{Name: m.Name + "." + g.rule.states[i].name, Tensor: t})
			}
		}
	}
	return append(all, o.groupState()...)
}

// holds reports whether the tensor already has the value of the number. Then it is not written
// again, since writing counts as a change of the tensor, which would disturb a copy of the state
// that is being made at the same time. On a GPU it returns false, because reading the value would
// wait for the GPU.
func holds(t torch.Tensor, number float64) bool {
	if t.DType() == torch.Float32 {
		number = float64(float32(number))
	}
	return t.Device() == torch.CPU && t.Item() == number
}

// LoadState has three stages, allocate, compare and copy. If one of the first two fails, nothing
// has changed.
func (o *optimizer) LoadState(given []torch.Named, updates int) error {
	if updates < 0 {
		return errorf(ErrState, "the number of updates is %d; want one that is not negative", updates)
	}
	given, numbers, err := o.takeGroupState(given)
	if err != nil {
		return err
	}
	found, err := o.match(given)
	if err != nil {
		return err
	}
	fresh, err := o.allocate(found)
	if err != nil {
		return err
	}
	if err := o.compare(found, fresh); err != nil {
		freeStates(fresh)
		return err
	}
	for i, g := range o.groups {
		for _, m := range g.members {
			if states, ok := fresh[m]; ok {
				m.states, m.numbers = states, make([]float64, len(states))
			}
			m.load(found[m])
		}
		g.arrange()
		g.numbers = numbers[i]
	}
	o.loadMode()
	o.updates = updates
	if o.skipped.Defined() {
		o.skipped.Zero_()
	}
	return nil
}

// allocate makes the states of parameters that do not have theirs yet.
func (o *optimizer) allocate(found map[*member][]torch.Tensor) (map[*member][]torch.Tensor, error) {
	fresh := map[*member][]torch.Tensor{}
	err := torch.Try(func() {
		for m := range found {
			if !m.ready {
				torch.Scope(func() { fresh[m], _ = m.newStates(o.lr) })
			}
		}
	})
	if err != nil {
		freeStates(fresh)
		return nil, err
	}
	return fresh, nil
}

func freeStates(states map[*member][]torch.Tensor) {
	for _, ts := range states {
		for _, t := range ts {
			t.Free()
		}
	}
}

// load copies states that have passed compare; nil means that the parameter has not been updated
// yet.
func (m *member) load(source []torch.Tensor) {
	states := m.group.rule.states
	m.ready = source != nil
	torch.NoGrad(func() {
		for i, t := range source {
			if !t.Defined() || states[i].constant || t.Device() == torch.Meta {
				continue
			}
			m.states[i].Copy_(t)
			if states[i].number {
				m.numbers[i] = t.Item()
			}
		}
	})
}

// match assigns the given states to the parameters by name.
func (o *optimizer) match(given []torch.Named) (map[*member][]torch.Tensor, error) {
	members := map[string]*member{}
	for _, g := range o.groups {
		for _, m := range g.members {
			members[m.Name] = m
		}
	}
	found := map[*member][]torch.Tensor{}
	for _, s := range given {
		dot := strings.LastIndexByte(s.Name, '.')
		m := members[s.Name[:max(dot, 0)]]
		if m == nil {
			return nil, errorf(ErrState, "state %q belongs to no parameter of this %s", s.Name, o.name)
		}
		r := m.group.rule
		kind := slices.IndexFunc(r.states, func(k state) bool { return k.name == s.Name[dot+1:] })
		switch {
		case kind < 0:
			return nil, errorf(ErrState, "state %q is not a state that this %s keeps; it keeps %s", s.Name, r.name,
				r.stateNames())
		case !s.Tensor.Defined():
			return nil, errorf(ErrState, "state %q is undefined", s.Name)
		case found[m] == nil:
			found[m] = make([]torch.Tensor, len(r.states))
		case found[m][kind].Defined():
			return nil, errorf(ErrState, "state %q was given twice", s.Name)
		}
		found[m][kind] = s.Tensor
	}
	return found, nil
}

// compare checks the found states against those that the parameters have or, for parameters without
// state, those that they would get.
func (o *optimizer) compare(found, fresh map[*member][]torch.Tensor) error {
	for _, g := range o.groups {
		for _, m := range g.members {
			wanted := m.states
			if !m.ready {
				wanted = fresh[m]
			}
			for i, t := range found[m] {
				name := m.Name + "." + g.rule.states[i].name
				switch {
				case !t.Defined() && wanted[i].Defined():
					return errorf(ErrState, "state %q is missing, though there is other state of %q", name, m.Name)
				case t.Defined() && !wanted[i].Defined():
					return errorf(ErrState, "state %q is not a state that this %s keeps of a parameter of shape %v",
						name, g.rule.name, m.Tensor.Shape())
				case t.Defined():
					if err := g.rule.agrees(name, g.rule.states[i], t, wanted[i]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// agrees checks one state.
func (r *rule) agrees(name string, kind state, t, wanted torch.Tensor) error {
	if err := fits(name, t, wanted); err != nil {
		return err
	}
	if t.Device() == torch.Meta && (kind.number || kind.constant) {
		return errorf(ErrState, "state %q is on meta, where it has no value, and this %s needs it", name, r.name)
	}
	if kind.constant && !t.CPU().Equal(wanted.CPU()) {
		return errorf(ErrState, "state %q has other values than this %s works with; its 8-bit numbers would mean "+
			"something else", name, r.name)
	}
	return nil
}

// fits checks the shape and the dtype of a state.
func fits(name string, t, wanted torch.Tensor) (err error) {
	failed := torch.Try(func() {
		if got, want := t.Shape(), wanted.Shape(); !slices.Equal(got, want) {
			err = errorf(ErrState, "state %q has shape %v; want %v", name, got, want)
		} else if got, want := t.DType(), wanted.DType(); got != want {
			err = errorf(ErrState, "state %q has dtype %s; want %s", name, got, want)
		}
	})
	if failed != nil {
		return errorf(ErrState, "state %q: %v", name, failed)
	}
	return err
}

func (r rule) stateNames() string {
	if len(r.states) == 0 {
		return "none, for want of momentum"
	}
	var names []string
	for _, s := range r.states {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}
