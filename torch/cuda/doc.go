// Package cuda is what a program wants to know of its GPUs and to decide for them: torch.cuda and
// torch.backends of Python.
//
// Questions about a GPU return an error where there is none, a sentence that says why: see
// [torch.CheckDevice]. What needs a GPU in the middle of a computation (streams, events, [On],
// [Synchronize]) panics with a *torch.Error, as operators do. The settings in settings.go can be
// made and read on every machine; some of them count on a CPU too, as they say.
//
// libtorch keeps the current GPU and the current stream for each thread of the operating system.
// They are therefore closures, which pin their goroutine while they run and put back what was
// before: [On], [Stream.Run]. Settings hold for the whole process, and are not to be changed while
// other goroutines compute.
package cuda
