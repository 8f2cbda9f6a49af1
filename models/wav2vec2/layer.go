package wav2vec2

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Layer is Wav2Vec2EncoderLayer or Wav2Vec2EncoderLayerStableLayerNorm: attention and a
// feed-forward part.
type Layer struct {
	Attention      *Attention    `module:"attention"`
	Dropout        *nn.Dropout   `module:"dropout"`
	LayerNorm      *nn.LayerNorm `module:"layer_norm"`
	FeedForward    *FeedForward  `module:"feed_forward"`
	FinalLayerNorm *nn.LayerNorm `module:"final_layer_norm"`

	stable bool // it normalizes the input of its parts, not their output
}

// Attention is Wav2Vec2Attention.
type Attention struct {
	KProj   *nn.Linear  `module:"k_proj"`
	VProj   *nn.Linear  `module:"v_proj"`
	QProj   *nn.Linear  `module:"q_proj"`
	OutProj *nn.Linear  `module:"out_proj"`
	Dropout *nn.Dropout `module:"dropout"` // of the attention weights

	headSize int64
	kind     transformer.Attention
}

// FeedForward is Wav2Vec2FeedForward.
type FeedForward struct {
	IntermediateDropout *nn.Dropout `module:"intermediate_dropout"`
	IntermediateDense   *nn.Linear  `module:"intermediate_dense"`
	OutputDense         *nn.Linear  `module:"output_dense"`
	OutputDropout       *nn.Dropout `module:"output_dropout"`

	activation transformer.Activation
}

func newLayer(c Config, b transformer.Builder) *Layer {
	linear := func() *nn.Linear { return b.Linear(c.HiddenSize, c.HiddenSize) }
	norm := func() *nn.LayerNorm { return b.LayerNorm(c.HiddenSize, c.LayerNormEps) }
	activation, _ := transformer.ActivationByName(c.HiddenAct)
	return &Layer{
		Attention: &Attention{KProj: linear(), VProj: linear(), QProj: linear(), OutProj: linear(),
			Dropout: nn.NewDropout(*c.AttentionDropout), headSize: c.HiddenSize / c.NumHeads, kind: c.Attention},
		Dropout: nn.NewDropout(*c.HiddenDropout), LayerNorm: norm(),
		FeedForward: &FeedForward{IntermediateDropout: nn.NewDropout(*c.ActivationDropout),
			IntermediateDense: b.Linear(c.HiddenSize, c.IntermediateSize),
			OutputDense:       b.Linear(c.IntermediateSize, c.HiddenSize), OutputDropout: nn.NewDropout(*c.HiddenDropout),
			activation: activation},
		FinalLayerNorm: norm(), stable: c.DoStableLayerNorm,
	}
}

func (l *Layer) forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	if l.stable {
		x = x.Add(l.Dropout.Forward(l.Attention.forward(l.LayerNorm.Forward(x), mask)))
		return x.Add(l.FeedForward.forward(l.FinalLayerNorm.Forward(x)))
	}
	x = l.LayerNorm.Forward(x.Add(l.Dropout.Forward(l.Attention.forward(x, mask))))
	return l.FinalLayerNorm.Forward(x.Add(l.FeedForward.forward(x)))
}

func (a *Attention) forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	split := func(l *nn.Linear) torch.Tensor { return transformer.SplitHeads(l.Forward(x), a.headSize) }
	q, k, v := split(a.QProj), split(a.KProj), split(a.VProj)
	return a.OutProj.Forward(a.kind.AttendHeads(q, k, v, mask,
		transformer.AttendOptions{Dropout: transformer.ActiveDropout(a.Dropout)}))
}

func (f *FeedForward) forward(x torch.Tensor) torch.Tensor {
	x = f.IntermediateDropout.Forward(f.activation(f.IntermediateDense.Forward(x)))
	return f.OutputDropout.Forward(f.OutputDense.Forward(x))
}
