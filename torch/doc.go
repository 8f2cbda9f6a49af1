// Package torch gives Go the tensors of PyTorch: the same operators, autograd, random streams and numbers, from the same library.
//
//	w := torch.Randn(3, 2).RequiresGrad()
//	x := torch.From([]float32{1, 2, 3, 4}, 2, 2)
//	loss := x.Linear(w, torch.Tensor{}).Square().Mean(0)
//	loss.Backward()
//	fmt.Println(w.Grad())
//
// # Names
//
// Methods and functions have PyTorch's names in Go's case; a trailing underscore changes its receiver, as there. A form that takes
// a number says so (AddScalar), a form along a dimension too (SumDim). Operators without a method are reached by [Call]:
// Call("aten::erfinv", x). Sizes and dimensions are int64; negative dimensions count from the end.
//
// # Errors
//
// A wrong shape or dtype is a mistake in the program: the operator panics with [*Error], which names the
// operator, its arguments' shapes and libtorch's reason. [Try] turns that panic, and only that, into an error.
// Whatever touches files or settings returns an error.
//
// # Memory
//
// A tensor holds memory outside of Go's heap. [Scope] frees all tensors that were made inside it when it ends,
// but those that were kept with [Tensor.Keep]; loops use one scope per step. Tensors made outside of any scope
// are freed by the garbage collector, or at once by [Tensor.Free]. What autograd needs lives as long as it needs it. Using
// a freed tensor panics with a sentence that says so.
//
// # Goroutines
//
// Tensors may be read by many goroutines at a time. Grad mode, inference mode, autocast and scopes belong to an OS thread
// in libtorch; they are therefore closures here ([NoGrad], [Scope], ...), pin their goroutine while they run, do not
// reach into goroutines started inside, and end properly when the closure panics.
package torch
