package nn

import (
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// EmbeddingOptions configures [NewEmbedding]. Nil and the zero value mean PyTorch's defaults.
type EmbeddingOptions struct {
	PaddingIdx *int64        // this row starts as zeros and gets no gradient; negative counts from the end, nil means none
	Factory    torch.Options // dtype, device and generator of the weight
}

// Embedding looks rows of its weight up: torch.nn.Embedding.
type Embedding struct {
	Weight torch.Tensor `param:"weight"` // [words, dim]

	PaddingIdx int64 // -1 means none
}

// NewEmbedding makes an Embedding of words rows of dim numbers, drawn from the standard normal distribution.
func NewEmbedding(words, dim int64, o *EmbeddingOptions) *Embedding {
	mustBePositive("NewEmbedding", "words", words)
	mustBePositive("NewEmbedding", "dim", dim)
	opt := deref(o)
	e := &Embedding{PaddingIdx: -1}
	if opt.PaddingIdx != nil {
		e.PaddingIdx = *opt.PaddingIdx
		if e.PaddingIdx < -words || e.PaddingIdx >= words {
			panic(mistake("NewEmbedding", torch.ErrIndex, "PaddingIdx %d is out of range: there are %d words", e.PaddingIdx, words))
		}
		if e.PaddingIdx < 0 {
			e.PaddingIdx += words
		}
	}
	e.Weight = initialize.Normal(opt.Factory.Empty(words, dim), 0, 1, opt.Factory.Generator)
	if e.PaddingIdx >= 0 {
		row := e.Weight.Select(0, e.PaddingIdx)
		row.Zero_()
		row.Free()
	}
	e.Weight = Parameter(e.Weight)
	return e
}

// Forward maps integers of shape [...] to [..., dim].
func (e *Embedding) Forward(x torch.Tensor) torch.Tensor { return x.Embedding(e.Weight, e.PaddingIdx) }
