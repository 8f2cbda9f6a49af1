package nn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// In PyTorch, an LSTM's projection is cast at every step, since it is used transposed, so its
// gradients are summed in float32, whereas those of the other weights are summed in bfloat16.
func TestAnLSTMsProjectionUnderAutocastIsCastAtEachStep(t *testing.T) {
	testenv.RequireTorch(t)
	for name, noBias := range map[string]bool{"with biases": false, "without": true} {
		torch.Scope(func() {
			torch.ManualSeed(1)
			m := nn.NewLSTM(3, 4, &nn.RNNOptions{ProjSize: 2, NoBias: noBias, Bidirectional: true})
			var loss torch.Tensor
			torch.Autocast(torch.CPU, torch.BFloat16, true, true, func() {
				y := m.Forward(torch.Randn(8, 2, 3))
				loss = y.To(torch.TensorOptions{DType: torch.Float32}).Square().Sum(torch.DefaultDType)
			})
			loss.Backward()
			for _, p := range nn.Params(m) {
				g := p.Tensor.Grad()
				rounded := g.ToDType(torch.BFloat16).ToDType(torch.Float32).Equal(g)
				projection := p.Name == "weight_hr_l0" || p.Name == "weight_hr_l0_reverse"
				assert.Equal(t, !projection, rounded, "%s: whether the gradient of %s has bfloat16's bits only", name, p.Name)
			}
		})
	}
}
