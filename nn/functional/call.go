package functional

import (
	"github.com/gotrainer/gotrainer/nn/internal/dims"
	"github.com/gotrainer/gotrainer/torch"
)

// call runs an operator and returns its first result; further results are freed.
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

// optionalInt returns v, or None if v is 0, which means that the option is not set.
func optionalInt(v int64) any {
	if v == 0 {
		return nil
	}
	return v
}

// spread returns n numbers: a single number in d applies to all dimensions, and an empty d means
// the default.
func spread(op, name string, d []int64, standard int64, n int) []int64 {
	return dims.Spread("functional."+op, name, d, standard, n)
}

// window is like [spread] for the size of a kernel, which has no default.
func window(op string, kernel []int64, n int) []int64 {
	return dims.Required("functional."+op, "the kernel", kernel, n)
}

// checkProbability panics if p is not a probability. It is for operators whose own error would not
// name the function.
func checkProbability(op string, p float64) {
	if !(p >= 0 && p <= 1) {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "p is a probability and must be between 0 and 1, found %g",
			p))
	}
}
