package optim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Two layers must never have gradients at the same time, which is the purpose of updating layer by
// layer.
func TestGradientsAreFreedLayerByLayer(t *testing.T) {
	testenv.RequireTorch(t)
	params := []torch.Named{param("first", 4, 4), param("second", 4, 4), param("third", 4, 4)}
	o, err := optim.LayerWise{Optimizer: optim.AdamW{LR: 0.1}}.Build([]optim.Group{{Params: params}})
	require.NoError(t, err)
	u := o.(optim.BackwardUpdater)
	defer u.RemoveHooks()
	most := 0
	for _, p := range params { // these hooks run after the optimizer's
		h := p.Tensor.RegisterPostAccumulateGradHook(func() {
			now := 0
			for _, q := range params {
				if q.Tensor.Grad().Defined() {
					now++
				}
			}
			most = max(most, now)
		})
		defer h.Remove()
	}
	u.BeforeBackward(0.1)
	x := torch.Ones(2, 4)
	for _, p := range params {
		x = x.MatMul(p.Tensor).Tanh()
	}
	x.Sum(torch.DefaultDType).Backward()
	assert.Zero(t, most, "number of gradients after a layer is updated")
	u.Step(0.1)
	assert.Equal(t, 1, u.Updates())
}

func TestUpdatesDuringTheBackwardPassComeInOrder(t *testing.T) {
	testenv.RequireTorch(t)
	w := param("w", 3)
	o, err := optim.LOMO{LR: 0.1}.Build([]optim.Group{{Params: []torch.Named{w}}})
	require.NoError(t, err)
	u := o.(optim.BackwardUpdater)
	backward := func() { w.Tensor.Sum(torch.DefaultDType).Backward() }
	misuse := func(want string, f func()) {
		t.Helper()
		before := w.Tensor.Detach().Clone()
		err := torch.Try(f)
		assert.ErrorIs(t, err, torch.ErrInvalid)
		assert.ErrorContains(t, err, want)
		golden.Bits(t, "the weights after "+want, w.Tensor.Detach(), before)
		w.Tensor.SetGrad(torch.Tensor{})
	}
	misuse("call BeforeBackward with the learning rate", backward)
	u.BeforeBackward(0.1)
	misuse("call Step after each backward pass", func() { u.BeforeBackward(0.1) })
	backward()
	misuse("a second backward pass has reached w before Step", backward)
	misuse("differs from that of BeforeBackward", func() { u.Step(0.2) })
	u.Step(0.1)
	assert.Equal(t, 1, u.Updates())

	u.RemoveHooks() // from here on it works like any other optimizer
	before := w.Tensor.Detach().Clone()
	backward()
	u.Step(0.5)
	golden.Bits(t, "a step without hooks", w.Tensor.Detach(), before.SubScalar(0.5))
	assert.Equal(t, 2, u.Updates())
}

func TestScheduleFreeRefusesAStepInEvaluationMode(t *testing.T) {
	testenv.RequireTorch(t)
	w := param("w", 3)
	o, err := optim.SGDScheduleFree{}.Build([]optim.Group{{Params: []torch.Named{w}}})
	require.NoError(t, err)
	w.Tensor.SetGrad(torch.Ones(3))
	assert.ErrorContains(t, torch.Try(func() { o.Step(0.1) }), "call Train before the forward pass")
	m := o.(optim.ModeSwitcher)
	m.Train()
	o.Step(0.1)
	m.Eval()
	assert.ErrorContains(t, torch.Try(func() { o.Step(0.1) }), "the optimizer is in evaluation mode")
}

// A loop with a schedule-free optimizer moves it between its two modes.
func ExampleModeSwitcher() {
	w := torch.From([]float32{1}).RequiresGrad()
	opt, err := optim.SGDScheduleFree{LR: 0.1}.Build([]optim.Group{{Params: []torch.Named{{Name: "w", Tensor: w}}}})
	if err != nil {
		panic(err)
	}
	mode := opt.(optim.ModeSwitcher)
	for range 20 {
		mode.Train()
		torch.Scope(func() { w.Square().Sum(torch.DefaultDType).Backward() })
		opt.Step(0.1)
		opt.ZeroGrad()
	}
	fmt.Printf("trained at %.3f\n", w.Item())
	mode.Eval() // before an evaluation, and before the weights are saved
	fmt.Printf("evaluated at %.3f\n", w.Item())
	// Output:
	// trained at -0.026
	// evaluated at 0.004
}

// LOMO updates a layer as soon as its gradient is there.
func ExampleBackwardUpdater() {
	w := torch.From([]float32{1}).RequiresGrad()
	opt, err := optim.LOMO{LR: 0.1}.Build([]optim.Group{{Params: []torch.Named{{Name: "w", Tensor: w}}}})
	if err != nil {
		panic(err)
	}
	lomo := opt.(optim.BackwardUpdater)
	defer lomo.RemoveHooks()
	for range 3 {
		lomo.BeforeBackward(0.1)
		torch.Scope(func() { w.Square().Sum(torch.DefaultDType).Backward() })
		fmt.Printf("%.3f, a gradient is left: %t\n", w.Item(), w.Grad().Defined())
		lomo.Step(0.1)
	}
	// Output:
	// 0.800, a gradient is left: false
	// 0.640, a gradient is left: false
	// 0.512, a gradient is left: false
}

// A parameter that already had a gradient before the pass gets a separate first update.
func TestTheFirstUpdateOfALayerIsItsOwn(t *testing.T) {
	testenv.RequireTorch(t)
	a, b := param("a", 3), param("b", 3)
	o, err := optim.LayerWise{Optimizer: optim.SGD{LR: 0.1, Momentum: 0.9}}.Build([]optim.Group{
		{Params: []torch.Named{a, b}}})
	require.NoError(t, err)
	u := o.(optim.BackwardUpdater)
	defer u.RemoveHooks()
	before := b.Tensor.Detach().Clone()
	b.Tensor.SetGrad(torch.Ones(3))
	u.BeforeBackward(0.1)
	a.Tensor.Sum(torch.DefaultDType).Backward()
	u.Step(0.1)
	assert.True(t, before.SubScalar(0.1).Equal(b.Tensor.Detach()), "one step of SGD along ones")
}
