package torch

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// SlowBFloat16 returns the reason why bfloat16, for instance under autocast, is slower than
// float32 on this CPU, or the empty string if none is known. On CPUs without AVX-512, which
// includes most desktop processors, or without ARM's BF16 extension, oneDNN has no bfloat16
// kernels, and libtorch's own take many times as long. See docs/performance.md.
func SlowBFloat16() string {
	load("SlowBFloat16")
	kernels := bfloat16Kernels.Load()
	if kernels == nil {
		kernels = new(CallAny("mkldnn::_is_mkldnn_bf16_supported")[0] == true)
		bfloat16Kernels.Store(kernels)
	}
	if runtime.GOARCH != "amd64" {
		return slowBFloat16OnARM(*kernels)
	}
	x := cpu.X86
	return slowBFloat16(*kernels, x.HasAVX512, x.HasAVX512BF16 || x.HasAMXBF16)
}

// bfloat16Kernels caches whether oneDNN supports bfloat16 on this CPU; nil means not yet queried.
var bfloat16Kernels atomic.Pointer[bool]

// slowBFloat16 gives the reason for an x86-64 CPU. kernels says whether oneDNN has bfloat16 kernels
// for it, avx512 whether it has AVX-512 (the newer bfloat16 kernels for AVX2 need instructions of
// their own), and instructions whether it has bfloat16 instructions.
func slowBFloat16(kernels, avx512, instructions bool) string {
	switch {
	case !kernels:
		return "bfloat16 takes 9 to 26 times as long as float32 here: oneDNN has kernels for it only with AVX-512, and " +
			"reproducible numbers hold it to AVX2"
	case avx512 && !instructions:
		return "bfloat16 takes 2 to 3 times as long as float32 on this CPU, which has no instructions for it " +
			"(AVX-512 BF16, AMX)"
	}
	return ""
}

// slowBFloat16OnARM is slowBFloat16 for ARM CPUs. How much slower they are has not been measured.
func slowBFloat16OnARM(kernels bool) string {
	if kernels {
		return ""
	}
	return "bfloat16 is slower than float32 on this CPU, which has no instructions for it (BF16, of ARMv8.6)"
}
