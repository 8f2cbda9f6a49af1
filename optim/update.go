package optim

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// rule is what distinguishes one optimizer from another.
type rule struct {
	name        string
	lr          float64 // learning rate from the settings
	weightDecay float64 // weight decay of groups that do not set their own
	// settings under PyTorch's names, except lr and weight_decay: see [ToPyTorch]
	options        map[string]any
	lowRankOptions map[string]any // options of low-rank groups that are added to or replace these
	states         []state        // the state of each parameter
	firstStep      bool           // the first step of a parameter is computed differently
	momentum       *momentum      // what a schedule may change; nil means nothing
	// Fused, Foreach, ForLoop, or empty for PyTorch's choice between the last two
	implementation Implementation
	gradients      gradients                     // the supported kinds of gradient
	lowRank        bool                          // supports groups with low-rank projection of gradients
	fusedOnCPU     bool                          // the fused kernel works on the CPU only
	stateAtOnce    bool                          // State includes states of parameters without gradients so far
	groupStates    []groupState                  // the state of each group
	coupled        bool                          // the update of a parameter depends on other parameters of its group
	modes          func(g *group, training bool) // moves the weights of a group between two modes; see [ModeSwitcher]
	fused          func(s *shard, o settings)
	step           func(b *batch)
	begin          func(g *group, lr float64)         // called before the parameters of a group are updated; may be nil
	check          func(g Group, p torch.Named) error // additional requirements for parameters; may be nil
}

// settings are the settings of a group during one step.
type settings struct {
	lr, weightDecay float64
	momentum        float64 // momentum or beta1, if the rule has one
	group           *group
	foundInf        torch.Tensor // if 1, nothing is updated, see StepUnless; may be undefined
	firstStep       bool         // this is the parameters' first step, and it is computed differently
}

// state is one kind of state of a parameter, under PyTorch's name.
type state struct {
	name string
	make func(m *member, lr float64) torch.Tensor // returns the undefined tensor if this parameter has no such state
	// The state is a float32 tensor without dimensions on the host, such as a step count. Steps use
	// the Go value in member.numbers, and State writes it to the tensor.
	number  bool
	initial func(lr float64) float64 // initial value of a number; nil means 0
	// The state is the same for all parameters and never changes: a table needed to interpret other
	// states.
	constant bool
}

// stepCount is the state that counts a parameter's updates in rules without a fused kernel.
var stepCount = state{name: "step", number: true}

func zeros(name string) state {
	return state{name: name, make: func(m *member, _ float64) torch.Tensor { return m.Tensor.ZerosLike() }}
}

// newState makes a state. For a number, it also returns the value.
func (s state) newState(m *member, lr float64) (t torch.Tensor, number float64) {
	if !s.number {
		return s.make(m, lr), 0
	}
	if s.initial != nil {
		number = float64(float32(s.initial(lr)))
	}
	return torch.Full(number), number
}

// optimizer executes the rules of its groups, usually one and the same. Until a parameter has its
// first gradient, it waits in its group. Then its states are created, and it joins the shard of its
// device and dtype, whose parameters are updated together.
type optimizer struct {
	name    string // of the rule of groups that have no Optimizer
	groups  []*group
	params  []torch.Named
	all     *torch.List
	updates int
	skipped torch.Tensor // number of updates that StepUnless skipped since the last call of Updates, on the device
	lr      float64      // of the last step
	eval    bool         // the weights are those for evaluation: see [ModeSwitcher]
}

type group struct {
	Group
	rule    *rule
	moment  float64 // current momentum or beta1, from the settings or SetMomentum
	members []*member
	waiting []*member
	list    *torch.List // of the waiting parameters
	shards  []*shard
	numbers []float64 // parallel to the rule's groupStates
}

// member is a parameter of a group.
type member struct {
	torch.Named
	group   *group
	lowRank bool
	states  []torch.Tensor // parallel to the states of the rule
	numbers []float64      // values of the states that are numbers
	ready   bool           // the states have been created, so it no longer waits
}

// shard holds parameters that one kernel can update together.
type shard struct {
	device  torch.Device
	dtype   torch.DType
	has     []bool // which states the members have
	members []*member
	params  *torch.List
	states  []*torch.List // nil for states that they do not have
}

func (o *optimizer) Step(lr float64) { o.step(lr, torch.Tensor{}) }

// StepUnless is like Step, but changes nothing if foundInf, a float32 tensor without dimensions, is
// 1: a GradScaler of package amp has then found gradients that are not finite. With a fused kernel
// (StepSupportsAMPScaling) it does not wait for that value, except at the first gradients of SGD
// with momentum. Otherwise it reads foundInf.
func (o *optimizer) StepUnless(lr float64, foundInf torch.Tensor) {
	if !o.StepSupportsAMPScaling() {
		if foundInf.Item() == 0 {
			o.Step(lr)
		}
		return
	}
	torch.Scope(func() {
		o.step(lr, foundInf)
		if !o.skipped.Defined() {
			o.skipped = foundInf.ZerosLike().Keep()
		}
		o.skipped.Add_(foundInf)
	})
}

func (o *optimizer) step(lr float64, foundInf torch.Tensor) {
	o.checkRate(lr)
	o.checkMode()
	done := false
	defer o.restoreUnless(&done, o.groupNumbers())
	for _, g := range o.groups {
		set := o.begin(g, lr)
		set.foundInf = foundInf
		fresh := g.firstGradients(set.lr)
		if !g.rule.firstStep {
			g.admit(fresh)
			fresh = nil
		}
		for _, s := range g.shards {
			o.update(s, set)
		}
		if len(fresh) > 0 && !(foundInf.Defined() && foundInf.Item() != 0) { // the kernel would not set their states
			set.firstStep = true
			for _, s := range shardsOf(fresh) {
				o.update(s, set)
			}
			g.admit(fresh)
		}
	}
	done = true
	o.updates++
	o.lr = lr
}

