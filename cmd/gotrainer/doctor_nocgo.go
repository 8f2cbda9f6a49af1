//go:build !cgo

package main

import "errors"

// doctorCommand cannot load libtorch in a program without cgo. Go disables cgo if there is no C
// compiler; the other commands must still work then, so that install can say that a compiler is
// missing.
type doctorCommand struct{}

// Run is called by kong.
func (*doctorCommand) Run() error {
	return errors.New("this program was built without cgo, so it cannot load libtorch: install a C compiler (gcc or " +
		"clang), set CGO_ENABLED=1 and build it again")
}

// gpus returns 0: GPUs cannot be counted without libtorch.
func gpus() int { return 0 }
