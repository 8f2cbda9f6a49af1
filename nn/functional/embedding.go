package functional

import (
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// BagMode says how [EmbeddingBag] combines the rows of a bag. The zero value is PyTorch's default.
type BagMode int

// The modes of [EmbeddingBag].
const (
	BagMean BagMode = iota
	BagSum
	BagMax
)

// EmbeddingBagOptions are the keywords of torch.nn.functional.embedding_bag. The zero value means
// PyTorch's defaults.
type EmbeddingBagOptions struct {
	Offsets           torch.Tensor // where each bag starts, for a one-dimensional input
	Mode              BagMode      // zero means BagMean
	ScaleGradByFreq   bool         // divide gradients by how often a row is used; not for BagMax
	Sparse            bool         // the weight's gradient is sparse; not for BagMax
	PerSampleWeights  torch.Tensor // a factor per index, for BagSum; undefined means 1
	IncludeLastOffset bool         // the last offset is the end of the last bag
	PaddingIdx        *int64       // this row is ignored; negative counts from the end, nil means none
}

// EmbeddingBag looks up rows of weight and combines those of each bag; input is [bags, size], or
// [indices] with Offsets: torch.nn.functional.embedding_bag.
func EmbeddingBag(input, weight torch.Tensor, o EmbeddingBagOptions) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		const op = "EmbeddingBag"
		shape := input.Shape()
		if o.PerSampleWeights.Defined() {
			if s := o.PerSampleWeights.Shape(); !slices.Equal(s, shape) {
				panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want PerSampleWeights in the shape of the "+
					"input, %v, found %v",
					shape, s))
			}
			if o.Mode != BagSum {
				panic(torch.Errorf("functional."+op, torch.ErrValue, "PerSampleWeights are for BagSum"))
			}
		}
		switch {
		case len(shape) == 2 && o.Offsets.Defined():
			panic(torch.Errorf("functional."+op, torch.ErrValue, "Offsets are for a one-dimensional input, found %v",
				shape))
		case len(shape) == 2 && shape[1] == 0:
			panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want bags of at least one index, found %v; bags "+
				"without one are for a one-dimensional input with Offsets", shape))
		case len(shape) == 2:
			o.Offsets = torch.TensorOptions{DType: input.DType(), Device: input.Device()}.Arange(0, shape[0]*shape[1],
				shape[1])
			input = input.Reshape(-1)
			if o.PerSampleWeights.Defined() {
				o.PerSampleWeights = o.PerSampleWeights.Reshape(-1)
			}
		case len(shape) != 1:
			panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want an input of 1 or 2 dimensions, found %v",
				shape))
		case !o.Offsets.Defined() || o.Offsets.Dim() != 1:
			panic(torch.Errorf("functional."+op, torch.ErrValue,
				"a one-dimensional input needs one-dimensional Offsets"))
		}
		mode, ok := map[BagMode]int64{BagSum: 0, BagMean: 1, BagMax: 2}[o.Mode]
		if !ok {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "the mode %d is not known; want BagMean, BagSum or "+
				"BagMax", o.Mode))
		}
		if o.Mode == BagMax && (o.ScaleGradByFreq || o.Sparse) {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "ScaleGradByFreq and Sparse are not for BagMax"))
		}
		var padding any
		if o.PaddingIdx != nil {
			words := weight.Size(0)
			p := *o.PaddingIdx
			if p < -words || p >= words {
				panic(torch.Errorf("functional."+op, torch.ErrIndex,
					"PaddingIdx %d is out of range: there are %d words", p, words))
			}
			padding = (p + words) % words
		}
		return call("aten::embedding_bag.padding_idx", weight, input, o.Offsets, o.ScaleGradByFreq, mode, o.Sparse,
			o.PerSampleWeights, o.IncludeLastOffset, padding)
	})
}
