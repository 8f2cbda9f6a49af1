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
// Methods and functions have PyTorch's names in Go's case. As in PyTorch, a trailing underscore
// means that the method changes its receiver. A variant that takes a number says so in its name
// (AddScalar), as does a variant along a dimension (SumDim). [Call] reaches operators without a
// method: Call("aten::erfinv", x). Sizes and dimensions are int64; negative dimensions count from
// the end. Tensors print as they do in Python; [Tensor.Format] has the options.
//
// # Making and reading tensors
//
// [From] copies a Go slice into a tensor, [Values] copies a tensor into a Go slice, and
// [Tensor.Item] reads a single element. [Zeros], [Randn] and the like make float32 tensors on the
// CPU; the methods of [TensorOptions] with the same names choose dtype, device and generator.
// [Tensor.At] and [Tensor.SetAt] are Python's t[...].
//
// # Autograd
//
// A leaf marked with [Tensor.RequiresGrad] accumulates a gradient at each [Tensor.Backward];
// [Tensor.Grad] returns it and [Tensor.SetGrad] replaces it. [Grad] returns gradients without
// accumulating them and, with CreateGraph, gradients of gradients. [NoGrad] and [InferenceMode]
// record nothing. [Tensor.RegisterHook] scales, limits or records gradients on their way.
// [Function] is an operation with its own backward pass, and [Checkpoint] recomputes what it does
// not keep; their Go code runs on the goroutine that calls Backward. [DetectAnomaly] finds where a
// nan comes from.
//
// # Errors
//
// A wrong shape or dtype is a bug in the program: the operator panics with [*Error], which names
// the operator, the shapes of its arguments and libtorch's reason. [Try] turns that panic, and no
// other, into an error. Test its kind with errors.Is(err, [ErrOutOfMemory]) and the like. Whatever
// touches files or settings returns an error. No call with wrong arguments is known to end the
// process.
//
// # Memory
//
// A tensor holds memory outside of Go's heap. When a [Scope] ends, it frees all tensors made inside
// it, except those kept with [Tensor.Keep]; loops use one scope per step. A function that makes
// many tensors for one result runs in [Return]. Tensors made outside of any scope are freed by the
// garbage collector, or at once by [Tensor.Free]. A collection is started when 256 MiB of them are
// waiting, or memory is short. What autograd needs lives as long as autograd needs it.
//
// Using a freed tensor panics with a clear message. Freeing a tensor while another goroutine uses
// it is a data race and may crash the process; [CheckUse] and the race detector find such races.
// [Live] counts the tensors that Go holds.
//
// # Goroutines
//
// Many goroutines may read a tensor at the same time. In libtorch, grad mode, inference mode,
// autocast and scopes belong to an OS thread. Here they are closures ([NoGrad], [Scope], ...): they
// pin their goroutine while they run, do not extend to goroutines started inside, and end properly
// when the closure panics.
//
// Outside of them, a goroutine may move to another thread between two operators, which can change
// the order in which a backward pass adds gradients. Inside a [Scope], the last bits are the same
// each time.
//
// # Random numbers and profiles
//
// [ManualSeed] seeds, [Generator] is a separate stream, and [ForkRNG] isolates what is drawn inside
// it from later draws and from other goroutines. [Profile] records what ran, and for how long, for
// chrome://tracing.
//
// # libtorch
//
// The library is opened at its first use, or by [Load], which returns an error that says where it
// was searched for and how to install it. [BuildInfo] describes it.
package torch
