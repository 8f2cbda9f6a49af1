// Package cgotorch is the boundary to libtorch: plain calls into libcgotorch, a shim that is opened
// at run time. Use package torch instead; this one translates and decides nothing.
//
// The path of an operator, with the same stem everywhere: torch.Tensor.MatMul (torch/zz_ops.go),
// cgotorch.MatMul (zz_ops.go), ct_MatMul (zz_call.h), ct::MatMul (src/zz_ops.cc), at::_ops::matmul.
// All of it is generated from one line of ops.txt; what libtorch offers otherwise is written by
// hand in ct.h and src/.
//
// Building needs neither libtorch nor a C++ compiler: [Load] opens the shim with dlopen when a
// program first needs it. Until then every other function of this package crashes; package torch
// makes sure that it is called first.
//
// Memory: a [Tensor] owns one reference. Arguments are borrowed during the call, so the caller
// keeps them alive with runtime.KeepAlive. Every function may be called from any thread; scopes,
// grad mode, inference mode and autocast belong to the thread that sets them.
package cgotorch

//go:generate go run ./gen -schemas ${GOTRAINER_SCHEMAS}
