package nn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestAnEmbeddingOfGivenVectors(t *testing.T) {
	testenv.RequireTorch(t)
	vectors := torch.From([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	for name, c := range map[string]struct {
		layer *nn.Embedding
		want  []float32 // the gradient
	}{
		"a literal trains every row": {&nn.Embedding{Weight: nn.Parameter(vectors.Clone())}, []float32{1, 1, 2, 2, 0, 0}},
		"a padding row": {nn.EmbeddingFromPretrained(vectors.Clone(), &nn.EmbeddingOptions{PaddingIdx: new(int64(-3))}),
			[]float32{0, 0, 2, 2, 0, 0}},
		"frozen, as from_pretrained": {nn.EmbeddingFromPretrained(vectors.Clone(), nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			trained := c.want != nil
			if trained {
				c.layer.Weight.RequiresGrad()
			}
			out := c.layer.Forward(torch.From([]int64{0, 1, 1}, 3))
			assert.Equal(t, []float32{1, 2, 3, 4, 3, 4}, torch.Values[float32](out))
			require.Equal(t, trained, out.NeedsGrad())
			if trained {
				out.Sum(torch.DefaultDType).Backward()
				assert.Equal(t, c.want, torch.Values[float32](c.layer.Weight.Grad()))
			}
		})
	}
	require.ErrorContains(t, torch.Try(func() { nn.EmbeddingFromPretrained(torch.Ones(3), nil) }),
		"the weight has the shape [3]; want [words, dim]")
	require.ErrorContains(t, torch.Try(func() {
		nn.EmbeddingFromPretrained(vectors, &nn.EmbeddingOptions{PaddingIdx: new(int64(3))})
	}), "PaddingIdx 3 is out of range")
}
