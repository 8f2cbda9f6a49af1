package transformer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// TestAWindowMakesAMaskOnlyWhereItIsFelt checks that shorter texts need no mask and can use the
// fused causal kernel.
func TestAWindowMakesAMaskOnlyWhereItIsFelt(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Zeros(1, 4, 8)
	for window, masked := range map[int64]bool{0: false, 2: true, 4: true, 5: false} {
		m := transformer.WindowMask(torch.Tensor{}, x, window, transformer.SDPA)
		assert.Equal(t, masked, m.Padding.Defined(), "window %d", window)
		assert.True(t, m.Causal)
		assert.Equal(t, window, m.Window)
	}
	m := transformer.WindowMask(torch.Tensor{}, x, 2, transformer.SDPA)
	assert.Equal(t, []float32{1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1},
		torch.Values[float32](m.Padding.ToDType(torch.Float32)))
	padded := torch.From([]int64{0, 1, 1, 1}, 1, 4)
	m = transformer.WindowMask(padded, x, 2, transformer.SDPA)
	assert.Equal(t, []float32{0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1},
		torch.Values[float32](m.Padding.ToDType(torch.Float32)))
	m = transformer.WindowMask(torch.Tensor{}, x, 2, transformer.Eager)
	values := torch.Values[float32](m.Padding)
	assert.Zero(t, values[0])
	assert.Less(t, values[8], float32(-1e38), "the third token does not attend to the first")
}

// TestATokenRecallsWhatItsWindowHasRoomFor checks that a single token recalls only the last tokens,
// whereas a text processed as a whole recalls all.
func TestATokenRecallsWhatItsWindowHasRoomFor(t *testing.T) {
	testenv.RequireTorch(t)
	const heads, size = 2, 3
	past := transformer.NewPast(1, 1, 6, heads*size, torch.TensorOptions{})
	all := torch.Randn(1, heads, 6, size)
	for _, step := range []struct{ at, n, from int64 }{{0, 4, 0}, {4, 1, 3}, {5, 1, 4}} {
		now := all.Narrow(2, step.at, step.n)
		keys, values := past.Recall(0).Heads(now, now.MulScalar(2), 2)
		want := all.Narrow(2, step.from, step.at+step.n-step.from)
		assert.True(t, keys.Equal(want), "keys after %d tokens", step.at)
		assert.True(t, values.Equal(want.MulScalar(2)), "values after %d tokens", step.at)
		past.Advance(step.n)
	}
	require.EqualValues(t, 6, past.Length())
	past.Forget()
	keys, _ := past.Recall(0).Heads(all, all, 2)
	assert.True(t, keys.Equal(all), "a text that is processed again")
	keys, _ = transformer.Recall(nil).Heads(all, all, 2)
	assert.True(t, keys.Equal(all), "a text without a past")
}

// TestPartOfAHeadIsTurned also checks that nothing is rotated without positions.
func TestPartOfAHeadIsTurned(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Randn(1, 2, 3, 6)
	assert.True(t, transformer.Rotary{}.Turn(x).Equal(x))
	turned := transformer.NewRotary(torch.Ones(2), torch.Arange(3), 1, torch.Float32).Turn(x)
	assert.Equal(t, x.Shape(), turned.Shape())
	assert.True(t, turned.Narrow(-1, 4, 2).Equal(x.Narrow(-1, 4, 2)))
	assert.False(t, turned.Narrow(-1, 0, 4).Equal(x.Narrow(-1, 0, 4)))
}
