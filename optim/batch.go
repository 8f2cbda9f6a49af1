package optim

import (
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// batch is a set of parameters that have a gradient and are updated together by one sequence of
// operators. They belong to one shard, and their numbers, such as step counts, are equal, so that
// all factors are the same for all of them.
type batch struct {
	settings
	foreach bool // use the formula of foreach=True, if it differs from that of foreach=False
	members []*member
	params  list
	grads   list
	states  []list // empty for states that are numbers or that these parameters do not have
}

// batches divides the parameters that have a gradient into batches. Usually all parameters are at
// the same step and form a single batch, for which the lists are not copied.
func (s *shard) batches(r rule, set settings) []*batch {
	formula := r.implementation == Foreach || r.implementation == DefaultImplementation && s.device.IsCUDA()
	operators := operators{foreach: formula || !s.device.IsCUDA(), python: !formula && wide(s.dtype) != s.dtype}
	grads := s.params.Grads()
	if s.uniform(grads) {
		b := &batch{set, formula, s.members, list{s.params.Tensors(), operators}, list{grads, operators},
			make([]list, len(s.states))}
		for i, l := range s.states {
			if l != nil {
				b.states[i] = list{l.Tensors(), operators}
			}
		}
		return []*batch{b}
	}
	var all []*batch
next:
	for i, m := range s.members {
		if !grads[i].Defined() {
			continue
		}
		for _, b := range all {
			if slices.Equal(b.members[0].numbers, m.numbers) {
				b.append(m, grads[i])
				continue next
			}
		}
		b := &batch{set, formula, nil, list{nil, operators}, list{nil, operators}, make([]list, len(s.states))}
		for j := range b.states {
			b.states[j].operators = operators
		}
		b.append(m, grads[i])
		all = append(all, b)
	}
	return all
}

func (s *shard) uniform(grads []torch.Tensor) bool {
	for i, m := range s.members {
		if !grads[i].Defined() || !slices.Equal(m.numbers, s.members[0].numbers) {
			return false
		}
	}
	return true
}

func (b *batch) append(m *member, grad torch.Tensor) {
	b.members = append(b.members, m)
	b.params.ts = append(b.params.ts, m.Tensor)
	b.grads.ts = append(b.grads.ts, grad)
	for i, t := range m.states {
		if t.Defined() {
			b.states[i].ts = append(b.states[i].ts, t)
		}
	}
}

// number returns the value of state i, which is a number.
func (b *batch) number(i int) float64 { return b.members[0].numbers[i] }

// setNumber sets state i, which is a number, rounded to float32 as in PyTorch.
func (b *batch) setNumber(i int, v float64) {
	for _, m := range b.members {
		m.numbers[i] = float64(float32(v))
	}
}

// count increments state 0, the number of updates, and returns it.
func (b *batch) count() float64 {
	b.setNumber(0, b.number(0)+1)
	return b.number(0)
}

// gradient returns the gradients, negated if maximize is set, plus weightDecay times the weights.
func (b *batch) gradient(maximize bool, weightDecay float64) list {
	g := b.grads
	if maximize {
		g = g.neg()
	}
	if weightDecay != 0 {
		g = g.add(b.params, weightDecay)
	}
	return g
}

// decayed applies weight decay and returns the gradients. If decoupled is set, the weights
// themselves are decayed; otherwise the decay is added to the gradients.
func (b *batch) decayed(maximize, decoupled bool) list {
	if !decoupled {
		return b.gradient(maximize, b.weightDecay)
	}
	if b.weightDecay != 0 {
		b.params.mulScalar_(1 - b.lr*b.weightDecay)
	}
	return b.gradient(maximize, 0)
}