// groupNumbers returns a copy of the state of the groups.
func (o *optimizer) groupNumbers() (numbers [][]float64) {
	if !o.hasGroupStates() { // most have none, and a step need not allocate
		return nil
	}
	for _, g := range o.groups {
		numbers = append(numbers, slices.Clone(g.numbers))
	}
	return numbers
}

// restoreUnless restores the state of the groups if the step has failed.
func (o *optimizer) restoreUnless(done *bool, numbers [][]float64) {
	if !*done {
		for i, n := range numbers {
			o.groups[i].numbers = n
		}
	}
}

func (o *optimizer) checkRate(lr float64) {
	if math.IsNaN(lr) || math.IsInf(lr, 0) {
		panic(&torch.Error{Op: "optim." + o.name + ".Step", Code: torch.ErrValue,
			Msg: "the learning rate is not a finite number; the schedule that gave it is probably wrong"})
	}
}

// begin starts an update of a group.
func (o *optimizer) begin(g *group, lr float64) settings {
	set := settings{lr: lr * g.LRScale, weightDecay: *g.WeightDecay, momentum: g.moment, group: g}
	if g.rule.begin != nil {
		g.rule.begin(g, set.lr)
	}
	return set
}

// updateAlone updates one parameter of a group whose update has begun.
func (o *optimizer) updateAlone(m *member, set settings) {
	if !m.ready {
		grad := m.Tensor.Grad()
		if !grad.Defined() {
			return
		}
		m.group.rule.checkGradient(m.Name, grad)
		torch.Scope(func() { m.states, m.numbers = m.newStates(set.lr) })
		set.firstStep = m.group.rule.firstStep
		defer m.group.admit([]*member{m}) // the others wait for their own first gradient
	}
	for _, s := range shardsOf([]*member{m}) {
		o.update(s, set)
	}
}

func (o *optimizer) update(s *shard, set settings) {
	r := set.group.rule
	if r.implementation == Fused {
		if set.foundInf.Defined() && set.foundInf.Device() != s.device {
			set.foundInf = set.foundInf.ToDevice(s.device)
		}
		r.fused(s, set)
		return
	}
	torch.Scope(func() {
		torch.NoGrad(func() {
			for _, b := range s.batches(*r, set) {
				r.step(b)
			}
		})
	})
}

// firstGradients creates the states of the waiting parameters that have a gradient now, and returns
// these parameters. They remain in the list of waiting ones.
func (g *group) firstGradients(lr float64) (fresh []*member) {
	if len(g.waiting) == 0 {
		return nil
	}
	torch.Scope(func() {
		for i, grad := range g.list.Grads() {
			if grad.Defined() {
				g.rule.checkGradient(g.waiting[i].Name, grad)
				fresh = append(fresh, g.waiting[i])
			}
		}
		for _, m := range fresh {
			m.states, m.numbers = m.newStates(lr)
		}
	})
	return fresh
}

// begin creates the initial states of the waiting parameters, before their first gradient.
func (g *group) begin(lr float64) {
	fresh := slices.Clone(g.waiting)
	torch.Scope(func() {
		for _, m := range fresh {
			m.states, m.numbers = m.newStates(lr)
		}
	})
	g.admit(fresh)
}

// newStates creates the states of a parameter, which outlive the scope.
func (m *member) newStates(lr float64) ([]torch.Tensor, []float64) {
	states := m.group.rule.states
	made, numbers := make([]torch.Tensor, len(states)), make([]float64, len(states))
	for i, s := range states {
		made[i], numbers[i] = s.newState(m, lr)
		if made[i].Defined() {
			made[i].Keep()
		}
	}
	return made, numbers
}

// admit moves parameters from the waiting list to the shards. It is called after the step has
// succeeded, so that a failed step leaves no trace of their states.
func (g *group) admit(fresh []*member) {
	if len(fresh) == 0 {
		return
	}
	for _, m := range fresh {
		m.ready = true
	}
	g.arrange()
}

// arrange divides the group's parameters into waiting ones and shards of those that are ready.
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

// shardsOf groups parameters by device and dtype, like
// Optimizer._group_tensors_by_device_and_dtype, and by the states that they have.
func shardsOf(members []*member) (shards []*shard) {
next:
	for _, m := range members {
		device, dtype := m.Tensor.Device(), m.Tensor.DType()
		has := make([]bool, len(m.states))
		for i, t := range m.states {
			has[i] = t.Defined()
		}
		for _, s := range shards {
			if s.device == device && s.dtype == dtype && slices.Equal(s.has, has) {
				s.members = append(s.members, m)
				continue next
			}
		}
		shards = append(shards, &shard{device: device, dtype: dtype, has: has, members: []*member{m}})
	}
	for _, s := range shards {
		s.params = listOf(s.members, func(m *member) torch.Tensor { return m.Tensor })
		s.states = make([]*torch.List, len(s.has))
		for i, has := range s.has {
			if has {
				s.states[i] = listOf(s.members, func(m *member) torch.Tensor { return m.states[i] })
			}
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

// Updates waits for the device after a StepUnless.
func (o *optimizer) Updates() int {
	if o.skipped.Defined() {
		o.updates -= int(o.skipped.Item())
		o.skipped.Zero_()
	}
	return o.updates
}

func (o *optimizer) Params() []torch.Named { return o.params }

func (o *optimizer) Groups() []Group {
	groups := make([]Group, len(o.groups))
	for i, g := range o.groups {
		groups[i] = g.Group
	}
	return groups
}
