package cuda

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// CuDNN holds the settings of cuDNN: torch.backends.cudnn. They apply to the whole process.
type CuDNN struct {
	Enabled        bool // use cuDNN for convolutions, recurrent layers and CTC; otherwise libtorch's own kernels
	Benchmark      bool // find the fastest kernel for each new shape by trying them
	BenchmarkLimit int  // how many kernels to try; zero: all
	Deterministic  bool // use only kernels whose results are the same each time
	TF32           bool // compute float32 in TF32, see [torch.SetFloat32MatmulPrecision]
}

// CuDNNSettings returns the current settings. In a new process they are: enabled, limit 10, TF32.
// It panics if convolutions and recurrent layers were given different precisions with
// [SetFloat32Precision].
func CuDNNSettings() CuDNN {
	return CuDNN{Enabled: read(cgotorch.CuDNNEnabled) != 0, Benchmark: read(cgotorch.CuDNNBenchmark) != 0,
		BenchmarkLimit: int(read(cgotorch.CuDNNBenchmarkLimit)),
		Deterministic:  read(cgotorch.CuDNNDeterministic) != 0, TF32: read(cgotorch.CuDNNTF32) != 0}
}

// SetCuDNN changes the settings. It panics if BenchmarkLimit is negative.
func SetCuDNN(c CuDNN) {
	if c.BenchmarkLimit < 0 {
		panic(torch.Errorf("cuda.SetCuDNN", torch.ErrValue, "BenchmarkLimit is %d; want a number of kernels, or 0 for all",
			c.BenchmarkLimit))
	}
	set(cgotorch.CuDNNEnabled, c.Enabled)
	set(cgotorch.CuDNNBenchmark, c.Benchmark)
	setNumber(cgotorch.CuDNNBenchmarkLimit, c.BenchmarkLimit)
	set(cgotorch.CuDNNDeterministic, c.Deterministic)
	set(cgotorch.CuDNNTF32, c.TF32)
}

// Attention says which kernels scaled dot-product attention may use: torch.backends.cuda's
// enable_flash_sdp and its siblings. libtorch uses the first one that supports the arguments, in
// the order of the fields. With cuDNN 9.15 or later, GPUs of capability 9.0 and 10.0 try cuDNN
// first, unless TORCH_CUDNN_SDPA_DEPRIORITIZED=1 is in the environment. cuDNN builds a plan for
// each new shape. Flash and Math apply to the CPU too. The settings apply to the whole process.
type Attention struct{ Flash, Efficient, Math, CuDNN bool }

// AttentionKernels returns the kernels that are allowed. In a new process all are.
func AttentionKernels() Attention {
	return Attention{read(cgotorch.FlashAttention) != 0, read(cgotorch.EfficientAttention) != 0,
		read(cgotorch.MathAttention) != 0, read(cgotorch.CuDNNAttention) != 0}
}

// SetAttentionKernels sets which kernels are allowed. It panics if none is.
func SetAttentionKernels(a Attention) {
	if a == (Attention{}) {
		panic(torch.Errorf("cuda.SetAttentionKernels", torch.ErrValue, "no kernel is allowed; want at least one, such as "+
			"Math, which serves all arguments"))
	}
	set(cgotorch.FlashAttention, a.Flash)
	set(cgotorch.EfficientAttention, a.Efficient)
	set(cgotorch.MathAttention, a.Math)
	set(cgotorch.CuDNNAttention, a.CuDNN)
}

// String lists the allowed kernels in libtorch's order: "flash, efficient, math, cuDNN".
func (a Attention) String() string {
	var names []string
	for _, k := range []struct {
		on   bool
		name string
	}{{a.Flash, "flash"}, {a.Efficient, "efficient"}, {a.Math, "math"}, {a.CuDNN, "cuDNN"}} {
		if k.on {
			names = append(names, k.name)
		}
	}
	return strings.Join(names, ", ")
}

// SetTF32 allows or forbids TF32, which has 10 bits of mantissa instead of 23, for float32 matrix
// products (cuBLAS), convolutions and recurrent layers (cuDNN) alike:
// torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32. libtorch's default is
// neither: products in float32, convolutions in TF32. NVIDIA_TF32_OVERRIDE=0 in the environment
// forbids TF32 whatever is set here.
func SetTF32(on bool) {
	set(cgotorch.CuBLASTF32, on)
	set(cgotorch.CuDNNTF32, on)
}

// TF32 reports whether matrix products and convolutions may be computed in TF32.
func TF32() (products, convolutions bool) {
	return read(cgotorch.CuBLASTF32) != 0, read(cgotorch.CuDNNTF32) != 0
}

// The backends, operators and precisions that [SetFloat32Precision] accepts.
var (
	backends   = []string{"generic", "cuda", "mkldnn"}
	operators  = []string{"all", "conv", "rnn", "matmul"}
	precisions = []string{"none", "ieee", "tf32", "bf16"}
)

// Float32Precision returns how a backend ("generic", "cuda", "mkldnn") computes float32 in an
// operator ("all", "conv", "rnn", "matmul"): torch.backends.cudnn.conv.fp32_precision and its
// siblings. The result is "ieee", "tf32", "bf16" or, if nothing was set, "none".
func Float32Precision(backend, operator string) string {
	const op = "Float32Precision"
	checkPrecision(op, backend, operator)
	precision, code := cgotorch.Float32Precision(backend, operator)
	check(op, code)
	return precision
}

// SetFloat32Precision sets how a backend computes float32 in an operator. "none" falls back to the
// backend's "all", and that to "generic". It is finer than [SetTF32]; after it, the functions that
// read the coarser settings may have no answer. It panics for names that do not exist, and for
// "bf16" on "cuda".
func SetFloat32Precision(backend, operator, precision string) {
	const op = "SetFloat32Precision"
	checkPrecision(op, backend, operator)
	if !slices.Contains(precisions, precision) || backend == "cuda" && precision == "bf16" {
		panic(wrongName(op, "precision", precision, precisions))
	}
	check(op, cgotorch.SetFloat32PrecisionOf(backend, operator, precision))
}

func checkPrecision(op, backend, operator string) {
	loaded(op)
	switch {
	case !slices.Contains(backends, backend):
		panic(wrongName(op, "backend", backend, backends))
	case !slices.Contains(operators, operator) || backend == "generic" && operator != "all":
		panic(wrongName(op, "operator of "+backend, operator, operators))
	}
}

func wrongName(op, what, found string, names []string) *torch.Error {
	return torch.Errorf("cuda."+op, torch.ErrValue, "the %s is %s; want one of %s", what, fmt.Sprintf("%q", found),
		strings.Join(names, ", "))
}

func read(what int) (value int32) {
	loaded("settings")
	check("settings", cgotorch.Context(what, &value))
	return value
}

func set(what int, on bool) {
	number := 0
	if on {
		number = 1
	}
	setNumber(what, number)
}

func setNumber(what, value int) {
	loaded("settings")
	check("settings", cgotorch.SetContext(what, value))
}

// loaded loads libtorch, or panics with the reason why it cannot be loaded.
func loaded(op string) {
	if err := torch.Load(); err != nil {
		panic(asTorch(op, err))
	}
}
