package engine_test

import (
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// PyTorch clips groups of equal dtype one after the other, in the order of its hash table; there is
// a single norm over all of them.
func TestClippingSeesParametersOfAllDtypes(t *testing.T) {
	testenv.RequireTorch(t)
	var params []torch.Tensor
	square := 0.0
	for i, d := range []torch.DType{torch.Float32, torch.Float64, torch.BFloat16, torch.Float32} {
		p := torch.TensorOptions{DType: d}.Ones(3).RequiresGrad()
		p.SetGrad(torch.TensorOptions{DType: d}.Full(float64(i+1), 3))
		if own := math.Sqrt(3) * float64(i+1); d == torch.BFloat16 {
			square += 5.1875 * 5.1875 // sqrt(27) in bfloat16, the dtype of a bfloat16 tensor's norm
		} else {
			square += own * own
		}
		params = append(params, p)
	}
	want := math.Sqrt(square) // PyTorch 2.11 says 9.4821
	norm := torch.NewList(params...).ClipGradNorm(0.5, 2)
	if got := norm.Item(); math.Abs(got-want) > 1e-6*want || norm.DType() != torch.Float64 {
		t.Errorf("the norm is %v in %s, want %v in float64", got, norm.DType(), want)
	}
	for i, p := range params {
		g := p.Grad()
		if got, want := g.ToDType(torch.Float64).Sum(torch.DefaultDType).Item(),
			3*float64(i+1)*0.5/want; g.DType() != p.DType() || math.Abs(got-want) > 0.01*want {
			t.Errorf("gradient %d sums to %v in %s, want %v in %s", i, got, g.DType(), want, p.DType())
		}
	}
}
