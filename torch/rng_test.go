package torch_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// draws returns sums of the results of operators that draw from the default generator in many ways,
// repeatedly, and the final state of the generator.
func draws(seed uint64) (sums []float64, state []byte) {
	torch.ForkRNG(func() {
		torch.Scope(func() {
			torch.ManualSeed(seed)
			weight := torch.Rand(64, 64).RequiresGrad()
			query := torch.Randn(2, 4, 16, 8)
			for range 12 {
				dropped := torch.Call("aten::dropout", weight, 0.3, true)[0]
				inner := torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
					return []torch.Tensor{torch.Call("aten::dropout", in[0].MatMul(weight), 0.5, true)[0]}
				}, dropped)[0]
				inner.Sum(torch.DefaultDType).Backward()
				attended := torch.Call("aten::scaled_dot_product_attention", query, query, query, nil, 0.2)[0]
				for _, t := range []torch.Tensor{
					weight.Grad(), attended,
					torch.TensorOptions{}.RandPerm(100).Narrow(0, 0, 50).ToDType(torch.Float32),
					torch.Rand(10).Multinomial(5, false, nil).ToDType(torch.Float32),
					torch.Call("aten::native_dropout", weight, 0.5, true)[0],
					torch.Call("aten::rrelu", query, 0.1, 0.3, true)[0],
					torch.Empty(5).Exponential_(1, nil), torch.Rand(7).Bernoulli(nil), torch.Rand(7).Poisson(nil),
				} {
					sums = append(sums, t.Detach().ToDType(torch.Float64).Sum(torch.DefaultDType).Item())
				}
			}
			state = torch.DefaultGenerator(torch.CPU).State()
		})
	})
	return sums, state
}

// Without ForkRNG, threads that share the default generator would change each other's numbers.
func TestForkRNGIsAsIfItWereAlone(t *testing.T) {
	testenv.RequireTorch(t)
	build, err := torch.BuildInfo()
	require.NoError(t, err)
	require.True(t, build.OwnGenerators, "libcgotorch_generators is not loaded")
	const n = 16
	var alone, together [n][]float64
	var states, after [n][]byte
	for i := range n {
		alone[i], states[i] = draws(uint64(i))
	}
	torch.ManualSeed(3)
	before := torch.DefaultGenerator(torch.CPU).State()
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { together[i], after[i] = draws(uint64(i)) })
	}
	wait.Wait()
	for i := range n {
		assert.Equal(t, alone[i], together[i], "goroutine %d", i)
		assert.Equal(t, states[i], after[i], "the generator of goroutine %d", i)
	}
	assert.NotEqual(t, alone[0], alone[1])
	assert.Equal(t, before, torch.DefaultGenerator(torch.CPU).State(), "the generator of the process")
}

func TestForkRNGNests(t *testing.T) {
	testenv.RequireTorch(t)
	draw := func() string { return fmt.Sprint(torch.Values[float32](torch.Rand(2))) }
	torch.ManualSeed(5)
	first, second := draw(), draw()
	torch.ManualSeed(5)
	torch.ForkRNG(func() {
		assert.Equal(t, first, draw())
		torch.ForkRNG(func() {
			assert.Equal(t, second, draw())
			torch.ManualSeed(9)
		})
		assert.Equal(t, second, draw(), "after the inner fork")
	})
	assert.Equal(t, first, draw(), "after the outer fork")
}
