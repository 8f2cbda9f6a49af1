package swin

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Layer is SwinLayer: attention within windows and a feed-forward part. The input of each is
// normalized, and its output is added to that input.
type Layer struct {
	Attention       *Attention                `module:"attention"`
	LayerNormBefore *nn.LayerNorm             `module:"layernorm_before"`
	LayerNormAfter  *nn.LayerNorm             `module:"layernorm_after"`
	Intermediate    *transformer.Intermediate `module:"intermediate"`
	Output          *Output                   `module:"output"`
	Dropout         *nn.Dropout               `module:"dropout"`
	DropPath        *transformer.DropPath     `module:"drop_path"`

	windows windows
}

// Output is a linear layer.
type Output struct {
	Dense *nn.Linear `module:"dense"`
}

func newLayer(c Config, b transformer.Builder, stage int, dropPath float64, shifted bool) *Layer {
	activation, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("swin.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	size, inner := c.channels(stage), c.inner(stage)
	l := &Layer{Dropout: nn.NewDropout(c.HiddenDropout), DropPath: &transformer.DropPath{P: dropPath},
		windows: windows{side: c.WindowSize}}
	if shifted {
		l.windows.shift = c.WindowSize / 2
	}
	l.Attention = newAttention(c, b, size, c.NumHeads[stage])
	l.LayerNormBefore, l.LayerNormAfter = b.LayerNorm(size, c.LayerNormEps), b.LayerNorm(size, c.LayerNormEps)
	l.Intermediate = &transformer.Intermediate{Dense: b.Linear(size, inner), Activation: activation}
	l.Output = &Output{b.Linear(inner, size)}
	return l
}

// forward maps the positions of a map of the given size, [B, rows·columns, C], to the same shape.
func (l *Layer) forward(x torch.Tensor, size mapSize) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		w := l.windows.of(size)
		normalized := l.LayerNormBefore.Forward(x)
		y := l.Attention.forward(w.cut(normalized), w.mask(normalized))
		x = x.Add(l.DropPath.Forward(w.join(l.Dropout.Forward(y))))
		y = l.Output.Dense.Forward(l.Intermediate.Forward(l.LayerNormAfter.Forward(x)))
		return l.Dropout.Forward(y).Add(x)
	})
}
