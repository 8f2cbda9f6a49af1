package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gotrainer/gotrainer/torch"
)

// cases are the measured operations, in the order of the table. peers/opcost.cc and opcost.py use
// the same names.
var cases = []struct{ family, name string }{
	{"elementwise", "add"}, {"elementwise", "mul by a number"}, {"elementwise", "relu"}, {"elementwise", "exp"},
	{"elementwise", "add, 65536"},
	{"reduction", "sum"}, {"reduction", "mean of rows"}, {"reduction", "argmax of rows"},
	{"indexing", "select a row"}, {"indexing", "index_select"}, {"indexing", "gather"},
	{"shape", "view"}, {"shape", "transpose"}, {"shape", "cat of 2"},
	{"matrix product", "mm 8x8"}, {"matrix product", "linear 8x32x32"},
	{"convolution", "conv2d 3x8x8, 4 filters"},
	{"normalisation", "layer_norm"}, {"normalisation", "batch_norm"},
	{"loss", "softmax"}, {"loss", "cross_entropy"},
	{"creation", "zeros"}, {"creation", "randn"},
	{"in place", "add_"}, {"in place", "zero_"},
	{"lists", "_foreach_mul_, 20 tensors"},
	{"by name", "add by name"},
	{"forward and backward", "MLP of 2 layers"},
}

// measureAll prints the times in Go. A hundred calls share a scope, as in a training step.
func measureAll(out io.Writer) error {
	return torch.Try(func() {
		torch.NoGrad(func() { withoutGradients(out) })
		withGradients(out)
	})
}

const perScope = 100

func measure(out io.Writer, name string, f func()) {
	n := perScope
	for ; spent(n, f) < 5e-3; n *= 2 {
	}
	least := math.Inf(1)
	for range 7 {
		least = min(least, spent(n, f)/float64(n))
	}
	fmt.Fprintf(out, "%s\t%.1f\n", name, least*1e9)
}

// spent returns how many seconds n calls take.
func spent(n int, f func()) float64 {
	start := time.Now()
	for ; n > 0; n -= perScope {
		torch.Scope(func() {
			for range min(n, perScope) {
				f()
			}
		})
	}
	return time.Since(start).Seconds()
}

func withoutGradients(out io.Writer) {
	x, y, m, w, b := torch.Randn(16), torch.Randn(16), torch.Randn(8, 32), torch.Randn(32, 32), torch.Randn(32)
	large, i, image, filters := torch.Randn(65536), torch.Arange(8), torch.Randn(1, 3, 8, 8), torch.Randn(4, 3, 3, 3)
	gain, shift, mean, variance := torch.Ones(32), torch.Zeros(32), torch.Zeros(32), torch.Ones(32)
	logits, square, acc := torch.Randn(8, 10), torch.Randn(8, 8), torch.Zeros(16)
	list := make([]torch.Tensor, 20)
	for k := range list {
		list[k] = torch.Randn(16)
	}
	one := []int64{1}
	padded := torch.ConvOptions{Padding: []int64{1}}
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"add", func() { x.Add(y) }},
		{"mul by a number", func() { x.MulScalar(2.0) }},
		{"relu", func() { x.ReLU() }},
		{"exp", func() { x.Exp() }},
		// freed at once, as C++ and Python do: a hundred results of 256 KiB would not fit the cache
		{"add, 65536", func() { large.Add(large).Free() }},
		{"sum", func() { x.Sum(torch.DefaultDType) }},
		{"mean of rows", func() { m.MeanDim(one, false, torch.DefaultDType) }},
		{"argmax of rows", func() { m.ArgMax(1, false) }},
		{"select a row", func() { m.Select(0, 3) }},
		{"index_select", func() { m.IndexSelect(0, i) }},
		{"gather", func() { m.Gather(1, i.View(8, 1)) }},
		{"view", func() { m.View(4, 64) }},
		{"transpose", func() { m.Transpose(0, 1) }},
		{"cat of 2", func() { torch.Cat([]torch.Tensor{m, m}, 0) }},
		{"mm 8x8", func() { square.MM(square) }},
		{"linear 8x32x32", func() { m.Linear(w, b) }},
		{"conv2d 3x8x8, 4 filters", func() { image.Conv2d(filters, torch.Tensor{}, padded) }},
		{"layer_norm", func() { m.LayerNorm([]int64{32}, gain, shift, 1e-5) }},
		{"batch_norm", func() { m.BatchNorm(gain, shift, mean, variance, true, 0.1, 1e-5) }},
		{"softmax", func() { m.Softmax(1, torch.DefaultDType) }},
		{"cross_entropy", func() { logits.CrossEntropyLoss(i, torch.Tensor{}, torch.ReductionMean, -100, 0) }},
		{"zeros", func() { torch.Zeros(16) }},
		{"randn", func() { torch.Randn(16) }},
		{"add_", func() { acc.Add_(y) }},
		{"zero_", func() { acc.Zero_() }},
		{"_foreach_mul_, 20 tensors", func() { torch.Call("aten::_foreach_mul_.Scalar", list, 0.99) }},
		{"add by name", func() { torch.Call("aten::add.Tensor", x, y) }},
	} {
		measure(out, c.name, c.f)
	}
}

func withGradients(out io.Writer) {
	x, y := torch.Randn(8, 32), torch.Randn(8, 1)
	w1, b1 := torch.Randn(32, 32).RequiresGrad(), torch.Zeros(32).RequiresGrad()
	w2, b2 := torch.Randn(1, 32).RequiresGrad(), torch.Zeros(1).RequiresGrad()
	params := torch.NewList(w1, b1, w2, b2)
	measure(out, "MLP of 2 layers", func() {
		params.ZeroGrad(true)
		x.Linear(w1, b1).ReLU().Linear(w2, b2).MSELoss(y, torch.ReductionMean).Backward()
	})
}
