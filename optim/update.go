package optim

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// rule is what distinguishes one optimizer from another.
type rule struct {
	name      string
	options   torch.FusedOptions // those of all groups, but for the weight decay
	states    []state            // what it remembers of each parameter
	firstStep bool               // a parameter's first step is another computation than the later ones
	step      func(params *torch.List, states []*torch.List, o torch.FusedOptions)
}

// state is one kind of memory of a parameter, under PyTorch's name.
type state struct {
	name string
	make func(param torch.Tensor) torch.Tensor
}

// optimizer carries any rule out. A parameter waits in its group until its first gradient; then it gets its states and joins
// the shard of its device and dtype, which one kernel updates.
type optimizer struct {
	rule    rule
	groups  []*group
	params  []torch.Named
	all     *torch.List
	updates int
}

type group struct {
	Group
	options torch.FusedOptions
	members []*member
	waiting []*member
	list    *torch.List // of those waiting
	shards  []*shard
}

// member is a parameter of a group.
type member struct {
	torch.Named
	states []torch.Tensor // parallel to the rule's
	ready  bool           // the states hold something: it waits no longer
}

// shard holds parameters that one kernel can update together.
type shard struct {
	device  torch.Device
	dtype   torch.DType
	members []*member
	params  *torch.List
	states  []*torch.List
}

func (o *optimizer) Step(lr float64) {
	if math.IsNaN(lr) || math.IsInf(lr, 0) {
		panic(&torch.Error{Op: "optim." + o.rule.name + ".Step", Code: torch.ErrValue, Msg: "the learning rate is not a finite number; the schedule that gave it is probably wrong"})
	}
	for _, g := range o.groups {
		g.options.LR = lr * g.LRScale
		fresh := g.firstGradients(o.rule.states)
		if !o.rule.firstStep {
			g.admit(fresh)
			fresh = nil
		}
		for _, s := range g.shards {
			o.rule.step(s.params, s.states, g.options)
		}
		if len(fresh) > 0 {
			first := g.options
			first.FirstStep = true
			for _, s := range shardsOf(fresh) {
				o.rule.step(s.params, s.states, first)
			}
			g.admit(fresh)
		}
	}
	o.updates++
}

// firstGradients makes the states of the waiting parameters that have a gradient now, and returns those parameters. They still wait.
func (g *group) firstGradients(states []state) (fresh []*member) {
	if len(g.waiting) == 0 {
		return nil
	}
	torch.Scope(func() {
		for i, grad := range g.list.Grads() {
			if grad.Defined() {
				fresh = append(fresh, g.waiting[i])
			}
		}
		for _, m := range fresh {
			list := make([]torch.Tensor, len(states))
			for i, s := range states {
				list[i] = s.make(m.Tensor).Keep()
			}
			m.states = list
		}
	})
	return fresh
}

// admit moves parameters from the waiting ones to the shards. Until then a step that fails leaves no trace of their states.
func (g *group) admit(fresh []*member) {
	if len(fresh) == 0 {
		return
	}
	for _, m := range fresh {
		m.ready = true
	}
	g.arrange()
}

// arrange divides the group's parameters anew into those that wait and the shards of those that are ready.
func (g *group) arrange() {
	var ready []*member
	g.waiting = g.waiting[:0]
	for _, m := range g.members {
		if m.ready {
			ready = append(ready, m)
		} else {
			g.waiting = append(g.waiting, m)
		}
	}
	g.list = listOf(g.waiting, func(m *member) torch.Tensor { return m.Tensor })
	g.shards = shardsOf(ready)
}

// shardsOf groups parameters by device and dtype, as Optimizer._group_tensors_by_device_and_dtype does for the kernels of a GPU.
func shardsOf(members []*member) (shards []*shard) {
next:
	for _, m := range members {
		device, dtype := m.Tensor.Device(), m.Tensor.DType()
		for _, s := range shards {
			if s.device == device && s.dtype == dtype {
				s.members = append(s.members, m)
				continue next
			}
		}
		shards = append(shards, &shard{device: device, dtype: dtype, members: []*member{m}})
	}
	for _, s := range shards {
		s.params = listOf(s.members, func(m *member) torch.Tensor { return m.Tensor })
		s.states = make([]*torch.List, len(s.members[0].states))
		for i := range s.states {
			s.states[i] = listOf(s.members, func(m *member) torch.Tensor { return m.states[i] })
		}
	}
	return shards
}

func listOf(members []*member, f func(*member) torch.Tensor) *torch.List {
	ts := make([]torch.Tensor, len(members))
	for i, m := range members {
		ts[i] = f(m)
	}
	return torch.NewList(ts...)
}

func (o *optimizer) ZeroGrad() { o.all.ZeroGrad(false) }

func (o *optimizer) Updates() int { return o.updates }

func (o *optimizer) Params() []torch.Named { return o.params }

func (o *optimizer) Groups() []Group {
	groups := make([]Group, len(o.groups))
	for i, g := range o.groups {
		groups[i] = g.Group
	}
	return groups
}
