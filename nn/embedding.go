package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// EmbeddingOptions configures [NewEmbedding]. Nil and the zero value mean PyTorch's defaults.
type EmbeddingOptions struct {
	// this row starts as zeros and gets no gradient; negative counts from the end, nil means none
	PaddingIdx      *int64
	MaxNorm         float64 // rows that are looked up are scaled down to this norm, in place; zero means no limit
	NormType        float64 // the p of that norm; zero means 2
	ScaleGradByFreq bool    // divide gradients by how often a row is used in the batch
	// the weight's gradient is sparse: for large vocabularies, with optim.SparseAdam or optim.SGD
	Sparse  bool
	Factory torch.TensorOptions // dtype, device and generator of the weight
}

// Embedding looks up rows of its weight: torch.nn.Embedding.
type Embedding struct {
	Weight torch.Tensor `param:"weight"` // [words, dim]

	PaddingIdx      *int64  // this row gets no gradient; nil means none
	MaxNorm         float64 // zero means no limit
	NormType        float64
	ScaleGradByFreq bool
	Sparse          bool

	// AfterForward changes what Forward returns: a forward hook. Package trainer/engine adds the
	// noise of NEFTune here. Nil means no change.
	AfterForward func(out torch.Tensor) torch.Tensor

	traced
}

// NewEmbedding makes an Embedding of words rows of dim numbers, drawn from the standard normal
// distribution.
func NewEmbedding(words, dim int64, o *EmbeddingOptions) *Embedding {
	opt := deref(o)
	return newEmbedding("NewEmbedding", drawEmbedding("NewEmbedding", words, dim, opt.PaddingIdx, opt.Factory), opt)
}

// EmbeddingFromPretrained makes an Embedding with the rows of weight, [words, dim], such as word
// vectors from a file: Embedding.from_pretrained. The rows are used as they are, including that of
// PaddingIdx, and are not trained; call e.Weight.RequiresGrad() to train them. Options.Factory is
// ignored.
func EmbeddingFromPretrained(weight torch.Tensor, o *EmbeddingOptions) *Embedding {
	const op = "EmbeddingFromPretrained"
	opt := deref(o)
	if weight.Dim() != 2 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "the weight has the shape %v; want [words, dim]", weight.Shape()))
	}
	mustBeRow(op, opt.PaddingIdx, weight.Size(0))
	return newEmbedding(op, Parameter(weight).SetRequiresGrad(false), opt)
}

func newEmbedding(op string, weight torch.Tensor, o EmbeddingOptions) *Embedding {
	if o.MaxNorm < 0 || o.NormType < 0 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "MaxNorm and NormType must not be negative, found %g and %g",
			o.MaxNorm, o.NormType))
	}
	e := &Embedding{
		Weight: weight, MaxNorm: o.MaxNorm, NormType: cmp.Or(o.NormType, 2), ScaleGradByFreq: o.ScaleGradByFreq,
		Sparse: o.Sparse,
	}
	if o.PaddingIdx != nil {
		words := weight.Size(0)
		e.PaddingIdx = new((*o.PaddingIdx + words) % words)
	}
	return e
}

// Forward maps integers of shape [...] to [..., dim].
func (e *Embedding) Forward(x torch.Tensor) torch.Tensor {
	if e.MaxNorm > 0 {
		torch.NoGrad(func() {
			torch.Scope(func() {
				torch.Call("aten::embedding_renorm_", e.Weight, x.Contiguous(), e.MaxNorm, e.NormType)
			})
		})
	}
	out := e.trace(x, e.look(x))
	if e.AfterForward != nil {
		out = e.AfterForward(out)
	}
	return out
}

func (e *Embedding) look(x torch.Tensor) torch.Tensor {
	padding := optional.Or(e.PaddingIdx, -1) // none
	if e.ScaleGradByFreq || e.Sparse {
		return torch.Call("aten::embedding", e.Weight, x, padding, e.ScaleGradByFreq, e.Sparse)[0]
	}
	return x.Embedding(e.Weight, padding)
}

// drawEmbedding draws the weight of an embedding; the row at padding is zeros.
func drawEmbedding(op string, words, dim int64, padding *int64, f torch.TensorOptions) torch.Tensor {
	mustBePositive(op, "words", words)
	mustBePositive(op, "dim", dim)
	mustBeRow(op, padding, words)
	weight := initialize.Normal(f.Empty(words, dim), 0, 1, f.Generator)
	if padding != nil {
		row := weight.Select(0, *padding)
		row.Zero_()
		row.Free()
	}
	return Parameter(weight)
}

// mustBeRow panics if a PaddingIdx is out of range.
func mustBeRow(op string, padding *int64, words int64) {
	if padding != nil && (*padding < -words || *padding >= words) {
		panic(torch.Errorf("nn."+op, torch.ErrIndex, "PaddingIdx %d is out of range: there are %d words", *padding,
			words))
	}
}
