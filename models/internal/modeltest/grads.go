package modeltest

import (
	"slices"
	"strings"
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
		sameNorm(t, p.Name, norm, norms[p.Name], norms[strings.TrimSuffix(p.Name, "bias")+"weight"], share)
		if testenv.SameBits() {
			assert.Equal(t, grads[p.Name], Sum(grad.Bytes()), "the gradient of %s", p.Name)
		}
	}
}

// unnoticedBiases are the ends of the names of such biases as [sameNorm] describes. Unless keys are
// rotated, their bias adds the same to all products of a query, which softmax ignores. In
// Wav2Vec2's first convolution and before the batch normalization of SegFormer's decode head it
// moves a whole channel, which the normalization of each channel moves back.
var unnoticedBiases = []string{"k_proj.bias", "self.key.bias", "conv_layers.0.conv.bias",
	"linear_c.0.proj.bias", "linear_c.1.proj.bias", "linear_c.2.proj.bias", "encoder.layer_norm.1.bias",
	"encoder.layer_norm.2.bias"}

// sameNorm compares the norm of a parameter's gradient, with a relative tolerance of share.
//
// Some biases are added to what takes no notice of them, so that their gradient is 0 but for
// rounding. It only has to be as small beside the weight's as the recorded one.
func sameNorm(t *testing.T, name string, got, want, ofWeight, share float64) {
	t.Helper()
	unnoticed := slices.ContainsFunc(unnoticedBiases, func(end string) bool { return strings.HasSuffix(name, end) })
	if least := 1e-6 + share*ofWeight; unnoticed && want <= least {
		assert.LessOrEqual(t, got, least, name)
		return
	}
	assert.InDelta(t, want, got, 1e-6+share*want, name)
}
