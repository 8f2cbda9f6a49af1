package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// RMSNorm divides by the root of the mean square of the last dimension, in float32: LlamaRMSNorm of
// transformers, step by step. nn.RMSNorm is the same in one operator and in other last bits.
type RMSNorm struct {
	Weight torch.Tensor `param:"weight"`

	Eps     float64
	OnePlus bool // it multiplies by 1 + Weight, before the result has the type of the input: GemmaRMSNorm
	Full    bool // it multiplies by Weight before that: Olmo2RMSNorm
	// Unwidened divides the input as it is, and not what it is in float32, which has other gradients in 16
	// bits: T5LayerNorm.
	Unwidened bool
}

// RMSNorm makes one, whose weight is 1.
func (b Builder) RMSNorm(size int64, eps float64) *RMSNorm {
	return &RMSNorm{Weight: nn.Parameter(b.factory().Ones(size)), Eps: eps}
}

// UnwidenedRMSNorm makes one of T5.
func (b Builder) UnwidenedRMSNorm(size int64, eps float64) *RMSNorm {
	n := b.RMSNorm(size, eps)
	n.Unwidened = true
	return n
}

// OnePlusRMSNorm makes one that multiplies by 1 + Weight, which is 0.
func (b Builder) OnePlusRMSNorm(size int64, eps float64) *RMSNorm {
	return &RMSNorm{Weight: nn.Parameter(b.factory().Zeros(size)), Eps: eps, OnePlus: true}
}

// Forward maps [..., size] to the same shape.
func (n *RMSNorm) Forward(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		full := x.ToDType(torch.Float32)
		variance := full.PowScalar(2).MeanDim([]int64{-1}, true, torch.DefaultDType)
		if n.Unwidened {
			full = x
		}
		normal := full.Mul(variance.AddScalar(n.Eps).Rsqrt())
		if n.OnePlus {
			return normal.Mul(n.Weight.ToDType(torch.Float32).AddScalar(1)).ToDType(x.DType())
		}
		if n.Full {
			return n.Weight.Mul(normal).ToDType(x.DType())
		}
		return n.Weight.Mul(normal.ToDType(x.DType()))
	})
}
