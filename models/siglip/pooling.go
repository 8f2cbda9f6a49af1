package siglip

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// PoolingHead is SiglipMultiheadAttentionPoolingHead: a learned query attends to the patches of an
// image, and a feed-forward part is added to the result.
type PoolingHead struct {
	Probe     torch.Tensor           `param:"probe"` // the query, [1, 1, hidden]
	Attention *nn.MultiheadAttention `module:"attention"`
	LayerNorm *nn.LayerNorm          `module:"layernorm"`
	MLP       *MLP                   `module:"mlp"`
}

func newPoolingHead(c VisionConfig, b transformer.Builder) *PoolingHead {
	factory := torch.TensorOptions{DType: b.DType}
	probe := factory.Randn
	if b.Undrawn {
		probe = factory.Empty
	}
	h := &PoolingHead{Probe: nn.Parameter(probe(1, 1, c.HiddenSize))}
	if b.Undrawn {
		h.Attention = &nn.MultiheadAttention{InProjWeight: b.Parameter(3*c.HiddenSize, c.HiddenSize),
			InProjBias: b.Parameter(3 * c.HiddenSize), OutProj: b.Linear(c.HiddenSize, c.HiddenSize), Heads: c.NumHeads,
			BatchFirst: true}
	} else {
		h.Attention = nn.NewMultiheadAttention(c.HiddenSize, c.NumHeads, &nn.MultiheadAttentionOptions{BatchFirst: true,
			Factory: factory})
	}
	h.LayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	h.MLP = newMLP(c.Layers, b)
	return h
}

// DrawWeights draws the query and the weight of the projections: transformer.WeightDrawer.
func (h *PoolingHead) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	drawXavier(wanted, "probe", h.Probe)
	drawXavier(wanted, "attention.in_proj_weight", h.Attention.InProjWeight)
	if wanted("attention.in_proj_bias", h.Attention.InProjBias) {
		initialize.Zeros(h.Attention.InProjBias)
	}
}

// Forward maps the hidden states of patches, [B, patches, hidden], to vectors of images, [B,
// hidden].
func (h *PoolingHead) Forward(hidden torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		// transformers asks for the weights of attention too, which takes another way to the same result.
		x, weights := h.Attention.ForwardWeights(h.Probe.Repeat(hidden.Size(0), 1, 1), hidden, hidden,
			nn.AttentionMask{})
		weights.Free()
		return x.Add(h.MLP.forward(h.LayerNorm.Forward(x))).Select(1, 0)
	})
}
