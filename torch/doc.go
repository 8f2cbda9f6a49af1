// Package torch gives Go the tensors of PyTorch: the same operators, autograd, random streams and
// numbers, from the same library.
//
//	w := torch.Randn(3, 2).RequiresGrad()
//	x := torch.From([]float32{1, 2, 3, 4}, 2, 2)
//	loss := x.Linear(w, torch.Tensor{}).Square().Mean(torch.DefaultDType)
//	loss.Backward()
//	fmt.Println(w.Grad())
//
// # Names
//
// Methods and functions have PyTorch's names in Go's case; a trailing underscore changes its
// receiver, as there. A form that takes a number says so (AddScalar), a form along a dimension too
// (SumDim). Operators without a method are reached by [Call]: Call("aten::erfinv", x). Sizes and
// dimensions are int64; negative dimensions count from the end. Tensors print as they do in Python;
// [Tensor.Format] has the options.
//
// # Making and reading tensors
//
// [From] copies a Go slice into a tensor, [Values] a tensor into a Go slice; [Tensor.Item] reads a
// single element. [Zeros], [Randn] and the like make float32 tensors on the CPU; the same methods
// of [TensorOptions] choose dtype, device and generator. [Tensor.At] and [Tensor.SetAt] are
// Python's t[...].
//
// # Autograd
//
// A leaf that [Tensor.RequiresGrad] gathers a gradient at each [Tensor.Backward], which
// [Tensor.Grad] returns and [Tensor.SetGrad] replaces. [Grad] returns gradients without gathering
// them, and with CreateGraph gradients of gradients. [NoGrad] and [InferenceMode] record nothing.
// [Tensor.RegisterHook] scales, limits or records gradients on their way. [Function] is an
// operation with your own backward, [Checkpoint] computes again what it does not keep; their
// Go code runs on the goroutine that calls Backward. [DetectAnomaly] finds where a nan comes from.
//
// # Errors
//
// A wrong shape or dtype is a mistake in the program: the operator panics with [*Error], which
// names the operator, its arguments' shapes and libtorch's reason. [Try] turns that panic, and only
// that, into an error. Its kind is found by errors.Is(err, [ErrOutOfMemory]) and the like. Whatever
// touches files or settings returns an error. No call with wrong arguments is known to end the
// process.
//
// # Memory
//
// A tensor holds memory outside of Go's heap. [Scope] frees all tensors that were made inside it
// when it ends, except the ones that were kept with [Tensor.Keep]; loops use one scope per step. A
// function that makes many tensors for one result runs in [Return]. Tensors made outside of any
// scope are freed by the garbage collector, or at once by [Tensor.Free]; when 256 MiB of them wait,
// or memory is short, they are collected. What autograd needs lives as long as it needs it. Using a
// freed tensor panics with a clear message; freeing one that another goroutine is using at
// that moment is a data race and may crash the process, which [CheckUse] and the race detector
// find. [Live] counts the tensors that Go holds.
//
// # Goroutines
//
// Tensors may be read by many goroutines at a time. Grad mode, inference mode, autocast and scopes
// belong to an OS thread in libtorch; they are therefore closures here ([NoGrad], [Scope], ...),
// pin their goroutine while they run, do not reach into goroutines started inside, and end properly
// when the closure panics. Outside of them a goroutine may change its thread between two operators,
// and with it the order in which a backward pass adds gradients; inside a [Scope] the last bits are
// the same each time.
//
// # Random numbers and profiles
//
// [ManualSeed] seeds, [Generator] is a separate stream, [ForkRNG] keeps what is drawn inside it
// apart from what is drawn after it and in other goroutines. [Profile] writes what ran, and how
// long, for chrome://tracing.
//
// # libtorch
//
// The library is opened at the first use, or by [Load], which returns an error that says what was
// looked for and how to install it. [BuildInfo] describes it.
package torch
