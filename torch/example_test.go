package torch_test

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// Tensors are made from Go slices and read back into them.
func Example() {
	x := torch.From([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	y := x.MatMul(x.T())
	fmt.Println(y)
	fmt.Println(y.Shape(), y.DType(), torch.Values[float32](y))
	// Output:
	// tensor([[14., 32.],
	//         [32., 77.]])
	// [2 2] float32 [14 32 32 77]
}

// A backward pass adds the gradients of a loss to the leaves that it was computed from.
func ExampleTensor_Backward() {
	w := torch.From([]float32{1, 2, 3}).RequiresGrad()
	loss := w.Square().Sum(torch.DefaultDType)
	fmt.Println(loss)
	loss.Backward()
	fmt.Println(w.Grad())
	// Output:
	// tensor(14., grad_fn=<SumBackward0>)
	// tensor([2., 4., 6.])
}

// Gradients of gradients: the derivative of x³ at 2, twice.
func ExampleGrad() {
	x := torch.ScalarTensor[float32](2).RequiresGrad()
	y := x.PowScalar(3)
	first := torch.Grad([]torch.Tensor{y}, []torch.Tensor{x}, torch.GradOptions{CreateGraph: true})[0]
	second := torch.Grad([]torch.Tensor{first}, []torch.Tensor{x}, torch.GradOptions{})[0]
	fmt.Println(first.Item(), second.Item())
	// Output: 12 12
}

// A loop uses one scope for each step; what must live longer is kept.
func ExampleScope() {
	total := torch.Zeros(1)
	for step := range 3 {
		torch.Scope(func() {
			x := torch.Full(float32(step), 4)
			total.Add_(x.Square().Sum(torch.DefaultDType)) // the temporaries are freed here
		})
	}
	fmt.Println(total.Item())
	total.Free()
	// Output: 20
}

// Keep lets one tensor outlive the scope in which it was made.
func ExampleTensor_Keep() {
	var best, other torch.Tensor
	torch.Scope(func() {
		best, other = torch.Ones(2).Keep(), torch.Ones(2)
	})
	fmt.Println(best)
	fmt.Println(torch.Try(func() { other.Neg() }))
	// Output:
	// tensor([1., 1.])
	// torch: Neg: a tensor was used after it was freed, or after the Scope in which it was made had ended; Keep() lets a tensor outlive its scope
}

// Return frees the intermediates of a function and hands its result to the enclosing scope.
func ExampleReturn() {
	length := func(x torch.Tensor) torch.Tensor {
		return torch.Return(func() torch.Tensor {
			return x.Square().Sum(torch.DefaultDType).Sqrt()
		})
	}
	torch.Scope(func() {
		fmt.Println(length(torch.From([]float32{3, 4})))
	})
	// Output: tensor(5.)
}

// In NoGrad nothing is recorded.
func ExampleNoGrad() {
	w := torch.Ones(2).RequiresGrad()
	torch.NoGrad(func() {
		fmt.Println(w.MulScalar(2).NeedsGrad(), torch.IsGradEnabled())
	})
	fmt.Println(w.MulScalar(2).NeedsGrad(), torch.IsGradEnabled())
	// Output:
	// false false
	// true true
}

// Call reaches every operator of libtorch by its name.
func ExampleCall() {
	x := torch.From([]float32{0, 0.5, -0.5})
	fmt.Println(torch.Call("aten::erfinv", x)[0])
	fmt.Println(torch.Schema("aten::erfinv"))
	// Output:
	// tensor([ 0.0000,  0.4769, -0.4769])
	// aten::erfinv(Tensor self) -> Tensor
}

// At is Python's t[...].
func ExampleTensor_At() {
	x := torch.Arange(12).View(3, 4)
	fmt.Println(x.At(1))
	fmt.Println(x.At(torch.All, -1))
	fmt.Println(x.At(torch.RangeFrom(1), torch.RangeStep(0, 4, 2)))
	fmt.Println(x.At(x.GtScalar(9)))
	x.SetAt(torch.ScalarTensor[int64](0), torch.From([]int64{0, 2}))
	fmt.Println(x)
	// Output:
	// tensor([4, 5, 6, 7])
	// tensor([ 3,  7, 11])
	// tensor([[ 4,  6],
	//         [ 8, 10]])
	// tensor([10, 11])
	// tensor([[0, 0, 0, 0],
	//         [4, 5, 6, 7],
	//         [0, 0, 0, 0]])
}

// A generator is a stream of random numbers that can be stopped and continued.
func ExampleGenerator() {
	g := torch.NewGenerator(42)
	o := torch.TensorOptions{Generator: g}
	fmt.Println(o.RandPerm(5))
	state := g.State()
	a := o.Rand(3)
	g.SetState(state)
	fmt.Println(a.Equal(o.Rand(3)))
	// Output:
	// tensor([2, 4, 3, 0, 1])
	// true
}

// Try turns a panic of an operation on tensors into an error.
func ExampleTry() {
	err := torch.Try(func() { torch.Ones(2, 3).MatMul(torch.Ones(4, 5)) })
	fmt.Println(err)
	fmt.Println(errors.Is(err, torch.ErrInvalid))
	// Output:
	// torch: MatMul(float32[2,3], float32[4,5]): mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
	// true
}

// Format prints with other options than PyTorch's usual ones.
func ExampleTensor_Format() {
	x := torch.Linspace(0, 1, 7)
	fmt.Println(x.Format(torch.PrintOptions{Precision: 2}))
	fmt.Println(x.Format(torch.PrintOptions{Threshold: 5, EdgeItems: 2}))
	// Output:
	// tensor([0.00, 0.17, 0.33, 0.50, 0.67, 0.83, 1.00])
	// tensor([0.0000, 0.1667,  ..., 0.8333, 1.0000])
}

// DetectAnomaly finds the operator whose gradient is not a number.
func ExampleDetectAnomaly() {
	x := torch.From([]float32{0, 4}).RequiresGrad()
	// the slope of sqrt at 0 is infinite, and infinity times 0 is not a number
	loss := x.Sqrt().MulScalar(0).Sum(torch.DefaultDType)
	err := torch.Try(func() { torch.DetectAnomaly(func() { loss.Backward() }) })
	fmt.Println(err)
	// Output: torch: Backward(float32[]): Function 'SqrtBackward0' returned nan values in its 0th output.
}

// What is drawn inside ForkRNG, for a picture or a sample to look at, does not change the run
// around it.
func ExampleForkRNG() {
	torch.ManualSeed(1)
	undisturbed := torch.Rand(2)

	torch.ManualSeed(1)
	torch.ForkRNG(func() { torch.Rand(1000) })
	fmt.Println(torch.Rand(2).Equal(undisturbed))
	// Output: true
}
