package nn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// A part applies its functions to its input and to the product, in this order, and adds the bias
// last.
func TestAPartOfALinear(t *testing.T) {
	testenv.RequireTorch(t)
	l := nn.NewLinear(2, 3, nil)
	model := nn.Sequential{nn.ReLU{}, l}
	torch.NoGrad(func() {
		l.Weight.Fill_(1)
		l.Bias.Fill_(100)
	})
	x := torch.From([]float32{1, 2}, 1, 2)
	compute := func() []float32 { return torch.Values[float32](l.Forward(x).Detach()) }
	require.Equal(t, []float32{103, 103, 103}, compute())
	double := func(t torch.Tensor) torch.Tensor { return t.MulScalar(2) }
	addTen := func(t torch.Tensor) torch.Tensor { return t.AddScalar(10) }
	l.SetPart(&nn.LinearPart{Name: "part 1 of 2 of the output features", Input: addTen})
	assert.Equal(t, []float32{123, 123, 123}, compute())
	l.SetPart(&nn.LinearPart{Name: "part 1 of 2 of the input features", Input: addTen, Output: double})
	assert.Equal(t, []float32{146, 146, 146}, compute())
	assert.Equal(t, []string{"1, part 1 of 2 of the input features"}, nn.LinearParts(model))
	bias := l.Bias
	l.Bias = torch.Tensor{}
	assert.Equal(t, []float32{46, 46, 46}, compute())
	l.Bias = bias
	l.SetPart(nil)
	assert.Equal(t, []float32{103, 103, 103}, compute())
	assert.Empty(t, nn.LinearParts(model))
}

func TestForwardOfAPartLeavesNothingBehind(t *testing.T) {
	testenv.RequireTorch(t)
	l := nn.NewLinear(2, 3, nil)
	l.SetPart(&nn.LinearPart{Input: func(x torch.Tensor) torch.Tensor { return x.MulScalar(2) },
		Output: func(y torch.Tensor) torch.Tensor { return y.AddScalar(1) }})
	torch.Scope(func() {
		x := torch.Ones(1, 2)
		before := testenv.Live()
		l.Forward(x)
		assert.EqualValues(t, 1, torch.Live()-before, "the output")
	})
}
