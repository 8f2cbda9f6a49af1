package optim

import (
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// ModeSwitcher is implemented by an [Optimizer] whose parameters have different values in
// evaluation and in training: the schedule-free ones, like schedulefree's train() and eval(). All
// optimizers of this package implement it; for the others, both calls do nothing.
//
// A loop calls Train before the forward pass of a training step, and Eval before an evaluation and
// before saving the weights. Repeated calls of either are harmless. A new optimizer is in
// evaluation mode, as in schedulefree.
type ModeSwitcher interface {
	Train()
	Eval()
}

// Train implements [ModeSwitcher].
func (o *optimizer) Train() { o.setMode(false) }

// Eval implements [ModeSwitcher].
func (o *optimizer) Eval() { o.setMode(true) }

func (o *optimizer) setMode(eval bool) {
	if o.eval == eval || !o.hasModes() {
		return
	}
	torch.NoGrad(func() {
		for _, g := range o.groups {
			if g.rule.modes != nil {
				g.rule.modes(g, !eval)
			}
		}
	})
	o.eval = eval
}

func (o *optimizer) hasModes() bool {
	return slices.ContainsFunc(o.groups, func(g *group) bool { return g.rule.modes != nil })
}

// checkMode panics in evaluation mode, in which the gradients belong to other weights than those to
// be updated.
func (o *optimizer) checkMode() {
	if o.eval && o.hasModes() {
		panic(&torch.Error{Op: "optim." + o.name + ".Step", Code: torch.ErrInvalid,
			Msg: "the optimizer is in evaluation mode, where its weights are averages; call Train before the forward " +
				"pass, and Eval before an evaluation (optim.ModeSwitcher)"})
	}
}

// loadMode sets the mode from the state of the groups, because the loaded weights are in that mode.
func (o *optimizer) loadMode() {
	for _, g := range o.groups {
		if g.rule.modes != nil {
			o.eval = g.numbers[trainMode] == 0
			return
		}
	}
}
