package sentence

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// SimilarityFunction compares embeddings: similarity_fn_name. Larger means more similar.
type SimilarityFunction string

// The similarity functions.
const (
	Cosine    SimilarityFunction = "cosine"
	Dot       SimilarityFunction = "dot"       // the dot product
	Euclidean SimilarityFunction = "euclidean" // the distance, negated
	Manhattan SimilarityFunction = "manhattan" // the sum of the differences, negated
)

// functions are the similarities of all pairs of rows, and of rows with the same index.
type functions struct {
	matrix, pairwise func(a, b torch.Tensor) torch.Tensor
}

var similarities = map[SimilarityFunction]functions{
	Cosine: {
		func(a, b torch.Tensor) torch.Tensor { return normalized(a).MM(normalized(b).Transpose(0, 1)) },
		func(a, b torch.Tensor) torch.Tensor { return sumOf(normalized(a).Mul(normalized(b))) },
	},
	Dot: {
		func(a, b torch.Tensor) torch.Tensor { return a.MM(b.Transpose(0, 1)) },
		func(a, b torch.Tensor) torch.Tensor { return sumOf(a.Mul(b)) },
	},
	Euclidean: {
		func(a, b torch.Tensor) torch.Tensor { return a.CDist(b, 2).Neg() },
		func(a, b torch.Tensor) torch.Tensor { return a.Sub(b).NormDim(2.0, []int64{-1}, false).Neg() },
	},
	Manhattan: {
		func(a, b torch.Tensor) torch.Tensor { return a.CDist(b, 1).Neg() },
		func(a, b torch.Tensor) torch.Tensor { return sumOf(a.Sub(b).Abs()).Neg() },
	},
}

func sumOf(x torch.Tensor) torch.Tensor { return x.SumDim([]int64{-1}, false, torch.DefaultDType) }

// check returns an error for an unknown name. The zero value becomes Cosine.
func (f SimilarityFunction) check() (SimilarityFunction, error) {
	if f == "" {
		return Cosine, nil
	}
	if _, ok := similarities[f]; !ok {
		return f, fmt.Errorf("there is no similarity function %q; there are %q", f,
			slices.Sorted(maps.Keys(similarities)))
	}
	return f, nil
}

// Matrix compares every row of a, [N, D], with every row of b, [M, D], and returns [N, M].
func (f SimilarityFunction) Matrix(a, b torch.Tensor) torch.Tensor {
	return f.of("Matrix").matrix(a, b)
}

// Pairwise compares each row of a with the same row of b, both [N, D], and returns [N].
func (f SimilarityFunction) Pairwise(a, b torch.Tensor) torch.Tensor {
	return f.of("Pairwise").pairwise(a, b)
}

func (f SimilarityFunction) of(method string) functions {
	f, err := f.check()
	if err != nil {
		panic(torch.Errorf("sentence.SimilarityFunction."+method, torch.ErrValue, "%v", err))
	}
	return similarities[f]
}

// Similarity compares every embedding of a with every one of b by SimilarityFn. The result has a
// row for each embedding of a, with a number for each embedding of b.
func (m *Transformer) Similarity(a, b [][]float32) (scores [][]float32, err error) {
	err = compare(m.SimilarityFn, a, b, func(f SimilarityFunction, a, b torch.Tensor) {
		scores = rowsOf(f.Matrix(a, b))
	})
	return scores, err
}

// SimilarityPairwise compares each embedding of a with the same one of b by SimilarityFn.
func (m *Transformer) SimilarityPairwise(a, b [][]float32) (scores []float32, err error) {
	return pairwise(m.SimilarityFn, a, b)
}

func pairwise(f SimilarityFunction, a, b [][]float32) (scores []float32, err error) {
	if len(a) != len(b) {
		return nil, fmt.Errorf("sentence: there are %d and %d embeddings; want as many on both sides", len(a), len(b))
	}
	err = compare(f, a, b, func(f SimilarityFunction, a, b torch.Tensor) {
		scores = torch.Values[float32](f.Pairwise(a, b))
	})
	return scores, err
}

// compare calls f with the embeddings as matrices, unless there are none.
func compare(s SimilarityFunction, a, b [][]float32, f func(s SimilarityFunction, a, b torch.Tensor)) error {
	s, err := s.check()
	if err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	width := len(a[0])
	for _, e := range slices.Concat(a, b) {
		if len(e) != width || width == 0 {
			return fmt.Errorf("sentence: there are embeddings of %d and of %d numbers; want the same of all", width, len(e))
		}
	}
	return torch.Try(func() {
		torch.Scope(func() {
			f(s, torch.From(slices.Concat(a...), int64(len(a)), int64(width)), torch.From(slices.Concat(b...), int64(len(b)),
				int64(width)))
		})
	})
}

// rowsOf returns the rows of a matrix.
func rowsOf(x torch.Tensor) [][]float32 {
	return slices.Collect(slices.Chunk(torch.Values[float32](x), int(x.Size(1))))
}
