package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/torch"
)

// ReLU is max(0, x): torch.nn.ReLU.
type ReLU struct{}

// Forward keeps the shape of x.
func (ReLU) Forward(x torch.Tensor) torch.Tensor { return x.ReLU() }

// GELU is the Gaussian error linear unit: torch.nn.GELU.
type GELU struct {
	Approximate string // "none" or "tanh"; empty means "none"
}

// Forward keeps the shape of x.
func (g GELU) Forward(x torch.Tensor) torch.Tensor { return x.GELU(cmp.Or(g.Approximate, "none")) }

// SiLU is x * sigmoid(x): torch.nn.SiLU.
type SiLU struct{}

// Forward keeps the shape of x.
func (SiLU) Forward(x torch.Tensor) torch.Tensor { return x.SiLU() }

// Tanh is the hyperbolic tangent: torch.nn.Tanh.
type Tanh struct{}

// Forward keeps the shape of x.
func (Tanh) Forward(x torch.Tensor) torch.Tensor { return x.Tanh() }

// Sigmoid is 1 / (1 + exp(-x)): torch.nn.Sigmoid.
type Sigmoid struct{}

// Forward keeps the shape of x.
func (Sigmoid) Forward(x torch.Tensor) torch.Tensor { return x.Sigmoid() }

// Identity returns its input: torch.nn.Identity. Use it in place of a layer that is left out.
type Identity struct{}

// Forward returns x itself.
func (Identity) Forward(x torch.Tensor) torch.Tensor { return x }

// Flatten merges several dimensions into one: torch.nn.Flatten. Make one with [NewFlatten]:
// PyTorch's defaults are not its zero value.
type Flatten struct {
	StartDim, EndDim int64 // the first and the last dimension; negative counts from the end
}

// NewFlatten makes a Flatten that keeps the batch dimension and merges all others.
func NewFlatten() *Flatten { return &Flatten{StartDim: 1, EndDim: -1} }

// Forward maps [N, ...] to [N, features], with the defaults.
func (f *Flatten) Forward(x torch.Tensor) torch.Tensor { return x.Flatten(f.StartDim, f.EndDim) }
