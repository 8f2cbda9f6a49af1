package marian

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// sinusoids returns embeddings of n positions, [n, size]: sines in the first half, cosines in the
// second. They are computed in float64 and rounded, as by MarianSinusoidalPositionalEmbedding.
func sinusoids(n, size int64) torch.Tensor {
	sines := (size + 1) / 2
	rates := make([]float64, sines)
	for i := range rates {
		rates[i] = math.Pow(10000, float64(2*i)/float64(size))
	}
	all := make([]float32, n*size)
	for at := range all {
		position, column := int64(at)/size, int64(at)%size
		if column < sines {
			all[at] = float32(math.Sin(float64(position) / rates[column]))
		} else {
			all[at] = float32(math.Cos(float64(position) / rates[column-sines]))
		}
	}
	return torch.From(all, n, size)
}
