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

	traced
}

// NewEmbedding makes an Embedding of words rows of dim numbers, drawn from the standard normal distribution.
func NewEmbedding(words, dim int64, o *EmbeddingOptions) *Embedding {
	opt := deref(o)
	e := &Embedding{Weight: drawEmbedding("NewEmbedding", words, dim, opt.PaddingIdx, opt.Factory), PaddingIdx: -1}
	if opt.PaddingIdx != nil {
		e.PaddingIdx = (*opt.PaddingIdx + words) % words
	}
	return e
}

// Forward maps integers of shape [...] to [..., dim].
func (e *Embedding) Forward(x torch.Tensor) torch.Tensor {
	return e.trace(x, x.Embedding(e.Weight, e.PaddingIdx))
}

// drawEmbedding makes the weight of an embedding, whose row at padding is zeros.
func drawEmbedding(op string, words, dim int64, padding *int64, f torch.Options) torch.Tensor {
	mustBePositive(op, "words", words)
	mustBePositive(op, "dim", dim)
	if padding != nil && (*padding < -words || *padding >= words) {
		panic(mistake(op, torch.ErrIndex, "PaddingIdx %d is out of range: there are %d words", *padding, words))
	}
	weight := initialize.Normal(f.Empty(words, dim), 0, 1, f.Generator)
	if padding != nil {
		row := weight.Select(0, *padding)
		row.Zero_()
		row.Free()
	}
	return Parameter(weight)
}
