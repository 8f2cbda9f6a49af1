package optim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// fusedRules are the optimizers that have a fused kernel on the CPU.
var fusedRules = map[string]func(optim.Implementation) optim.Builder{
	"AdamW": func(i optim.Implementation) optim.Builder {
		return optim.AdamW{LR: 0.1, AMSGrad: true, Implementation: i}
	},
	"Adam": func(i optim.Implementation) optim.Builder { return optim.Adam{LR: 0.1, Implementation: i} },
	"SGD": func(i optim.Implementation) optim.Builder {
		return optim.SGD{LR: 0.1, Momentum: 0.9, Implementation: i}
	},
	"Adagrad": func(i optim.Implementation) optim.Builder { return optim.Adagrad{LR: 0.1, Implementation: i} },
}

// picture returns a tensor whose gradient differs from element to element.
func picture(shape ...int64) torch.Tensor {
	n := int64(1)
	for _, s := range shape {
		n *= s
	}
	return torch.Arange(n).ToDType(torch.Float32).View(shape...).MulScalar(0.1).Sin()
}

// The kernels run over raw memory. A parameter that is a view, or whose memory format changes
// between updates, must be trained like the operators train it.
func TestFusedKernelsMeetTheirElementsInAnyLayout(t *testing.T) {
	testenv.RequireTorch(t)
	for name, rule := range fusedRules {
		t.Run(name, func(t *testing.T) {
			train := func(i optim.Implementation, fill func() torch.Tensor, between func(p torch.Tensor)) torch.Tensor {
				p := nn.Parameter(fill())
				o, err := rule(i).Build([]optim.Group{{Params: []torch.Named{{Name: "p", Tensor: p}}}})
				require.NoError(t, err)
				for range 4 {
					p.Mul(p).Mul(picture(p.Shape()...)).Sum(torch.DefaultDType).Backward()
					o.Step(0.1)
					o.ZeroGrad()
					between(p)
				}
				return p
			}
			same := func(t *testing.T, fill func() torch.Tensor, between func(p torch.Tensor)) {
				want, got := train(optim.ForLoop, fill, between), train(optim.Fused, fill, between)
				assert.InDeltaSlice(t, torch.Values[float32](want), torch.Values[float32](got), 1e-5)
			}
			t.Run("columns of a matrix", func(t *testing.T) {
				var base torch.Tensor
				same(t, func() torch.Tensor {
					base = picture(3, 6).Keep()
					return base.At(torch.All, torch.Range(1, 3))
				}, func(torch.Tensor) {})
				unchanged := torch.Values[float32](picture(3, 6).At(torch.All, torch.Range(3, 6)))
				assert.Equal(t, unchanged, torch.Values[float32](base.At(torch.All, torch.Range(3, 6))))
			})
			t.Run("a transposed matrix", func(t *testing.T) {
				same(t, func() torch.Tensor { return picture(3, 4).Transpose(0, 1) }, func(torch.Tensor) {})
			})
			t.Run("another memory format after an update", func(t *testing.T) {
				same(t, func() torch.Tensor { return picture(2, 3, 2, 2) }, func(p torch.Tensor) {
					p.SetData_(p.Detach().InMemoryFormat(torch.ChannelsLast))
				})
			})
			t.Run("another shape after an update", func(t *testing.T) {
				p := nn.Parameter(picture(3))
				o, err := rule(optim.Fused).Build([]optim.Group{{Params: []torch.Named{{Name: "p", Tensor: p}}}})
				require.NoError(t, err)
				p.SetGrad(picture(3))
				o.Step(0.1)
				o.ZeroGrad()
				p.SetData_(picture(5))
				p.SetGrad(picture(5))
				err = torch.Try(func() { o.Step(0.1) })
				require.ErrorContains(t, err, "parameter 0 has the shape [5] and its ")
				assert.Equal(t, torch.Values[float32](picture(5)), torch.Values[float32](p))
			})
		})
	}
}
