// Package cuda has information about GPUs and settings for them: torch.cuda and torch.backends of
// Python.
//
// Functions that ask about a GPU return an error if there is none, which says why: see
// [torch.CheckDevice]. Functions that need a GPU in the middle of a computation (streams, events,
// [On], [Synchronize]) panic with a *torch.Error, as operators do. The settings in settings.go can
// be made and read on every machine; some of them also affect the CPU, as they say.
//
// libtorch keeps the current GPU and the current stream for each thread of the operating system.
// Functions that change them therefore take a function to run, pin their goroutine meanwhile, and
// then restore the previous ones: [On], [Stream.Run]. Settings apply to the whole process, and must
// not be changed while other goroutines compute.
package cuda
