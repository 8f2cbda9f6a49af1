package functional

import (
	"github.com/gotrainer/gotrainer/nn/internal/dims"
	"github.com/gotrainer/gotrainer/torch"
)

// call runs an operator and returns its first result; further ones are freed.
func call(op string, args ...any) torch.Tensor {
	out := torch.Call(op, args...)
	for _, t := range out[1:] {
		t.Free()
	}
	return out[0]
}

// call2 runs an operator that returns two tensors.
func call2(op string, args ...any) (torch.Tensor, torch.Tensor) {
	out := torch.Call(op, args...)
	return out[0], out[1]
}

// optionalInt is None where the zero value of an option means that it is not set.
func optionalInt(v int64) any {
	if v == 0 {
		return nil
	}
	return v
}

// spread gives every dimension its number: a single one stands for all, none means the default.
func spread(op, name string, d []int64, standard int64, n int) []int64 {
	return dims.Spread("functional."+op, name, d, standard, n)
}

// window is [spread] for a kernel's size, which has no default.
func window(op string, kernel []int64, n int) []int64 {
	return dims.Required("functional."+op, "the kernel", kernel, n)
}

// checkProbability refuses what is no probability, for operators whose own message does not name
// the function.
func checkProbability(op string, p float64) {
	if !(p >= 0 && p <= 1) {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "p is a probability and must be between 0 and 1, found %g",
			p))
	}
}
