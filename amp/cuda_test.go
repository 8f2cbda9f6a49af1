package amp_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestPrecisionOfProductsOnAGPU(t *testing.T) {
	testenv.RequireCUDA(t)
	d := torch.CUDA(0)
	for _, p := range []amp.Precision{amp.FP32, amp.BF16, amp.FP16} {
		amp.Autocast(d, p, func() {
			if got := torch.Ones(2, 2).ToDevice(d).MatMul(torch.Ones(2, 2).ToDevice(d)).DType(); got != p.DType() {
				t.Errorf("under %s, products on the GPU are %s", p, got)
			}
			if got := product(); got != torch.Float32 {
				t.Errorf("under %s on the GPU, products on the CPU are %s, want float32", p, got)
			}
		})
	}
}
