package optim

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// rule is what distinguishes one optimizer from another.
type rule struct {
	name        string
	lr          float64 // the rate of the settings
	weightDecay float64 // of groups that have none of their own
	// settings under PyTorch's names, without lr and weight_decay: see [ToPyTorch]
	options        map[string]any
	lowRankOptions map[string]any // those of low-rank groups beside them, or in their place
	states         []state        // what it remembers of each parameter
	firstStep      bool           // a parameter's first step is another computation than the later ones
	momentum       *momentum      // what a schedule may move; nil: nothing
	// Fused, Foreach, ForLoop, or nothing: PyTorch's choice between the last two
	implementation Implementation
	gradients      gradients                     // the kinds of gradient that it works with
	lowRank        bool                          // groups may ask for a low-rank projection of their gradients
	fusedOnCPU     bool                          // the fused kernel is for the CPU only
	stateAtOnce    bool                          // State shows what a parameter begins with before its first gradient
	groupStates    []groupState                  // what it remembers of each group
	coupled        bool                          // what happens to a parameter depends on the others of its group
	modes          func(g *group, training bool) // moves the weights of a group between two modes; see [ModeSwitcher]
	fused          func(s *shard, o settings)
	step           func(b *batch)
	begin          func(g *group, lr float64)         // before the parameters of a group; may be nil
	check          func(g Group, p torch.Named) error // what it asks of a parameter beyond the usual; may be nil
}

// settings are those of a group at one step.
type settings struct {
	lr, weightDecay float64
	momentum        float64 // momentum or beta1, where the rule has one
	group           *group
	foundInf        torch.Tensor // 1: nothing is updated, see StepUnless; undefined: all is
	firstStep       bool         // of these parameters it is the first step, and the rule has asked for the difference
}

// state is one kind of memory of a parameter, under PyTorch's name.
type state struct {
	name string
	make func(m *member, lr float64) torch.Tensor // undefined: this parameter has no such state
	// A number is a float32 without dimensions that is on the host, such as a count of steps:
	// the Go value in member.numbers is what a step works with, and State brings the tensor up to
	// date.
	number  bool
	initial func(lr float64) float64 // of a number; nil: 0
	// It is the same for all parameters and never changes: a table that the other states are read
	// with.
	constant bool
}

// stepCount is the state of the composed rules that counts a parameter's updates.
var stepCount = state{name: "step", number: true}

func zeros(name string) state {
	return state{name: name, make: func(m *member, _ float64) torch.Tensor { return m.Tensor.ZerosLike() }}
}

// newState makes a state and the number that it holds, if it is one.
func (s state) newState(m *member, lr float64) (t torch.Tensor, number float64) {
	if !s.number {
		return s.make(m, lr), 0
	}
	if s.initial != nil {
		number = float64(float32(s.initial(lr)))
	}
	return torch.Full(number), number
}

// optimizer carries any rule out. A parameter waits in its group until its first gradient; then it
// gets its states and joins the shard of its device and dtype, which one kernel updates.
type optimizer struct {
	rule    rule
	groups  []*group
	params  []torch.Named
	all     *torch.List
	updates int
	leftOut torch.Tensor // how many of them StepUnless has left out, as far as Updates has not looked; on a device
	lr      float64      // of the last step
	eval    bool         // the weights are those for evaluation: see [ModeSwitcher]
	moment  float64      // momentum or beta1, as the settings or SetMomentum said last
}

type group struct {
	Group
	members []*member
	waiting []*member
	list    *torch.List // of those waiting
	shards  []*shard
	numbers []float64 // parallel to the rule's groupStates
}

