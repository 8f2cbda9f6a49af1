package torch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// The hook of a layer near the loss runs, and frees its gradient, before the gradient of an earlier
// layer exists. Its changes of its own weights do not affect the gradients of earlier layers.
func TestPostAccumulateGradHooksRunWhileThePassIsOnItsWay(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.From([]float32{1, -2, 3, 0.5}, 2, 2)
	first := torch.From([]float32{0.5, 1, -1, 2}, 2, 2).RequiresGrad()
	last := torch.From([]float32{2, -0.5, 1, 1}, 2, 2).RequiresGrad()
	loss := func() torch.Tensor { return x.MatMul(first).MatMul(last).Square().Sum(0) }

	loss().Backward()
	wantFirst, wantLast := first.Grad().Clone(), last.Grad().Clone()
	first.SetGrad(torch.Tensor{})
	last.SetGrad(torch.Tensor{})

	var order []string
	var gotFirst, gotLast torch.Tensor
	h := last.RegisterPostAccumulateGradHook(func() {
		order = append(order, "last")
		assert.False(t, first.Grad().Defined(), "the earlier layer has a gradient already")
		assert.False(t, torch.IsGradEnabled(), "the hook records a graph")
		gotLast = last.Grad().Clone().Keep()
		last.AddScaled_(last.Grad(), -0.1)
		last.SetGrad(torch.Tensor{})
	})
	second := first.RegisterPostAccumulateGradHook(func() {
		order = append(order, "first")
		assert.False(t, last.Grad().Defined(), "the freed gradient exists again")
		gotFirst = first.Grad().Clone().Keep()
	})
	third := first.RegisterPostAccumulateGradHook(func() { order = append(order, "first again") })
	loss().Backward()
	require.Equal(t, []string{"last", "first", "first again"}, order)
	golden.Bits(t, "gradient of the last layer", gotLast, wantLast)
	golden.Bits(t, "gradient of the first layer", gotFirst, wantFirst)

	h.Remove()
	h.Remove()
	second.Remove()
	order = nil
	first.SetGrad(torch.Tensor{})
	loss().Backward()
	assert.Equal(t, []string{"first again"}, order)
	assert.True(t, last.Grad().Defined(), "a removed hook has freed a gradient")
	third.Remove()
	order = nil
	loss().Backward()
	assert.Empty(t, order)
}

func TestAPanicInAHookEndsThePass(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(3).RequiresGrad()
	h := w.RegisterPostAccumulateGradHook(func() { panic("the disk is full") })
	assert.PanicsWithValue(t, "the disk is full", func() { w.Sum(0).Backward() })
	h.Remove()
	w.SetGrad(torch.Tensor{}).Sum(0).Backward()
	golden.Bits(t, "gradient after the hook is gone", w.Grad(), torch.Ones(3))
}

func TestPostAccumulateGradHooksAreForLeavesThatNeedAGradient(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(3).RequiresGrad()
	nothing := func() {}
	for _, c := range []struct {
		claim, want string
		register    func()
	}{
		{"a tensor without gradient", "doesn't require gradient", func() {
			torch.Ones(3).RegisterPostAccumulateGradHook(nothing)
		}},
		{"the result of an operator", "non-leaf", func() { w.MulScalar(2).RegisterPostAccumulateGradHook(nothing) }},
		{"no function", "must not be nil", func() { w.RegisterPostAccumulateGradHook(nil) }},
	} {
		assert.ErrorContains(t, torch.Try(c.register), c.want, c.claim)
	}
	gone := torch.Ones(3).RequiresGrad()
	h := gone.RegisterPostAccumulateGradHook(nothing)
	gone.Free()
	h.Remove() // its tensor has been freed
}

func TestAPostAccumulateGradHookMayRemoveALaterOne(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(2).RequiresGrad()
	var order []string
	var later *torch.PostAccumulateGradHook
	x.RegisterPostAccumulateGradHook(func() {
		order = append(order, "first")
		later.Remove()
	})
	later = x.RegisterPostAccumulateGradHook(func() { order = append(order, "later") })
	x.RegisterPostAccumulateGradHook(func() { order = append(order, "last") })
	x.Sum(0).Backward()
	assert.Equal(t, []string{"first", "last"}, order)
}
