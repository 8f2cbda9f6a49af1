package optim

import "github.com/gotrainer/gotrainer/torch"

// Group is a group of parameters with common settings: an entry of param_groups in torch.optim.
type Group struct {
	Params      []torch.Named
	WeightDecay *float64 // nil means the optimizer's
	LRScale     float64  // the group's rate is LRScale times the rate given to Step; zero means 1
	Name        string   // for errors and logs; may be empty
	LowRank     bool     // project gradients to a lower rank: [GaLoreAdamW] and [GaLoreAdafactor] only

	// Optimizer updates this group instead of the optimizer that is built: [Muon] for the matrices
	// of hidden layers and AdamW for the rest, or AdamW with other betas. Zero LRScale then means
	// its learning rate divided by that of the optimizer that is built, so that a schedule moves
	// both alike. It must be of this package, update in Step (not [LayerWise], [LOMO] or
	// [AdaLOMO]), and is not for [LBFGS]. nil means the optimizer that is built.
	Optimizer Builder
}

// Builder makes an optimizer for given parameters. All settings but [LBFGS] are builders; a
// trainer accepts any of them.
type Builder interface {
	// Build checks the settings and parameters and makes the optimizer. For errors see [ErrOption]
	// and [ErrParam].
	Build(groups []Group) (Optimizer, error)
	// LearningRate returns the rate that a schedule starts from.
	LearningRate() float64
}

// Optimizer changes its parameters by their gradients. It is not safe for concurrent use.
type Optimizer interface {
	// Step makes one update with learning rate lr. Parameters without a gradient are skipped. It
	// panics with [*torch.Error] if lr is not finite.
	Step(lr float64)
	// ZeroGrad removes the gradients of all parameters: zero_grad(set_to_none=True).
	ZeroGrad()
	// Updates returns the number of Steps made, including those before a LoadState.
	Updates() int
	// Groups returns the groups with their effective settings. They must not be changed.
	Groups() []Group
	// Params returns the parameters of all groups in order. The slice must not be changed.
	Params() []torch.Named
	// State returns the states of all parameters that have had a gradient, in the order of Params.
	// They are the tensors themselves, not copies: the next Step changes them. The exception are
	// numbers such as step counts, which are brought up to date by the next call of State.
	State() []torch.Named
	// LoadState restores a copy of what State returned, and the number of updates. Parameters
	// without a state in it start afresh at their next gradient. State that does not match (names,
	// shapes, dtypes) is refused with [ErrState], and then nothing has changed. For a moment on
	// [torch.Meta], only shape and dtype are checked; the caller must write its values into the
	// tensor that State returns.
	LoadState(state []torch.Named, updates int) error
}
