package nn_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// The overhead of layers over their operators: the product of this Linear costs almost nothing.
func BenchmarkForward(b *testing.B) {
	testenv.RequireTorch(b)
	linear := nn.NewLinear(4, 4, nil)
	chain := nn.Sequential{linear, nn.ReLU{}, linear, nn.ReLU{}, linear}
	lstm := nn.NewLSTM(4, 4, nil)
	x, steps := torch.Ones(1, 4), torch.Ones(1, 1, 4)
	for name, forward := range map[string]func(){
		"operator":   func() { x.Linear(linear.Weight, linear.Bias) },
		"Linear":     func() { linear.Forward(x) },
		"Sequential": func() { chain.Forward(x) },
		"LSTM":       func() { lstm.Forward(steps) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			torch.NoGrad(func() {
				for b.Loop() {
					torch.Scope(forward)
				}
			})
		})
	}
}

// Parameters are listed only once per optimizer or file, but that should not be noticeable either.
func BenchmarkParams(b *testing.B) {
	testenv.RequireTorch(b)
	var model nn.Sequential
	for range 100 {
		model = append(model, nn.NewLinear(1, 1, nil))
	}
	b.ReportAllocs()
	for b.Loop() {
		nn.Params(model)
	}
}
