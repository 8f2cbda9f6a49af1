//go:build !linux

package torch

import "runtime"

// FromFile is an error: it needs Linux.
func FromFile(path string, _ int64) (Tensor, error) {
	return Tensor{}, Errorf("FromFile", ErrNotSupported, "files such as %s are mapped on Linux only, and not on %s", path,
		runtime.GOOS)
}
