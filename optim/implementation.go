package optim

import (
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Implementation selects how an update is computed. The three differ only in the last bits of
// their results, which matters when a PyTorch run is to be reproduced exactly.
type Implementation string

const (
	// DefaultImplementation is Fused if there is a kernel, and otherwise PyTorch's default:
	// ForLoop on the CPU, Foreach on a GPU.
	DefaultImplementation Implementation = ""
	// PyTorchDefault is PyTorch's default, which never is a fused kernel: ForLoop on the CPU,
	// Foreach on a GPU.
	PyTorchDefault Implementation = "pytorch-default"
	// Fused is a single kernel for all parameters: fused=True. AdamW, Adam and SGD have one;
	// Adagrad has one on the CPU.
	Fused Implementation = "fused"
	// Foreach is the sequence of _foreach_ operators of foreach=True, each applied to all
	// parameters.
	Foreach Implementation = "foreach"
	// ForLoop is the sequence of operators of foreach=False, each applied to one parameter.
	ForLoop Implementation = "for-loop"
)

// StepSupportsAMPScaling reports whether the kernel itself skips an update if loss scaling has
// found an infinite gradient: _step_supports_amp_scaling. If so, PyTorch's scaler always calls the
// step, and does not know whether it was skipped.
func (o *optimizer) StepSupportsAMPScaling() bool {
	return !slices.ContainsFunc(o.groups, func(g *group) bool { return g.rule.implementation != Fused })
}

// resolve decides whether the parameters of groups are updated by a fused kernel, and refuses
// combinations that are not possible.
func (i Implementation) resolve(r *rule, groups []Group) error {
	switch i {
	case DefaultImplementation:
		if r.fused != nil && (!r.fusedOnCPU || onCPU(groups)) {
			r.implementation = Fused
		}
	case Fused:
		if r.fused == nil {
			return errorf(ErrOption, "%s.Implementation is %q, but libtorch has no fused kernel of it; want %q or %q",
				r.name, i, Foreach, ForLoop)
		}
		if r.fusedOnCPU && !onCPU(groups) {
			return errorf(ErrOption, "%s.Implementation is %q, but its fused kernel is for the CPU only; want %q "+
				"for parameters on a GPU", r.name, i, Foreach)
		}
		r.implementation = Fused
	case PyTorchDefault:
		r.implementation = DefaultImplementation // in a rule, it means PyTorch's choice of ForLoop or Foreach
	case Foreach, ForLoop:
		r.implementation = i
	default:
		return errorf(ErrOption, "%s.Implementation is %q; want %q, %q, %q, %q or nothing", r.name, i, PyTorchDefault,
			Fused, Foreach, ForLoop)
	}
	return nil
}

func onCPU(groups []Group) bool {
	for _, g := range groups {
		for _, p := range g.Params {
			if p.Tensor.Defined() && p.Tensor.Device() != (torch.Device{}) {
				return false
			}
		}
	}
	return true
}
