package transformer

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Activation is a function between two linear layers.
type Activation func(x torch.Tensor) torch.Tensor

// activations are the functions of transformers' ACT2FN, computed with the same operations.
var activations = map[string]Activation{
	"gelu":              func(x torch.Tensor) torch.Tensor { return x.GELU("none") },
	"gelu_pytorch_tanh": func(x torch.Tensor) torch.Tensor { return x.GELU("tanh") },
	"gelu_new":          geluNew,
	"quick_gelu":        func(x torch.Tensor) torch.Tensor { return x.Mul(x.MulScalar(1.702).Sigmoid()) },
	"relu":              torch.Tensor.ReLU,
	"silu":              torch.Tensor.SiLU,
	"swish":             torch.Tensor.SiLU,
	"tanh":              torch.Tensor.Tanh,
	"sigmoid":           torch.Tensor.Sigmoid,
	"linear":            func(x torch.Tensor) torch.Tensor { return x },
}

// ActivationByName returns the activation with the given name, as hidden_act in config.json has
// it. Empty means gelu.
func ActivationByName(name string) (Activation, error) {
	if name == "" {
		name = "gelu"
	}
	f, ok := activations[name]
	if !ok {
		return nil, fmt.Errorf("there is no activation %q; there are %q", name, slices.Sorted(maps.Keys(activations)))
	}
	return f, nil
}

// geluNew is the formula from the BERT authors' code, computed step by step as in transformers.
// "gelu_pytorch_tanh" is the same formula in one operator, whose result differs in the last bits.
func geluNew(x torch.Tensor) torch.Tensor {
	half := x.MulScalar(0.5) // first, as in Python: the order determines how gradients are summed
	inner := x.Add(x.PowScalar(3.0).MulScalar(0.044715)).MulScalar(math.Sqrt(2 / math.Pi))
	return half.Mul(inner.Tanh().AddScalar(1.0))
}
