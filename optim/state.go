package optim

import (
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

func (o *optimizer) State() []torch.Named {
	var all []torch.Named
	for _, g := range o.groups {
		for _, m := range g.members {
			if !m.ready {
				continue
			}
			for i, t := range m.states {
				all = append(all, torch.Named{Name: m.Name + "." + o.rule.states[i].name, Tensor: t})
			}
		}
	}
	return all
}

// LoadState works in three parts, so that it changes nothing if the first or second fails: compare, allocate, copy.
func (o *optimizer) LoadState(given []torch.Named, updates int) error {
	if updates < 0 {
		return mistakef(ErrState, "the number of updates is %d; want one that is not negative", updates)
	}
	found, err := o.match(given)
	if err != nil {
		return err
	}
	fresh := map[*member][]torch.Tensor{}
	err = torch.Try(func() {
		for m := range found {
			if !m.ready {
				torch.Scope(func() {
					for _, s := range o.rule.states {
						fresh[m] = append(fresh[m], s.make(m.Tensor).Keep())
					}
				})
			}
		}
	})
	if err != nil {
		return err
	}
	for _, g := range o.groups {
		for _, m := range g.members {
			source := found[m]
			if states, ok := fresh[m]; ok {
				m.states = states
			}
			m.ready = source != nil
			torch.NoGrad(func() {
				for i, t := range source {
					m.states[i].Copy_(t)
				}
			})
		}
		g.arrange()
	}
	o.updates = updates
	return nil
}

// match finds the states of each parameter and checks that they fit it.
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
		kind := slices.IndexFunc(o.rule.states, func(k state) bool { return k.name == s.Name[dot+1:] })
		switch {
		case m == nil:
			return nil, mistakef(ErrState, "state %q belongs to no parameter of this %s", s.Name, o.rule.name)
		case kind < 0:
			return nil, mistakef(ErrState, "state %q is none that this %s keeps; it keeps %s", s.Name, o.rule.name, o.rule.stateNames())
		case found[m] == nil:
			found[m] = make([]torch.Tensor, len(o.rule.states))
		case found[m][kind].Defined():
			return nil, mistakef(ErrState, "state %q was given twice", s.Name)
		}
		if err := o.rule.fits(kind, m.Tensor, s); err != nil {
			return nil, err
		}
		found[m][kind] = s.Tensor
	}
	for m, ts := range found {
		for i, t := range ts {
			if !t.Defined() {
				return nil, mistakef(ErrState, "state %q is missing, though there is other state of %q", m.Name+"."+o.rule.states[i].name, m.Name)
			}
		}
	}
	return found, nil
}

// fits checks the shape and dtype of a state: those of its parameter, but for step counts.
func (r rule) fits(kind int, param torch.Tensor, s torch.Named) error {
	if !s.Tensor.Defined() {
		return mistakef(ErrState, "state %q is undefined", s.Name)
	}
	var err error
	failed := torch.Try(func() {
		shape, dtype := param.Shape(), param.DType()
		if r.states[kind].name == "step" {
			shape, dtype = nil, torch.Float32
		}
		if got := s.Tensor.Shape(); !slices.Equal(got, shape) {
			err = mistakef(ErrState, "state %q has shape %v; want %v", s.Name, got, shape)
		} else if got := s.Tensor.DType(); got != dtype {
			err = mistakef(ErrState, "state %q has dtype %s; want %s", s.Name, got, dtype)
		}
	})
	if failed != nil {
		return mistakef(ErrState, "state %q: %v", s.Name, failed)
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
