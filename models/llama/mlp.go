package llama

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// FeedForward is the feed-forward part of a layer: a *[MLP] or a *[SparseMoeBlock].
type FeedForward interface {
	forward(x torch.Tensor, mask transformer.Mask) torch.Tensor
}

// MLP is LlamaMLP, in which the up projection is multiplied by a gate.
type MLP struct {
	GateProj   *nn.Linear `module:"gate_proj"`
	UpProj     *nn.Linear `module:"up_proj"`
	GateUpProj *nn.Linear `module:"gate_up_proj"` // replaces the two; nil: there are two
	DownProj   *nn.Linear `module:"down_proj"`

	activation transformer.Activation
}

func newMLP(c Config, b transformer.Builder, activation transformer.Activation, intermediate int64) *MLP {
	p := &MLP{activation: activation}
	if families[c.Type].fused {
		p.GateUpProj = b.LinearWith(c.HiddenSize, 2*intermediate, false)
	} else {
		p.GateProj = b.LinearWith(c.HiddenSize, intermediate, c.MLPBias)
		p.UpProj = b.LinearWith(c.HiddenSize, intermediate, c.MLPBias)
	}
	p.DownProj = b.LinearWith(intermediate, c.HiddenSize, c.MLPBias)
	return p
}

func (p *MLP) forward(x torch.Tensor, _ transformer.Mask) torch.Tensor { return p.Forward(x) }

// Forward maps [..., hidden] to [..., hidden].
func (p *MLP) Forward(x torch.Tensor) torch.Tensor {
	if p.GateUpProj == nil {
		return p.DownProj.Forward(p.activation(p.GateProj.Forward(x)).Mul(p.UpProj.Forward(x)))
	}
	all := p.GateUpProj.Forward(x)
	both := all.Split(all.Size(-1)/2, -1)
	return p.DownProj.Forward(both[1].Mul(p.activation(both[0])))
}