// member is a parameter of a group.
type member struct {
	torch.Named
	lowRank bool
	states  []torch.Tensor // parallel to the rule's
	numbers []float64      // of the states that are numbers
	ready   bool           // the states hold something: it waits no longer
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

// StepUnless is Step, but changes nothing where foundInf, a float32 without dimensions, is 1, as a
// GradScaler of package amp tells of gradients that are not finite. With a fused kernel
// (StepSupportsAMPScaling) nothing waits to learn which it is, except at the first gradients of SGD
// with momentum; others read foundInf.
func (o *optimizer) StepUnless(lr float64, foundInf torch.Tensor) {
	if !o.StepSupportsAMPScaling() {
		if foundInf.Item() == 0 {
			o.Step(lr)
		}
		return
	}
	torch.Scope(func() {
		o.step(lr, foundInf)
		if !o.leftOut.Defined() {
			o.leftOut = foundInf.ZerosLike().Keep()
		}
		o.leftOut.Add_(foundInf)
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
		fresh := g.firstGradients(&o.rule, set.lr)
		if !o.rule.firstStep {
			g.admit(fresh)
			fresh = nil
		}
		for _, s := range g.shards {
			o.update(s, set)
		}
		if len(fresh) > 0 && !(foundInf.Defined() && foundInf.Item() != 0) { // the kernel would not fill their states
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

// groupNumbers are what is remembered of the groups.
func (o *optimizer) groupNumbers() (numbers [][]float64) {
	if len(o.rule.groupStates) > 0 {
		for _, g := range o.groups {
			numbers = append(numbers, slices.Clone(g.numbers))
		}
	}
	return numbers
}

// restoreUnless undoes what a step that fails has changed of them.
func (o *optimizer) restoreUnless(done *bool, numbers [][]float64) {
	if !*done {
		for i, n := range numbers {
			o.groups[i].numbers = n
		}
	}
}

func (o *optimizer) checkRate(lr float64) {
	if math.IsNaN(lr) || math.IsInf(lr, 0) {
		panic(&torch.Error{Op: "optim." + o.rule.name + ".Step", Code: torch.ErrValue,
			Msg: "the learning rate is not a finite number; the schedule that gave it is probably wrong"})
	}
}

// begin starts an update of a group.
func (o *optimizer) begin(g *group, lr float64) settings {
	set := settings{lr: lr * g.LRScale, weightDecay: *g.WeightDecay, momentum: o.moment, group: g}
	if o.rule.begin != nil {
		o.rule.begin(g, set.lr)
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
		o.rule.checkGradient(m.Name, grad)
		torch.Scope(func() { m.states, m.numbers = m.newStates(o.rule.states, set.lr) })
		set.firstStep = o.rule.firstStep
		defer set.group.admit([]*member{m}) // the others have a first gradient of their own to wait for
	}
	for _, s := range shardsOf([]*member{m}) {
		o.update(s, set)
	}
}

func (o *optimizer) update(s *shard, set settings) {
	if o.rule.implementation == Fused {
		if set.foundInf.Defined() && set.foundInf.Device() != s.device {
			set.foundInf = set.foundInf.ToDevice(s.device)
		}
		o.rule.fused(s, set)
		return
	}
	torch.Scope(func() {
		torch.NoGrad(func() {
			for _, b := range s.batches(o.rule, set) {
				o.rule.step(b)
			}
		})
	})
}

// firstGradients makes the states of the waiting parameters that have a gradient now, and returns
// those parameters. They still wait.
func (g *group) firstGradients(r *rule, lr float64) (fresh []*member) {
	if len(g.waiting) == 0 {
		return nil
	}
	torch.Scope(func() {
		for i, grad := range g.list.Grads() {
			if grad.Defined() {
				r.checkGradient(g.waiting[i].Name, grad)
				fresh = append(fresh, g.waiting[i])
			}
		}
		for _, m := range fresh {
			m.states, m.numbers = m.newStates(r.states, lr)
		}
	})
	return fresh
}

// begin makes the states of the parameters that wait, as they are before a first gradient.
func (g *group) begin(r *rule, lr float64) {
	fresh := slices.Clone(g.waiting)
	torch.Scope(func() {
		for _, m := range fresh {
			m.states, m.numbers = m.newStates(r.states, lr)
		}
	})
	g.admit(fresh)
}

// newStates makes the states of a parameter; they outlive the scope.
func (m *member) newStates(states []state, lr float64) ([]torch.Tensor, []float64) {
	made, numbers := make([]torch.Tensor, len(states)), make([]float64, len(states))
	for i, s := range states {
		made[i], numbers[i] = s.newState(m, lr)
		if made[i].Defined() {
			made[i].Keep()
		}
	}
	return made, numbers
}

// admit moves parameters from the waiting ones to the shards. Until then a step that fails leaves
// no trace of their states.
func (g *group) admit(fresh []*member) {
	if len(fresh) == 0 {
		return
	}
	for _, m := range fresh {
		m.ready = true
	}
	g.arrange()
}

// arrange divides the group's parameters again into tensors that wait and the shards of tensors
// that are ready.
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

// shardsOf groups parameters by device and dtype, as Optimizer._group_tensors_by_device_and_dtype
// does for the kernels of a GPU, and by the states that they have.
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
	if o.leftOut.Defined() {
		o.updates -= int(o.leftOut.Item())
		o.leftOut.Zero_()
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
