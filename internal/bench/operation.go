package main

import (
	"time"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// operations are the operators that are timed individually: the number of calls, and a function
// that returns the call. The scope that frees their results is renewed every hundred calls, about
// as often as in training steps.
var operations = map[string]struct {
	steps int
	make  func(operands) (call func(), value func(n int) float64)
}{
	"op_add":          {500_000, addition},
	"op_add_inplace":  {500_000, additionInPlace},
	"op_linear":       {200_000, linear},
	"op_linear_train": {50_000, linearTrained},
}

const (
	operationsTiny  = 2000
	operationsScope = 100
)

// operands are the inputs of the operations.
type operands struct {
	ones, halves    torch.Tensor // 16 of each
	x, weight, bias torch.Tensor // [8, 32], [32, 32], [32]
}

// operation times an operation on few numbers: the overhead of a call.
func operation(o settings) (map[string]any, error) {
	torch.SetThreads(max(1, o.threads))
	operation := operations[o.workload]
	n := operation.steps
	if o.tiny {
		n = operationsTiny
	}
	if o.steps > 0 {
		n = o.steps
	}
	operands, err := newOperands(o)
	if err != nil {
		return nil, err
	}
	call, value := operation.make(operands)
	repeat := func(n int) {
		for done := 0; done < n; done += operationsScope {
			torch.Scope(func() {
				for range min(operationsScope, n-done) {
					call()
				}
			})
		}
	}
	repeat(max(1, n/10)) // the warm-up
	value(1)
	first, begin := sinceStart(), time.Now()
	repeat(n)
	v := value(n)
	seconds := time.Since(begin).Seconds()
	return result{workload: o.workload, steps: n, seconds: seconds, samples: n, firstStep: first, first: round(v, 5),
		last: round(v, 5), threads: torch.Threads(),
	}.line(map[string]any{"ns_per_op": round(1e9*seconds/float64(n), 1), "device": o.device.String()}), nil
}

// operandFile is the file given by -init.
type operandFile struct {
	X      torch.Tensor `buffer:"x"`
	Weight torch.Tensor `buffer:"weight"`
	Bias   torch.Tensor `buffer:"bias"`
}

// newOperands draws the operands from the seed, like PyTorch, or reads the file given by -init.
func newOperands(o settings) (operands, error) {
	on := torch.TensorOptions{Device: o.device}
	torch.ManualSeed(seed)
	f := &operandFile{X: torch.Randn(8, 32)}
	layer := nn.NewLinear(32, 32, nil)
	f.Weight, f.Bias = layer.Weight.Detach(), layer.Bias.Detach()
	if o.init != "" {
		f.X, f.Weight, f.Bias = nn.Buffer(f.X), nn.Buffer(f.Weight), nn.Buffer(f.Bias)
		if _, err := nn.Load(o.init, f, nn.LoadOptions{}); err != nil {
			return operands{}, err
		}
	}
	return operands{ones: on.Ones(16), halves: on.Full(0.5, 16), x: f.X.To(on), weight: f.Weight.To(on),
		bias: f.Bias.To(on)}, nil
}

func addition(v operands) (call func(), value func(n int) float64) {
	return func() { v.ones.Add(v.halves).Free() }, func(int) (sum float64) {
		torch.Scope(func() { sum = v.ones.Add(v.halves).Sum(torch.Float32).Item() })
		return sum
	}
}

func additionInPlace(v operands) (call func(), value func(n int) float64) {
	z := v.ones.MulScalar(0)
	return func() { z.Add_(v.halves) }, func(n int) (each float64) {
		torch.Scope(func() {
			each = z.Select(0, 0).Item() / float64(n)
			z.Zero_()
		})
		return each
	}
}

func linear(v operands) (call func(), value func(n int) float64) {
	return func() { v.x.Linear(v.weight, v.bias).Free() }, func(int) (sum float64) {
		torch.Scope(func() { sum = v.x.Linear(v.weight, v.bias).Sum(torch.Float64).Item() })
		return sum
	}
}

func linearTrained(v operands) (call func(), value func(n int) float64) {
	weight, bias := v.weight.Detach().SetRequiresGrad(true), v.bias.Detach().SetRequiresGrad(true)
	call = func() {
		weight.SetGrad(torch.Tensor{})
		bias.SetGrad(torch.Tensor{})
		v.x.Linear(weight, bias).Sum(torch.Float32).Backward()
	}
	return call, func(int) (sum float64) {
		torch.Scope(func() { sum = weight.Grad().Sum(torch.Float64).Item() })
		return sum
	}
}
