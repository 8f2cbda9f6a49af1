package detr

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// encoder is DetrEncoder.
type encoder struct {
	nn.Mode
	Layers []*layer `module:"layers"`

	checkpointing bool
}

// decoder is DetrDecoder.
type decoder struct {
	nn.Mode
	Layers    []*layer      `module:"layers"`
	LayerNorm *nn.LayerNorm `module:"layernorm"`

	checkpointing bool
}

// layer is DetrEncoderLayer and DetrDecoderLayer. In the encoder, EncoderAttn is nil.
type layer struct {
	SelfAttn             *attention    `module:"self_attn"`
	SelfAttnLayerNorm    *nn.LayerNorm `module:"self_attn_layer_norm"`
	EncoderAttn          *attention    `module:"encoder_attn"`
	EncoderAttnLayerNorm *nn.LayerNorm `module:"encoder_attn_layer_norm"`
	FC1                  *nn.Linear    `module:"fc1"`
	FC2                  *nn.Linear    `module:"fc2"`
	FinalLayerNorm       *nn.LayerNorm `module:"final_layer_norm"`
	Dropout              *nn.Dropout   `module:"dropout"`
	ActivationDropout    *nn.Dropout   `module:"activation_dropout"`

	activation transformer.Activation
}

// attention is DetrSelfAttention and DetrCrossAttention. Positions are added to queries and keys.
type attention struct {
	KProj   *nn.Linear  `module:"k_proj"`
	VProj   *nn.Linear  `module:"v_proj"`
	QProj   *nn.Linear  `module:"q_proj"`
	OutProj *nn.Linear  `module:"out_proj"`
	Dropout *nn.Dropout `module:"dropout"`

	heads int64
	kind  transformer.Attention
}

func newEncoder(c Config, b transformer.Builder) *encoder {
	e := &encoder{}
	for range c.EncoderLayers {
		e.Layers = append(e.Layers, newLayer(c, b, c.EncoderHeads, c.EncoderFFNDim, false))
	}
	return e
}

func newDecoder(c Config, b transformer.Builder) *decoder {
	d := &decoder{}
	for range c.DecoderLayers {
		d.Layers = append(d.Layers, newLayer(c, b, c.DecoderHeads, c.DecoderFFNDim, true))
	}
	d.LayerNorm = b.LayerNorm(c.HiddenSize, layerNormEps)
	return d
}

const layerNormEps = 1e-5

func newLayer(c Config, b transformer.Builder, heads, inner int64, cross bool) *layer {
	size := c.HiddenSize
	attends := func() *attention {
		return &attention{KProj: b.Linear(size, size), VProj: b.Linear(size, size), QProj: b.Linear(size, size),
			OutProj: b.Linear(size, size), Dropout: nn.NewDropout(c.AttentionDropout), heads: heads, kind: c.Attention}
	}
	l := &layer{activation: c.activation(), Dropout: nn.NewDropout(c.Dropout),
		ActivationDropout: nn.NewDropout(c.ActivationDropout)}
	l.SelfAttn, l.SelfAttnLayerNorm = attends(), b.LayerNorm(size, layerNormEps)
	if cross {
		l.EncoderAttn, l.EncoderAttnLayerNorm = attends(), b.LayerNorm(size, layerNormEps)
	}
	l.FC1, l.FC2, l.FinalLayerNorm = b.Linear(size, inner), b.Linear(inner, size), b.LayerNorm(size, layerNormEps)
	return l
}

// forward maps features, [B, L, hidden], to the same shape. keep, [B, 1, 1, L], is true where there
// is image; undefined: everywhere.
func (e *encoder) forward(x, positions, keep torch.Tensor, c Config) torch.Tensor {
	mask := expanded(c.Attention, keep, x.Size(1), x.DType())
	if e.Training() && c.Dropout > 0 {
		x = x.Dropout(c.Dropout, true)
	}
	for _, l := range e.Layers {
		x = run(e.checkpointing && e.Training(), func(in []torch.Tensor) torch.Tensor {
			return l.encode(in[0], in[1], in[2])
		}, x, positions, mask)
	}
	return x
}

// forward maps the positions of queries, [B, queries, hidden], and encoded features to hidden
// states of the same shape, and those of all layers, [layers, B, queries, hidden], if the loss
// includes them.
func (d *decoder) forward(queries, encoded, positions, keep torch.Tensor, c Config) (last, all torch.Tensor) {
	x := queries.ZerosLike()
	mask := expanded(c.Attention, keep, x.Size(1), x.DType())
	var each []torch.Tensor
	for _, l := range d.Layers {
		x = run(d.checkpointing && d.Training(), func(in []torch.Tensor) torch.Tensor {
			return l.decode(in[0], in[1], in[2], in[3], in[4])
		}, x, queries, encoded, positions, mask)
		if c.AuxiliaryLoss {
			x = d.LayerNorm.Forward(x)
			each = append(each, x)
		}
	}
	x = d.LayerNorm.Forward(x)
	if c.AuxiliaryLoss {
		all = torch.Stack(each, 0)
	}
	return x, all
}

// expanded returns the mask of attention for a number of queries.
func expanded(a transformer.Attention, keep torch.Tensor, queries int64, dtype torch.DType) torch.Tensor {
	if !keep.Defined() {
		return keep
	}
	return a.Mask(keep.Expand(-1, 1, queries, -1), dtype)
}

// run runs a layer, keeping only its inputs for the backward pass if checkpointing is set.
func run(checkpointing bool, f func(in []torch.Tensor) torch.Tensor, inputs ...torch.Tensor) torch.Tensor {
	if !checkpointing {
		return torch.Return(func() torch.Tensor { return f(inputs) })
	}
	return torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{f(in)} }, inputs...)[0]
}

func (l *layer) encode(x, positions, mask torch.Tensor) torch.Tensor {
	x = l.SelfAttnLayerNorm.Forward(x.Add(l.Dropout.Forward(l.SelfAttn.forward(x, positions, x, positions, mask))))
	return l.feedForward(x)
}

func (l *layer) decode(x, queries, encoded, positions, mask torch.Tensor) torch.Tensor {
	attended := l.SelfAttn.forward(x, queries, x, queries, torch.Tensor{})
	x = l.SelfAttnLayerNorm.Forward(x.Add(l.Dropout.Forward(attended)))
	attended = l.EncoderAttn.forward(x, queries, encoded, positions, mask)
	x = l.EncoderAttnLayerNorm.Forward(x.Add(l.Dropout.Forward(attended)))
	return l.feedForward(x)
}

func (l *layer) feedForward(x torch.Tensor) torch.Tensor {
	y := l.ActivationDropout.Forward(l.activation(l.FC1.Forward(x)))
	return l.FinalLayerNorm.Forward(x.Add(l.Dropout.Forward(l.FC2.Forward(y))))
}

// forward lets x, [B, L, hidden], attend to y, [B, K, hidden].
func (a *attention) forward(x, xPositions, y, yPositions, mask torch.Tensor) torch.Tensor {
	size := x.Size(2) / a.heads
	queries := x.Add(xPositions)
	keys := queries
	if !y.Is(x) {
		keys = y.Add(yPositions)
	}
	q, k, v := a.QProj.Forward(queries), a.KProj.Forward(keys), a.VProj.Forward(y)
	return a.OutProj.Forward(a.kind.AttendHeads(transformer.SplitHeads(q, size), transformer.SplitHeads(k, size),
		transformer.SplitHeads(v, size), transformer.Mask{Padding: mask},
		transformer.AttendOptions{Dropout: transformer.ActiveDropout(a.Dropout)}))
}
