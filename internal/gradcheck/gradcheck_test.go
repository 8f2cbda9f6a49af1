package gradcheck_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/gradcheck"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func TestWrongGradientsAreFound(t *testing.T) {
	testenv.RequireTorch(t)
	double := torch.TensorOptions{DType: torch.Float64}
	x, w := double.Randn(3, 4).RequiresGrad(), double.Randn(4).RequiresGrad()
	list := func(ts ...torch.Tensor) []torch.Tensor { return ts }
	tests := map[string]struct {
		f    func() []torch.Tensor
		want string // in the error; empty: none
	}{
		"a right gradient passes": {func() []torch.Tensor { return list(x.Mul(w).Tanh(), x.Exp()) },
			""},
		"dropout drops the same every time": {func() []torch.Tensor {
			return list(x.Dropout(0.5,
				true).Mul(w))
		}, ""},
		"an input that is not used passes": {func() []torch.Tensor { return list(x.Square()) }, ""},
		"a gradient that forgets a path is found": {func() []torch.Tensor { return list(x.Mul(w).Mul(x.Detach())) },
			"of x: the gradient is"},
		"a gradient that is missing is found": {func() []torch.Tensor { return list(x.Mul(w.Detach())) },
			"of w: the gradient is 0, but finite differences"},
		"outputs without any history are a mistake": {func() []torch.Tensor { return list(x.Detach()) },
			"no output depends on"},
		"a mistake in f is its error": {func() []torch.Tensor { return list(x.MatMul(w.Unsqueeze(0))) },
			"MatMul"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := gradcheck.Check(test.f, []torch.Named{{Name: "x", Tensor: x}, {Name: "w", Tensor: w}},
				gradcheck.Options{})
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if err := gradcheck.Check(nil, []torch.Named{{Name: "x", Tensor: torch.Zeros(2).RequiresGrad()}},
		gradcheck.Options{}); err == nil {
		t.Error("float32 was accepted")
	}
}
