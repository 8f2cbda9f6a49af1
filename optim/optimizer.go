package optim

import "github.com/gotrainer/gotrainer/torch"

// Group is a part of the parameters with settings of its own: an entry of param_groups in
// torch.optim.
type Group struct {
	Params      []torch.Named
	WeightDecay *float64 // nil: that of the optimizer
	LRScale     float64  // the group's rate is LRScale times the rate given to Step; zero means 1
	Name        string   // for errors and logs; may be empty
	LowRank     bool     // gradients are projected to a lower rank: [GaLoreAdamW] and [GaLoreAdafactor] only
}

// Builder makes an optimizer for given parameters. All settings but [LBFGS] are builders; a trainer
// accepts any.
type Builder interface {
	// Build checks the settings and parameters, and says what is wrong with them: see [ErrOption]
	// and [ErrParam].
	Build(groups []Group) (Optimizer, error)
	// LearningRate is the rate that a schedule starts from.
	LearningRate() float64
}

// Optimizer changes its parameters by their gradients. It is not safe for use by several goroutines
// at once.
type Optimizer interface {
	// Step makes one update with learning rate lr. Parameters without gradient are left out. It
	// panics with [*torch.Error] if lr is not a finite number.
	Step(lr float64)
	// ZeroGrad removes the gradients of all parameters: zero_grad(set_to_none=True).
	ZeroGrad()
	// Updates is the number of Steps made, those before a LoadState included.
	Updates() int
	// Groups returns the groups with the settings that are in force. They must not be changed.
	Groups() []Group
	// Params returns the parameters of all groups in order. The slice must not be changed.
	Params() []torch.Named
	// State returns the states of all parameters that have had a gradient, in the order of Params.
	// They are the tensors themselves and not copies: the next Step changes them, but for numbers
	// such as step counts, which the next State brings up to date.
	State() []torch.Named
	// LoadState continues from what State returned, copying it, and from that number of updates.
	// Parameters that it has no state of start again at their next gradient. State that does not
	// fit (names, shapes, dtypes) is refused with [ErrState], and then nothing has changed. Of a
	// moment on [torch.Meta] only shape and dtype are compared: its values are for the caller to
	// write into that of State.
	LoadState(state []torch.Named, updates int) error
}
