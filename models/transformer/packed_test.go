package transformer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// catcher is a model that records the packed batch passed to it.
type catcher struct{ packed *inputs.Packed }

func (c *catcher) Limits() inputs.Limits                       { return inputs.Limits{VocabSize: 9, MaxLength: 9} }
func (c *catcher) PaddingFree() bool                           { return true }
func (c *catcher) Forward(ids, _, _ torch.Tensor) torch.Tensor { return ids }
func (c *catcher) ForwardPacked(p *inputs.Packed) torch.Tensor {
	c.packed = p
	return p.IDs
}

// packedOf returns a packed batch of texts with the given lengths.
func packedOf(t *testing.T, device torch.Device, lengths ...int) *inputs.Packed {
	t.Helper()
	c := &catcher{}
	list := make([]inputs.Text, len(lengths))
	for i, n := range lengths {
		list[i].InputIDs = make([]int64, n)
	}
	b, err := c.Limits().Collate("transformer", list, data.Padding{})
	require.NoError(t, err)
	b.Forward(engine.ForwardPass{Device: device}, c)
	require.NotNil(t, c.packed)
	return c.packed
}

func TestTextsOfAPackedBatchDoNotSeeOneAnother(t *testing.T) {
	testenv.RequireTorch(t)
	const heads, size = 2, 4
	torch.ManualSeed(1)
	p := packedOf(t, torch.CPU, 2, 5, 1, 5)
	q, k, v := torch.Randn(13, heads*size), torch.Randn(13, heads*size), torch.Randn(13, heads*size)
	for _, a := range []transformer.Attention{transformer.SDPA, transformer.Eager} {
		got := a.Attend(q, k, v, transformer.Mask{Packed: p}, heads, 0)
		begin := int64(0)
		for _, n := range []int64{5, 5, 2, 1} {
			text := func(x torch.Tensor) torch.Tensor { return x.Narrow(0, begin, n).Unsqueeze(0) }
			alone := a.Attend(text(q), text(k), text(v), transformer.Mask{}, heads, 0)
			golden.Close(t, string(a), got.Narrow(0, begin, n), alone.Squeeze().View(n, heads*size), 1e-6, 1e-6)
			begin += n
		}
	}
}

// Without a GPU, libtorch reports that there is no kernel for the CPU. This shows that the
// arguments fit the schema, which is checked first.
func TestTheKernelsOfAGPUAreCalledByTheirSchemas(t *testing.T) {
	testenv.RequireTorch(t)
	p := packedOf(t, torch.CPU, 2, 5)
	q := torch.Randn(7, 2, 8)
	for name, kernel := range transformer.PackedKernels {
		for _, causal := range []bool{false, true} {
			err := torch.Try(func() { kernel(q, q, q, p, causal, 0.1, 0.5) })
			require.ErrorContains(t, err, "with arguments from the 'CPU' backend", name)
		}
	}
}

func TestTheKernelsOfAGPUGiveWhatTheLoopOverTextsGives(t *testing.T) {
	testenv.RequireCUDA(t)
	gpu := torch.CUDA(0)
	const heads, size = 2, 16
	torch.ManualSeed(1)
	p := packedOf(t, gpu, 3, 9, 1, 7, 7)
	for dtype, tolerance := range map[torch.DType]float64{torch.Float32: 1e-3, torch.BFloat16: 2e-2} {
		for _, causal := range []bool{false, true} {
			run := func(a transformer.Attention) (out torch.Tensor, grads []torch.Tensor) {
				torch.ManualSeed(2)
				var in []torch.Tensor
				for i := range 3 {
					x := torch.Randn(27, heads*size)
					if causal { // a decoder may have one head of keys and values for several of queries
						x = x.Narrow(1, 0, int64([]int{heads, 1, 1}[i]*size)).Unsqueeze(0)
					}
					in = append(in, x.ToDevice(gpu).ToDType(dtype).Clone().SetRequiresGrad(true))
				}
				out = a.Attend(in[0], in[1], in[2], transformer.Mask{Packed: p, Causal: causal}, heads, 0)
				out.Mul(out).Sum(torch.DefaultDType).Backward()
				for _, x := range in {
					grads = append(grads, x.Grad().CPU().ToDType(torch.Float32))
				}
				return out.Detach().CPU().ToDType(torch.Float32), grads
			}
			want, wantGrads := run(transformer.Eager)
			got, gotGrads := run(transformer.SDPA)
			golden.Close(t, "attention", got, want, tolerance, tolerance)
			for i := range wantGrads {
				golden.Close(t, "gradient", gotGrads[i], wantGrads[i], 4*tolerance, 4*tolerance)
			}
		}
	}
}
