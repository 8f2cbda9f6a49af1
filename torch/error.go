package torch

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Code says what kind of failure an [*Error] is. Codes are errors themselves, for use with
// errors.Is.
type Code int

// The kinds of failure.
const (
	ErrInvalid      Code = Code(cgotorch.ErrInvalid)      // arguments that do not fit: shapes, dtypes, devices
	ErrOutOfMemory  Code = Code(cgotorch.ErrOutOfMemory)  // no memory, even after freeing everything unused
	ErrIndex        Code = Code(cgotorch.ErrIndex)        // an index or dimension out of range
	ErrType         Code = Code(cgotorch.ErrType)         // an argument of the wrong type
	ErrValue        Code = Code(cgotorch.ErrValue)        // an argument with a value that is not allowed
	ErrNotSupported Code = Code(cgotorch.ErrNotSupported) // libtorch has no such operation for these arguments
	ErrInternal     Code = Code(cgotorch.ErrInternal)     // a failure inside libtorch
	ErrDevice       Code = Code(cgotorch.ErrDevice)       // a GPU failed, and the process must end: see [DeviceFailed]
	ErrFreed        Code = iota + 100                     // use of a tensor that was freed or whose scope has ended
	ErrUndefined                                          // use of the zero Tensor
	ErrNotInstalled                                       // libtorch cannot be loaded
)

// Error makes a Code usable with errors.Is.
func (c Code) Error() string {
	switch c {
	case ErrInvalid:
		return "invalid arguments"
	case ErrOutOfMemory:
		return "out of memory"
	case ErrIndex:
		return "index out of range"
	case ErrType:
		return "wrong type"
	case ErrValue:
		return "value not allowed"
	case ErrNotSupported:
		return "not supported"
	case ErrDevice:
		return "a GPU failed"
	case ErrFreed:
		return "use of a freed tensor"
	case ErrUndefined:
		return "use of an undefined tensor"
	case ErrNotInstalled:
		return "libtorch is not installed"
	}
	return "internal error"
}

// Error is the failure of an operation. It prints as
//
//	torch: MatMul(float32[2,3], float32[4,5]): mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
type Error struct {
	Op   string   // the Go name of the call: "MatMul"
	Args []string // its tensors: "float32[2,3]", "int64[4]@cuda:0"
	Code Code
	Msg  string // the reason; in libtorch's words if libtorch reported it
}

func (e *Error) Error() string {
	if e.Args == nil {
		return fmt.Sprintf("torch: %s: %s", e.Op, e.Msg)
	}
	return fmt.Sprintf("torch: %s(%s): %s", e.Op, strings.Join(e.Args, ", "), e.Msg)
}

// Unwrap returns the code, so that errors.Is(err, torch.ErrOutOfMemory) works.
func (e *Error) Unwrap() error { return e.Code }

// TorchError marks the type for packages that must not import this package.
func (e *Error) TorchError() {}

// Try runs f and returns the [*Error] that it panicked with, if any. Every other panic propagates.
func Try(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	f()
	return nil
}

// Errorf makes an error about a call of the function op, such as "nn.NewLinear". Functions panic
// with it for mistakes in the program, as operations do; see [Try].
func Errorf(op string, code Code, format string, args ...any) *Error {
	return &Error{Op: op, Code: code, Msg: fmt.Sprintf(format, args...)}
}

func invalid(op, format string, args ...any) *Error { return Errorf(op, ErrInvalid, format, args...) }

// fail panics with libtorch's error about a call of op with the tensors args.
func fail(op string, code cgotorch.Code, args ...Tensor) {
	e := failure(op, code)
	for _, t := range args {
		e.Args = append(e.Args, t.describe())
	}
	runtime.KeepAlive(args)
	if e.Code == ErrOutOfMemory {
		e.Msg += fmt.Sprintf(" (%d tensors are alive; %d of them, %s, wait for the garbage collector)",
			Live(), collected.count.Load(), byteCount(collected.bytes.Load()))
	}
	panic(e)
}

// check panics if a call that has no tensor arguments failed.
func check(op string, code cgotorch.Code) {
	if code < 0 {
		panic(failure(op, code))
	}
}

// CheckCode panics with an [*Error] if a call of cgotorch failed. It is for packages of this
// module that call cgotorch themselves.
func CheckCode(op string, code cgotorch.Code) { check(op, code) }

// failure converts a failed code into an error. After a GPU has failed, CUDA's libraries may report
// only that they cannot allocate their handles, so an out-of-memory error counts as a device error
// then.
func failure(op string, code cgotorch.Code) *Error {
	kind, message := code.Take()
	e := &Error{Op: op, Code: Code(kind), Msg: tidy(message)}
	if e.Code == ErrDevice || e.Code == ErrOutOfMemory && DeviceFailed() {
		e.Code = ErrDevice
		e.Msg += brokenContext
	}
	return e
}

const brokenContext = " (the GPU's context is broken: what is there is lost, and this process must end. Kernels " +
	"run after their calls, so an earlier one may have failed: CUDA_LAUNCH_BLOCKING=1 in the environment shows which)"

// DeviceFailed reports whether a GPU has failed in this process: an illegal access, a failed
// assertion in a kernel, a hardware fault. CUDA then refuses all further work from the process.
// From then on no memory is freed, since that needs CUDA, and [EmptyCache] does nothing. All the
// process can do is exit; package run does so with a dedicated exit code.
func DeviceFailed() bool { return ready.Load() && cgotorch.DeviceFailed() }

// tidy removes parts of libtorch's messages that do not help here: advice for developers of
// libtorch about a missing kernel, with a list of about a hundred lines of where each kernel was
// registered, and advice about CUDA errors that brokenContext replaces.
func tidy(message string) string {
	message, _, _ = strings.Cut(message, " This could be because the operator doesn't exist for this backend")
	message, _, _ = strings.Cut(message, "\nCUDA kernel errors might be asynchronously reported")
	return strings.TrimSpace(message)
}

func byteCount(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// OutOfMemory reports whether the operation ran out of memory. It is for packages that must not
// import this package.
func (e *Error) OutOfMemory() bool { return e.Code == ErrOutOfMemory }

// DeviceFailed reports whether a GPU has failed. It is for packages that must not import this
// package.
func (e *Error) DeviceFailed() bool { return e.Code == ErrDevice }
