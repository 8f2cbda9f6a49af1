package torch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestPageLockedMemoryIsOrdinaryWithoutAGPU(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.FromPinned([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	assert.Equal(t, []int64{2, 3}, x.Shape())
	assert.Equal(t, []int32{1, 2, 3, 4, 5, 6}, torch.Values[int32](x))
	assert.Equal(t, []int64{0}, torch.FromPinned([]float32{}).Shape())
	assert.True(t, x.ToDeviceNonBlocking(torch.CPU).Equal(x))
	assert.True(t, x.PinMemory().Equal(x))
	assert.ErrorIs(t, torch.Try(func() { torch.FromPinned([]bool{true}, 2) }), torch.ErrInvalid)
}

func TestCopiesToAGPUFromPageLockedMemoryArrive(t *testing.T) {
	testenv.RequireCUDA(t)
	values := make([]float32, 1<<20)
	for round := range 20 { // memory of the previous round is reused
		for i := range values {
			values[i] = float32(round + i)
		}
		var x torch.Tensor
		torch.Scope(func() {
			host := torch.FromPinned(values)
			assert.True(t, torch.CallAny("aten::is_pinned", host)[0].(bool))
			x = host.ToDeviceNonBlocking(torch.CUDA(0)).Keep()
			host.Free()
		})
		clear(values) // the copy was made from page-locked memory
		assert.InDelta(t, float64(round+len(values)-1), x.Max().Item(), 0)
		assert.InDelta(t, float64(round), x.Min().Item(), 0)
		x.Free()
	}
}
