package nn

import (
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// EmbeddingBagOptions configures [NewEmbeddingBag]. Nil and the zero value mean PyTorch's defaults.
type EmbeddingBagOptions struct {
	Mode              functional.BagMode // zero means functional.BagMean
	ScaleGradByFreq   bool               // divide gradients by how often a row is used; not for BagMax
	Sparse            bool               // the weight's gradient is sparse; not for BagMax
	IncludeLastOffset bool               // the last offset is the end of the last bag
	// this row starts as zeros and is ignored; negative counts from the end, nil means none
	PaddingIdx *int64
	Factory    torch.TensorOptions // dtype, device and generator of the weight
}

// EmbeddingBag looks up rows of its weight and combines those of each bag: torch.nn.EmbeddingBag.
type EmbeddingBag struct {
	Weight torch.Tensor `param:"weight"` // [words, dim]

	Options EmbeddingBagOptions

	traced
}

// NewEmbeddingBag makes an EmbeddingBag of words rows of dim numbers, drawn from the standard
// normal distribution.
func NewEmbeddingBag(words, dim int64, o *EmbeddingBagOptions) *EmbeddingBag {
	opt := deref(o)
	weight := drawEmbedding("NewEmbeddingBag", words, dim, opt.PaddingIdx, opt.Factory)
	return &EmbeddingBag{Weight: weight, Options: opt}
}

// Forward maps integers of shape [bags, size] to [bags, dim].
func (e *EmbeddingBag) Forward(x torch.Tensor) torch.Tensor {
	return e.ForwardOffsets(x, torch.Tensor{}, torch.Tensor{})
}

// ForwardOffsets is like Forward but takes all indices in one row, [indices], and the position
// where each bag starts, [bags]. For functional.BagSum there may be a factor per index; it may be
// undefined.
func (e *EmbeddingBag) ForwardOffsets(x, offsets, perSampleWeights torch.Tensor) torch.Tensor {
	o := e.Options
	return e.trace(x, functional.EmbeddingBag(x, e.Weight, functional.EmbeddingBagOptions{
		Offsets: offsets, Mode: o.Mode, ScaleGradByFreq: o.ScaleGradByFreq, Sparse: o.Sparse,
		PerSampleWeights: perSampleWeights, IncludeLastOffset: o.IncludeLastOffset && offsets.Defined(),
		PaddingIdx: o.PaddingIdx,
	}))
}
