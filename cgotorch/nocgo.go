//go:build !cgo

package cgotorch

// Without cgo there is no way to libtorch, and the compiler says so by this name.
var _ = tensors_need_cgo__install_gcc_or_clang__or_set_CGO_ENABLED_to_1
