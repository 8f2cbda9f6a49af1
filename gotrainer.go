// Package gotrainer is the root of a library that trains PyTorch models in Go. It has nothing to
// call; start at one of these:
//
//   - trainer runs the loop: epochs, accumulation, schedules, evaluation, checkpoints, resume. It
//     knows no tensors.
//   - trainer/engine joins the loop to a model: forward, loss, backward, optimizer, mixed
//     precision.
//   - torch has the tensors; nn, optim, amp and dist are PyTorch's packages of these names.
//   - data, text, vision, metrics, safetensors, hub and checkpoint are pure Go and useful without
//     libtorch.
//   - examples holds whole programs, from a bare loop to fine-tuning BERT.
//
// # The native part
//
// Tensors are computed by libtorch, PyTorch's C++ library, through libcgotorch, a thin C shim. Both
// are opened when a program first needs a tensor, so building needs neither. One command installs
// them for the current user:
//
//	go run github.com/gotrainer/gotrainer/cmd/gotrainer@latest install
//
// In a checkout it is "make setup".
package gotrainer

import "embed"

// Native holds the install script and the shim's sources, under their paths in this repository. The
// gotrainer command installs from them, so that it works for those who have the module and no
// checkout.
//
// It stands here because an embed pattern cannot reach a parent folder, and because C++ files must
// not be beside Go files: go build would compile them.
//
//go:embed scripts/install_libtorch.sh scripts/libtorch_fetch.sh scripts/unpack.py scripts/libtorch.sums
//go:embed cgotorch/*.h cgotorch/src
var Native embed.FS
