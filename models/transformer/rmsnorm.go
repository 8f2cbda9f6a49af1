package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// RMSNorm divides by the root of the mean square over the last dimension, in float32: LlamaRMSNorm
// of transformers, step by step. nn.RMSNorm computes the same in one operator, with other last
// bits.
type RMSNorm struct {
	Weight torch.Tensor `param:"weight"`

	Eps     float64
	OnePlus bool // multiply by 1 + Weight before converting to the input's dtype: GemmaRMSNorm
	Full    bool // multiply by Weight before that conversion: Olmo2RMSNorm
	// Unwidened divides the input itself instead of its float32 form, which has other gradients in
	// 16 bits: T5LayerNorm.
	Unwidened bool
}

// RMSNorm makes an RMSNorm with a weight of 1.
func (b Builder) RMSNorm(size int64, eps float64) *RMSNorm {
	return &RMSNorm{Weight: nn.Parameter(b.factory().Ones(size)), Eps: eps}
}

// UnwidenedRMSNorm makes an RMSNorm for T5.
func (b Builder) UnwidenedRMSNorm(size int64, eps float64) *RMSNorm {
	n := b.RMSNorm(size, eps)
	n.Unwidened = true
	return n
}

// OnePlusRMSNorm makes an RMSNorm that multiplies by 1 + Weight, with a weight of 0.
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
