package sentence

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/internal/sbert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// Module is a module after the pooling: a [*Dense] or [Normalize].
type Module interface {
	// Forward maps embeddings, [B, in], to others, [B, out].
	Forward(x torch.Tensor) torch.Tensor
	// size is how long embeddings become.
	size(in int64) (out int64, err error)
}

// Normalize scales embeddings to length 1.
type Normalize struct{}

// Forward scales embeddings, [B, D], to length 1.
func (Normalize) Forward(x torch.Tensor) torch.Tensor { return normalized(x) }

func (Normalize) size(in int64) (int64, error) { return in, nil }

// normalized is torch.nn.functional.normalize along the last dimension.
func normalized(x torch.Tensor) torch.Tensor { return functional.Normalize(x, 2, -1, 1e-12) }

// Activation is the activation function of a [Dense] layer, by the name of its class in torch.nn.
type Activation string

// The activation functions.
const (
	Identity Activation = "Identity"
	Tanh     Activation = "Tanh"
	ReLU     Activation = "ReLU"
	GELU     Activation = "GELU"
	SiLU     Activation = "SiLU"
	Sigmoid  Activation = "Sigmoid"
)

// DenseOptions configures [NewDense].
type DenseOptions struct {
	NoBias     bool
	Activation Activation // zero: Tanh
	// Residual adds the input to the output, through a linear layer if their sizes differ:
	// use_residual.
	Residual bool
}

// Dense is a linear layer and an activation.
type Dense struct {
	Linear   *nn.Linear `module:"linear"`
	Residual *nn.Linear `module:"residual"` // nil: none, or sizes do not differ

	options DenseOptions
	in, out int64
}

// NewDense makes a layer from in to out numbers, initialized like torch.nn.Linear, in float32.
func NewDense(in, out int64, o DenseOptions) (*Dense, error) {
	if o.Activation == "" {
		o.Activation = Tanh
	}
	if err := sbert.CheckActivation(string(o.Activation)); err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	d := &Dense{options: o, in: in, out: out}
	err := torch.Try(func() {
		d.Linear = nn.NewLinear(in, out, &nn.LinearOptions{NoBias: o.NoBias})
		if o.Residual && in != out {
			d.Residual = nn.NewLinear(in, out, &nn.LinearOptions{NoBias: true})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	return d, nil
}

// Forward maps embeddings, [B, in], to others, [B, out].
func (d *Dense) Forward(x torch.Tensor) torch.Tensor {
	y := sbert.Activate(string(d.options.Activation), d.Linear.Forward(x))
	switch {
	case d.Residual != nil:
		return y.Add(d.Residual.Forward(x))
	case d.options.Residual:
		return y.Add(x)
	}
	return y
}

func (d *Dense) size(in int64) (int64, error) {
	if in != d.in {
		return 0, fmt.Errorf("a Dense layer takes embeddings of %d numbers, but gets %d", d.in, in)
	}
	return d.out, nil
}
