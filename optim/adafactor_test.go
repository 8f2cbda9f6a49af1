package optim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// The expected values were computed with torch.optim.Adafactor of PyTorch 2.11.
func TestAdafactorKeepsTheElementsWhoseGradientIsANumber(t *testing.T) {
	testenv.RequireTorch(t)
	for _, implementation := range []optim.Implementation{optim.ForLoop, optim.Foreach} {
		torch.Scope(func() {
			p := torch.From([]float32{1, 2, 3, 4}, 4).RequiresGrad()
			o := optim.NewAdafactor([]torch.Named{{Name: "p", Tensor: p}},
				optim.Adafactor{LR: 0.1, Implementation: implementation})
			for _, gradient := range [][]float32{{float32(math.NaN()), 1, -2, 0.5}, {0.25, 1, -2, 0.5}} {
				p.SetGrad(torch.From(gradient, 4))
				o.Step(0.1)
			}
			got := torch.Values[float32](p)
			assert.True(t, math.IsNaN(float64(got[0])), "%s: %v", implementation, got)
			assert.InDeltaSlice(t, []float32{1.7260387, 3.2739613, 3.7260387}, got[1:], 1e-6, "%s", implementation)
		})
	}
}
