package torch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// The kinds of gotrainer::throw_for_test, see cgotorch/src/testing.cc.
const illegalAccess, cublasNotInitialized, executionFailed = 10, 17, 18

func failGPU(t *testing.T) {
	testenv.RequireTorch(t)
	t.Cleanup(func() { cgotorch.ThrowForTest(cgotorch.Mend) })
}

func TestAFailedGPUIsAnErrorOfItsOwn(t *testing.T) {
	failGPU(t)
	x := torch.Ones(2)
	require.False(t, torch.DeviceFailed())
	for name, f := range map[string]func(){
		"an operator": func() { torch.Call("gotrainer::throw_for_test", x, illegalAccess, false) },
		"a backward pass": func() {
			w := torch.Ones(2).RequiresGrad()
			torch.Call("gotrainer::throw_for_test", w, illegalAccess, true)[0].Sum(torch.Float32).Backward()
		},
		"Grad": func() {
			w := torch.Ones(2).RequiresGrad()
			y := torch.Call("gotrainer::throw_for_test", w, executionFailed, true)[0].Sum(torch.Float32)
			torch.Grad([]torch.Tensor{y}, []torch.Tensor{w}, torch.GradOptions{})
		},
	} {
		cgotorch.ThrowForTest(cgotorch.Mend)
		err := torch.Try(f)
		require.ErrorIs(t, err, torch.ErrDevice, name)
		require.ErrorContains(t, err, "CUDA_LAUNCH_BLOCKING=1", name)
		require.ErrorContains(t, err, "this process must end", name)
		var e interface{ DeviceFailed() bool }
		require.ErrorAs(t, err, &e, name)
		assert.True(t, e.DeviceFailed(), name)
		assert.True(t, torch.DeviceFailed(), name)
	}
	require.NoError(t, torch.Try(torch.EmptyCache), "the GPU is not used again")
	assert.InDelta(t, 4, torch.Ones(4).Sum(torch.Float32).Item(), 0, "the CPU continues")
}

// If a library cannot be initialized, usually memory is short, so the operator is retried. If a GPU
// has failed, that is the reason instead.
func TestALibraryThatCannotBeginIsShortOfMemoryUnlessTheGPUHasFailed(t *testing.T) {
	failGPU(t)
	x := torch.Ones(2)
	begin := func() { torch.Call("gotrainer::throw_for_test", x, cublasNotInitialized, false) }
	require.ErrorIs(t, torch.Try(begin), torch.ErrOutOfMemory)
	cgotorch.ThrowForTest(illegalAccess).Take()
	require.ErrorIs(t, torch.Try(begin), torch.ErrDevice)
}
