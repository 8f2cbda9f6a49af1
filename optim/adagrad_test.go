package optim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// If PyTorch has copied a gradient, it multiplies it in place, which rounds the rate to bfloat16.
// Otherwise it multiplies out of place, without this rounding. The expected weights were computed
// with PyTorch 2.11.
func TestAdagradForeachRoundsTheRateAsPyTorchDoes(t *testing.T) {
	testenv.RequireTorch(t)
	for name, c := range map[string]struct {
		o                        optim.Adagrad
		weights, gradients, want []float32
	}{
		"maximize": {optim.Adagrad{Maximize: true}, []float32{0.125, 0.15625, -0.03125, 0.1875},
			[]float32{3.0625, 2.125, 3.9375, 1.6875}, []float32{0.412109375, 0.4296875, 0.26171875, 0.447265625}},
		"weight decay": {optim.Adagrad{WeightDecay: new(0.1)}, []float32{-0.0625, -0.1875, -0.1875, 0.21875},
			[]float32{0.625, 1.5, 2.0625, 0.8125}, []float32{-0.2197265625, -0.4375, -0.458984375, 0.025634765625}},
	} {
		t.Run(name, func(t *testing.T) {
			torch.Scope(func() {
				p := torch.From(c.weights, 4).ToDType(torch.BFloat16).RequiresGrad()
				p.SetGrad(torch.From(c.gradients, 4).ToDType(torch.BFloat16))
				c.o.LR, c.o.InitialAccumulator, c.o.Implementation = 0.3, 1, optim.Foreach
				optim.NewAdagrad([]torch.Named{{Name: "p", Tensor: p}}, c.o).Step(0.3)
				assert.Equal(t, c.want, torch.Values[float32](p.ToDType(torch.Float32)))
			})
		})
	}
}
