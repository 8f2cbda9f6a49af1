package llama

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// MLP is LlamaMLP, in which the up projection is multiplied by a gate.
type MLP struct {
	GateProj   *nn.Linear `module:"gate_proj"`
	UpProj     *nn.Linear `module:"up_proj"`
	GateUpProj *nn.Linear `module:"gate_up_proj"` // replaces the two; nil: there are two
	DownProj   *nn.Linear `module:"down_proj"`

	activation transformer.Activation
}

func newMLP(c Config, b transformer.Builder, activation transformer.Activation) *MLP {
	p := &MLP{activation: activation}
	if families[c.Type].fused {
		p.GateUpProj = b.LinearWith(c.HiddenSize, 2*c.IntermediateSize, false)
	} else {
		p.GateProj = b.LinearWith(c.HiddenSize, c.IntermediateSize, c.MLPBias)
		p.UpProj = b.LinearWith(c.HiddenSize, c.IntermediateSize, c.MLPBias)
	}
	p.DownProj = b.LinearWith(c.IntermediateSize, c.HiddenSize, c.MLPBias)
	return p
}

// Forward maps [..., hidden] to [..., hidden].
func (p *MLP) Forward(x torch.Tensor) torch.Tensor {
	if p.GateUpProj == nil {
		return p.DownProj.Forward(p.activation(p.GateProj.Forward(x)).Mul(p.UpProj.Forward(x)))
	}
	all := p.GateUpProj.Forward(x)
	both := all.Split(all.Size(-1)/2, -1)
	return p.DownProj.Forward(both[1].Mul(p.activation(both[0])))
}
