//go:build !cgo

package cgotorch

// Without cgo, libtorch cannot be called. The undefined name tells the reader of the compiler's
// error what to do.
var _ = tensors_need_cgo__install_gcc_or_clang__or_set_CGO_ENABLED_to_1
