package modeltest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// SameGrads compares the gradients of a model by name: their norms with a relative tolerance of
// share, and their bits on machines that compute the same numbers. Parameters not in grads must not
// have a gradient.
func SameGrads(t *testing.T, m any, grads map[string]string, norms map[string]float64, share float64) {
	t.Helper()
	for _, p := range nn.Params(m) {
		grad := p.Tensor.Grad()
		if _, trained := grads[p.Name]; !trained {
			assert.False(t, grad.Defined(), "%s has a gradient", p.Name)
			continue
		}
		require.True(t, grad.Defined(), p.Name)
		norm := grad.ToDType(torch.Float64).Norm(2).Item()
		assert.InDelta(t, norms[p.Name], norm, 1e-6+share*norms[p.Name], p.Name)
		if testenv.SameBits() {
			assert.Equal(t, grads[p.Name], Sum(grad.Bytes()), "the gradient of %s", p.Name)
		}
	}
}
