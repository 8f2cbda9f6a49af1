//go:build !cgo

package main

import "errors"

// doctorCommand cannot load libtorch in a program without cgo. Go turns cgo off by itself where
// there is no C compiler; install must run there all the same, to say that one is missing.
type doctorCommand struct{}

// Run is called by kong.
func (*doctorCommand) Run() error {
	return errors.New("this program was built without cgo, so it cannot load libtorch: install a C compiler (gcc or " +
		"clang), set CGO_ENABLED=1 and build it again")
}

// gpus cannot be counted without libtorch.
func gpus() int { return 0 }
