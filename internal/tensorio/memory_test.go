package tensorio_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// allocated returns how many bytes f allocates on Go's heap in total.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A state is saved directly from the tensors' memory and read directly into it. Only a piece of the
// one non-contiguous tensor, the header and the file's buffer are allocated on Go's heap, for any
// size of the state. The sizes of the tensors are around that of a piece.
func TestLargeTensorsSurviveWithoutACopyInGo(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		long := torch.Arange(10_000_001).To(torch.TensorOptions{DType: torch.Float32})
		want := []torch.Named{
			{Name: "long", Tensor: long}, {Name: "turned", Tensor: long.Narrow(0, 0, 3_000_000).View(3000,
				1000).Transpose(0, 1)},
			{Name: "a piece", Tensor: torch.Ones(1 << 18)}, {Name: "one more", Tensor: torch.Ones(1<<18 + 1)},
			{Name: "empty", Tensor: torch.Ones(0, 3)}, {Name: "scalar", Tensor: torch.ScalarTensor(float32(2))},
			{Name: "learnt", Tensor: torch.Ones(1<<18 + 1).SetRequiresGrad(true)},
		}
		path := filepath.Join(t.TempDir(), "x.safetensors")
		const bound = uint64(5 << 18) // a piece is a megabyte
		assert.Less(t, allocated(func() { require.NoError(t, tensorio.Save(path, want, nil)) }), bound)
		var got []torch.Named
		assert.Less(t, allocated(func() {
			var err error
			got, _, err = tensorio.Load(path)
			require.NoError(t, err)
		}), bound)
		require.Len(t, got, len(want))
		for _, w := range want {
			for _, g := range got {
				if g.Name == w.Name {
					golden.Bits(t, w.Name, g.Tensor, w.Tensor.Detach())
				}
			}
		}
	})
}
