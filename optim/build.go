package optim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// build checks the groups like torch.optim.Optimizer.add_param_group, but more strictly: parameters
// must have distinct names, because states are stored by name.
func build(r rule, implementation Implementation, groups []Group) (Optimizer, error) {
	common := slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Optimizer != nil })
	if err := implementation.resolve(&r, common); err != nil {
		return nil, err
	}
	if r.implementation == Fused { // the kernel counts the steps in a tensor on the parameter's device
		r.states = slices.Clone(r.states)
		for i, s := range r.states {
			if s.name == "step" {
				r.states[i] = state{name: "step", make: newStep}
			}
		}
	}
	o := &optimizer{name: r.name, lr: r.lr}
	names := map[string]bool{}
	for i, given := range groups {
		g, err := newGroup(given, &r, i, names)
		if err != nil {
			return nil, err
		}
		o.groups = append(o.groups, g)
		o.params = append(o.params, given.Params...)
	}
	// As in PyTorch, several groups may all be empty, for example if a recipe's model is frozen.
	if len(o.params) == 0 && len(groups) < 2 {
		return nil, errorf(ErrParam, "%s was given no parameters; perhaps all of the model's are frozen", r.name)
	}
	if i, j, shared := sameTensor(o.params); shared {
		return nil, errorf(ErrParam, "parameters %q and %q are one and the same tensor; give shared weights once",
			o.params[i].Name, o.params[j].Name)
	}
	o.eval = o.hasModes()
	o.all = tensorsOf(o.params)
	return o, nil
}

// newGroup checks the i-th group. names contains the names of the parameters of all previous
// groups.
func newGroup(given Group, r *rule, i int, names map[string]bool) (*group, error) {
	where := fmt.Sprintf("group %d", i)
	if given.Name != "" {
		where = fmt.Sprintf("group %q", given.Name)
	}
	scale := 1.0
	if given.Optimizer != nil {
		own, err := ruleOf(given, i)
		if err != nil {
			return nil, err
		}
		r, scale = own, given.Optimizer.LearningRate()/r.lr
	}
	g := &group{Group: given, rule: r}
	if r.momentum != nil {
		g.moment = r.momentum.value
	}
	g.LRScale = cmp.Or(given.LRScale, scale)
	g.WeightDecay = new(optional.Or(given.WeightDecay, r.weightDecay))
	if given.LowRank && !r.lowRank {
		return nil, errorf(ErrOption, "LowRank of %s is set, but %s has no low-rank form; want GaLoreAdamW, "+
			"GaLoreAdamW8bit, GaLoreAdafactor or APOLLOAdamW", where, r.name)
	}
	if !(g.LRScale >= 0) || math.IsInf(g.LRScale, 0) {
		return nil, errorf(ErrOption, "LRScale of %s is %g; want a finite number that is not negative", where,
			g.LRScale)
	}
	if d := *g.WeightDecay; !(d >= 0) || math.IsInf(d, 0) {
		return nil, errorf(ErrOption, "WeightDecay of %s is %g; want a finite number that is not negative", where, d)
	}
	for j, p := range given.Params {
		if p.Name == "" {
			return nil, errorf(ErrParam, "parameter %d of %s has no name; its state is saved under it", j, where)
		}
		if names[p.Name] {
			return nil, errorf(ErrParam, "parameter %q of %s was given before; want each parameter once, in one group",
				p.Name, where)
		}
		names[p.Name] = true
		if err := trainable(p.Tensor); err != nil {
			return nil, errorf(ErrParam, "parameter %q of %s %v", p.Name, where, err)
		}
		if r.check != nil {
			if err := r.check(g.Group, p); err != nil {
				return nil, err
			}
		}
		g.members = append(g.members, &member{Named: p, group: g, lowRank: given.LowRank})
	}
	g.arrange()
	g.numbers = r.groupNumbers()
	return g, nil
}

// ruleOf returns the rule of the optimizer of the i-th group.
func ruleOf(g Group, i int) (*rule, error) {
	builder := g.Optimizer
	g.Optimizer, g.Name = nil, cmp.Or(g.Name, strconv.Itoa(i))
	made, err := builder.Build([]Group{g, {}}) // as one of several groups, it may be empty
	if err != nil {
		return nil, err
	}
	o, ok := made.(*optimizer)
	if !ok {
		if u, updates := made.(BackwardUpdater); updates {
			u.RemoveHooks()
		}
		return nil, errorf(ErrOption, "%T does not work in a group; want AdamW, Muon or another one of this package that "+
			"updates in Step", builder)
	}
	return o.groups[0].rule, nil
}

// trainable returns the reason why t cannot be a parameter, or nil if it can.
func trainable(t torch.Tensor) error {
	if !t.Defined() {
		return fmt.Errorf("is undefined; leave out what a layer does not have")
	}
	var dtype torch.DType
	var leaf bool
	if err := torch.Try(func() { dtype, leaf = t.DType(), t.IsLeaf() }); err != nil {
		return err
	}
	if !dtype.IsFloatingPoint() {
		return fmt.Errorf("has dtype %s; want a floating-point type", dtype)
	}
	if !leaf {
		return fmt.Errorf("is the result of an operator and not a leaf; its gradient is never filled")
	}
	return nil
}

// sameTensor returns the indices of two entries that are the same tensor.
func sameTensor(params []torch.Named) (i, j int, found bool) {
	for j := range params {
		for i := range j {
			if params[i].Tensor.Is(params[j].Tensor) {
				return i, j, true
			}
		}
	}
	return 0, 0, false
}

// newStep makes the step count of a fused kernel. As in PyTorch, it is a float32 tensor on the
// parameter's device.
func newStep(m *member, _ float64) torch.Tensor {
	return torch.TensorOptions{Device: m.Tensor.Device()}.Zeros([]int64{}...)
}

// isMatrix returns an error if a parameter does not have two dimensions.
func isMatrix(optimizer string, p torch.Named) error {
	if n := p.Tensor.Dim(); n != 2 {
		return errorf(ErrParam, "parameter %q has %d dimensions; %s is for matrices only, want 2", p.Name, n,
			optimizer)
	}
	return nil
}
