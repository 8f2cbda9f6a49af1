package fingerprint

import (
	"bytes"
	"runtime"
	"sync"

	"github.com/gotrainer/gotrainer/torch"
)

// Here returns the fingerprint of this process, which is computed once. libtorch must be loaded.
var Here = sync.OnceValue(func() Fingerprint {
	f := Fingerprint{}
	done := make(chan struct{})
	go func() { // in a separate thread: the caller's may use autocast or have gradients disabled
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		torch.Scope(func() {
			for name, results := range operations() {
				var raw bytes.Buffer
				for _, t := range results {
					raw.Write(t.Contiguous().Bytes())
				}
				f[name] = short(raw.Bytes())
			}
		})
	}()
	<-done
	return f
})

// inputs generates numbers that are exact in float32, and therefore the same in every language.
type inputs uint32

// between returns numbers in [-2, 2).
func (in *inputs) between(shape ...int64) torch.Tensor {
	return in.draw(shape, func(n uint32) float32 { return float32(n)/(1<<22) - 2 })
}

// positive returns numbers in (0, 16].
func (in *inputs) positive(shape ...int64) torch.Tensor {
	return in.draw(shape, func(n uint32) float32 { return float32(n+1) / (1 << 20) })
}

func (in *inputs) draw(shape []int64, value func(uint32) float32) torch.Tensor {
	n := int64(1)
	for _, size := range shape {
		n *= size
	}
	values := make([]float32, n)
	for i := range values {
		*in = *in*1664525 + 1013904223
		values[i] = value(uint32(*in) >> 8)
	}
	return torch.From(values, shape...)
}

// operations computes one operation of each kind for which libtorch, MKL or oneDNN have several
// code paths. They draw their inputs in the same order as scripts/golden/pins.py.
func operations() map[string][]torch.Tensor {
	in := inputs(11)
	x, p := in.between(20011), in.positive(20011)
	single := func(name string, x torch.Tensor) torch.Tensor { return torch.Call("aten::"+name, x)[0] }
	results := map[string][]torch.Tensor{
		"sqrt": {single("sqrt", p)}, "rsqrt": {single("rsqrt", p)}, "log": {single("log", p)},
		"exp": {single("exp", x)}, "erf": {single("erf", x)}, "tanh": {single("tanh", x)},
		"sigmoid": {single("sigmoid", x)}, "sin": {single("sin", x)},
		"gelu": torch.Call("aten::gelu", x), "pow": torch.Call("aten::pow.Tensor_Scalar", p, 0.3),
	}
	x64, p64 := x.ToDType(torch.Float64), p.ToDType(torch.Float64)
	results["float64"] = []torch.Tensor{single("sqrt", p64), single("log", p64), single("exp", x64),
		single("tanh", x64), single("sum", x64)}

	long := in.between(300007)
	results["sum"] = []torch.Tensor{single("sum", long), torch.Call("aten::linalg_vector_norm", long)[0]}

	rows := in.between(64, 257)
	weight, bias := in.between(257), in.between(257)
	results["softmax"] = []torch.Tensor{torch.Call("aten::softmax.int", rows, -1)[0],
		torch.Call("aten::log_softmax.int", rows, -1)[0]}
	results["layer_norm"] = torch.Call("aten::layer_norm", rows, []int64{257}, weight, bias)

	a, b, v := in.between(61, 127), in.between(127, 93), in.between(127)
	results["gemm"] = []torch.Tensor{torch.Call("aten::mm", a, b)[0],
		torch.Call("aten::mm", a.ToDType(torch.Float64), b.ToDType(torch.Float64))[0]}
	results["gemv"] = torch.Call("aten::mv", a, v)
	results["bmm"] = torch.Call("aten::bmm", in.between(6, 17, 33), in.between(6, 33, 19))
	half := []torch.Tensor{a.ToDType(torch.BFloat16), b.ToDType(torch.BFloat16)}
	results["bfloat16"] = torch.Call("aten::mm", half[0], half[1])

	images, kernels := in.between(3, 5, 17, 19).RequiresGrad(), in.between(8, 5, 3, 3).RequiresGrad()
	y := torch.Call("aten::conv2d", images, kernels, torch.Tensor{}, []int64{1, 1}, []int64{1, 1})[0]
	results["conv2d"] = withGradients(y, images, kernels)

	scale, shift := in.between(8).RequiresGrad(), in.between(8).RequiresGrad()
	features := in.between(4, 8, 11, 13).RequiresGrad()
	y = torch.Call("aten::batch_norm", features, scale, shift, torch.Tensor{}, torch.Tensor{}, true, 0.1, 1e-5, true)[0]
	results["batch_norm"] = withGradients(y, features, scale, shift)

	steps, zeros := in.between(7, 3, 16).RequiresGrad(), torch.Zeros(1, 3, 24)
	parameters := []torch.Tensor{in.between(96, 16), in.between(96, 24), in.between(96), in.between(96)}
	for i, p := range parameters {
		parameters[i] = torch.Call("aten::mul.Scalar", p, 0.25)[0].Detach().RequiresGrad()
	}
	y = torch.Call("aten::lstm.input", steps, []torch.Tensor{zeros, zeros}, parameters, true, 1, 0.0, true, false,
		false)[0]
	results["lstm"] = withGradients(y, append([]torch.Tensor{steps}, parameters...)...)
	return results
}

// withGradients returns y and the gradients of the sum of its squares.
func withGradients(y torch.Tensor, of ...torch.Tensor) []torch.Tensor {
	torch.Call("aten::sum", torch.Call("aten::mul.Tensor", y, y)[0])[0].Backward()
	results := []torch.Tensor{y.Detach()}
	for _, t := range of {
		results = append(results, t.Grad())
	}
	return results
}
