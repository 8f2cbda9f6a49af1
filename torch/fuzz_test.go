package torch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// fuzzOperators have arguments of every kind that occurs in schemas, and no loop whose length
// depends on an argument.
var fuzzOperators = []string{
	"aten::neg", "aten::add.Tensor", "aten::add.Scalar", "aten::cat", "aten::stack", "aten::sum",
	"aten::sum.dim_IntList", "aten::clamp", "aten::gelu",
	"aten::topk", "aten::linear", "aten::index.Tensor", "aten::dropout", "aten::to.dtype", "aten::to.device",
	"aten::view", "aten::split.Tensor",
	"aten::where.self", "aten::multinomial", "aten::equal", "aten::item", "aten::layer_norm", "aten::max_pool2d",
	"aten::masked_fill.Scalar",
	"aten::embedding", "aten::conv2d", "aten::upsample_nearest2d", "aten::any.dims", "aten::size", "aten::allclose",
	"aten::_foreach_add_.List", "aten::_foreach_mul.ScalarList", "aten::einsum",
	"aten::normal_", "aten::index_put_", "aten::nll_loss", "aten::batch_norm", "aten::gru.input",
}

// argument returns the value that one byte of the fuzzer's input stands for. Sizes are small,
// because running out of memory is tested elsewhere.
func argument(b byte, values []torch.Tensor, g *torch.Generator) any {
	n := int64(b >> 5)
	switch b & 31 {
	case 0:
		return nil
	case 1, 2, 3, 4, 5, 6:
		return values[(int(b&31)+int(n))%len(values)]
	case 7:
		return torch.Tensor{}
	case 8:
		return []torch.Tensor{}
	case 9:
		return []torch.Tensor{values[0], values[int(n)%len(values)]}
	case 10:
		return []torch.Tensor{{}, values[int(n)%len(values)]}
	case 11:
		return int(n)
	case 12:
		return -n
	case 13:
		return float64(n) / 4
	case 14:
		return float32(-n)
	case 15:
		return n > 3
	case 16:
		return "none"
	case 17:
		return ""
	case 18:
		return []int64{}
	case 19:
		return []int64{n}
	case 20:
		return []int64{n, -1}
	case 21:
		return []float64{float64(n)}
	case 22:
		return []bool{n > 3, true}
	case 23:
		return torch.DType(n)
	case 24:
		return torch.DType(b)
	case 25:
		return torch.CPU
	case 26:
		return torch.CUDA(int(n))
	case 27:
		return g
	case 28:
		return (*torch.Generator)(nil)
	case 29:
		return struct{}{}
	case 30:
		return []int64(nil)
	}
	return uint8(n)
}

func FuzzCall(f *testing.F) {
	testenv.RequireTorch(f)
	for i := range fuzzOperators {
		f.Add(byte(i), []byte{1, 2, 3, 11, 15})
		f.Add(byte(i), []byte{9, 11})
		f.Add(byte(i), []byte{1, 19 + 32, 7, 7, 13, 15})
		f.Add(byte(i), []byte{})
	}
	f.Fuzz(func(t *testing.T, operator byte, bytes []byte) {
		torch.Scope(func() {
			values := []torch.Tensor{
				torch.Ones(2, 3), torch.Arange(3), torch.From([]bool{true, false}), torch.Zeros(0, 2), torch.Full(1.5),
				torch.Ones(1, 1, 4, 4), torch.TensorOptions{DType: torch.BFloat16}.Ones(2),
			}
			g := torch.NewGenerator(1)
			var args []any
			for _, b := range bytes[:min(len(bytes), 12)] {
				args = append(args, argument(b, values, g))
			}
			name := fuzzOperators[int(operator)%len(fuzzOperators)]
			err := torch.Try(func() { torch.CallAny(name, args...) })
			var e *torch.Error
			if err == nil {
				return
			}
			if !errors.As(err, &e) || e.Msg == "" || e.Op == "" {
				t.Errorf("%s(%v): %v names no operator or reason", name, args, err)
			}
			if e.Code == torch.ErrInternal || strings.Contains(e.Msg, "INTERNAL ASSERT") {
				t.Errorf("%s(%v): %v", name, args, err)
			}
		})
	})
}

func FuzzParseDevice(f *testing.F) {
	for _, s := range []string{"cpu", "cuda", "cuda:0", "cuda:127", "cuda:128", "cpu:0", "cuda:-1", "cuda:+1", "", ":",
		"cuda:", "CUDA", "auto", "auto:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := torch.ParseDevice(s)
		if errors.Is(err, torch.ErrNotSupported) || errors.Is(err, torch.ErrNotInstalled) {
			return // the name is valid, but there is no such GPU
		}
		if err != nil {
			if !strings.Contains(err.Error(), "want") || d != torch.CPU {
				t.Errorf("ParseDevice(%q) = %v, %v: the error does not say what is wanted", s, d, err)
			}
			return
		}
		if d.IsCUDA() != strings.HasPrefix(s, "cuda") && s != "auto" || d.Index() < 0 {
			t.Errorf("ParseDevice(%q) = %v", s, d)
		}
		if again, err := torch.ParseDevice(d.String()); err != nil || again != d {
			t.Errorf("ParseDevice(%q) = %v, which reads back as %v, %v", s, d, again, err)
		}
	})
}
