package torch_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// The benchmarks measure the overhead of the wrapper, with kernels that do almost nothing, on one
// thread. In a scope with many operators, such as a training step, the scope's own cost is
// negligible.

// inScopes runs f b.N times, with a thousand calls in each scope.
func inScopes(b *testing.B, f func()) {
	b.ReportAllocs()
	b.ResetTimer()
	for n := b.N; n > 0; n -= 1000 {
		torch.Scope(func() {
			for range min(n, 1000) {
				f()
			}
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	testenv.RequireTorch(b)
	x, y := torch.Ones(16), torch.Full(0.5, 16)
	torch.NoGrad(func() { inScopes(b, func() { x.Add(y) }) })
}

func BenchmarkAddWithoutScope(b *testing.B) {
	testenv.RequireTorch(b)
	x, y := torch.Ones(16), torch.Full(0.5, 16)
	b.ReportAllocs()
	for b.Loop() {
		x.Add(y).Free()
	}
}

func BenchmarkAddForTheGarbageCollector(b *testing.B) {
	testenv.RequireTorch(b)
	x, y := torch.Ones(16), torch.Full(0.5, 16)
	b.ReportAllocs()
	for b.Loop() {
		x.Add(y)
	}
}

func BenchmarkAddInPlace(b *testing.B) {
	testenv.RequireTorch(b)
	x, y := torch.Zeros(16), torch.Full(0.5, 16)
	b.ReportAllocs()
	for b.Loop() {
		x.Add_(y)
	}
}

func BenchmarkAddByCall(b *testing.B) {
	testenv.RequireTorch(b)
	x, y := torch.Ones(16), torch.Full(0.5, 16)
	inScopes(b, func() { torch.Call("aten::add.Tensor", x, y) })
}

func BenchmarkLinear(b *testing.B) {
	testenv.RequireTorch(b)
	x, w, bias := torch.Randn(8, 32), torch.Randn(32, 32), torch.Randn(32)
	torch.InferenceMode(func() { inScopes(b, func() { x.Linear(w, bias) }) })
}

func BenchmarkLinearTrain(b *testing.B) {
	testenv.RequireTorch(b)
	x, w, bias := torch.Randn(8, 32), torch.Randn(32, 32).RequiresGrad(), torch.Randn(32).RequiresGrad()
	params := torch.NewList(w, bias)
	inScopes(b, func() {
		params.ZeroGrad(false)
		x.Linear(w, bias).Sum(0).Backward()
	})
}

func BenchmarkScope(b *testing.B) {
	testenv.RequireTorch(b)
	b.ReportAllocs()
	for b.Loop() {
		torch.Scope(func() {})
	}
}

func BenchmarkNoGrad(b *testing.B) {
	testenv.RequireTorch(b)
	b.ReportAllocs()
	for b.Loop() {
		torch.NoGrad(func() {})
	}
}

func BenchmarkShape(b *testing.B) {
	testenv.RequireTorch(b)
	x := torch.Ones(2, 3, 4)
	b.ReportAllocs()
	for b.Loop() {
		x.Shape()
	}
}

func BenchmarkSize(b *testing.B) {
	testenv.RequireTorch(b)
	x := torch.Ones(2, 3, 4)
	b.ReportAllocs()
	for b.Loop() {
		x.Size(1)
	}
}

func BenchmarkItem(b *testing.B) {
	testenv.RequireTorch(b)
	x := torch.Ones(1)
	b.ReportAllocs()
	for b.Loop() {
		x.Item()
	}
}

func BenchmarkFrom(b *testing.B) {
	testenv.RequireTorch(b)
	data := make([]float32, 1024)
	b.SetBytes(4096)
	inScopes(b, func() { torch.From(data, 32, 32) })
}

func BenchmarkValues(b *testing.B) {
	testenv.RequireTorch(b)
	x := torch.Ones(32, 32)
	b.SetBytes(4096)
	b.ReportAllocs()
	for b.Loop() {
		torch.Values[float32](x)
	}
}

func BenchmarkCopyTo(b *testing.B) {
	testenv.RequireTorch(b)
	x, data := torch.Ones(32, 32), make([]float32, 1024)
	b.SetBytes(4096)
	b.ReportAllocs()
	for b.Loop() {
		torch.CopyTo(data, x)
	}
}

func BenchmarkTry(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = torch.Try(func() {})
	}
}

func BenchmarkString(b *testing.B) {
	testenv.RequireTorch(b)
	x := torch.Randn(3, 4)
	b.ReportAllocs()
	for b.Loop() {
		_ = x.String()
	}
}

// The overhead of a backward pass that calls Go code: two thread switches and the closure.
func BenchmarkBackwardThroughAFunction(b *testing.B) {
	testenv.RequireTorch(b)
	x := torch.Ones(16).RequiresGrad()
	identity := torch.Function{
		Forward:  func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{in[0].Clone()} },
		Backward: func(_, _, gradients []torch.Tensor) []torch.Tensor { return gradients },
	}
	for _, c := range []struct {
		name string
		f    func() torch.Tensor
	}{
		{"Clone", func() torch.Tensor { return x.Clone() }},
		{"Function", func() torch.Tensor { return identity.Apply(x)[0] }},
		{"Checkpoint", func() torch.Tensor { return torch.Checkpoint(identity.Forward, x)[0] }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				torch.Scope(func() { c.f().Sum(torch.DefaultDType).Backward() })
			}
		})
	}
}

func BenchmarkMulScalar(b *testing.B) {
	testenv.RequireTorch(b)
	x, factor := torch.Ones(16), 2.0
	inScopes(b, func() {
		factor += 1e-9 // a variable, since boxing a constant would cost nothing
		x.MulScalar(factor)
	})
}
