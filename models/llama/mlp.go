package llama

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// MLP is LlamaMLP: what goes up is multiplied by a gate.
type MLP struct {
	GateProj *nn.Linear `module:"gate_proj"`
	UpProj   *nn.Linear `module:"up_proj"`
	DownProj *nn.Linear `module:"down_proj"`

	activation transformer.Activation
}

func newMLP(c Config, b transformer.Builder, activation transformer.Activation) *MLP {
	return &MLP{
		GateProj:   linear(b, c.HiddenSize, c.IntermediateSize, c.MLPBias),
		UpProj:     linear(b, c.HiddenSize, c.IntermediateSize, c.MLPBias),
		DownProj:   linear(b, c.IntermediateSize, c.HiddenSize, c.MLPBias),
		activation: activation,
	}
}

// Forward maps [..., hidden] to [..., hidden].
func (p *MLP) Forward(x torch.Tensor) torch.Tensor {
	return p.DownProj.Forward(p.activation(p.GateProj.Forward(x)).Mul(p.UpProj.Forward(x)))
}
