package torch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestSlowBFloat16IsToldByKernelsAndInstructions(t *testing.T) {
	assert.Contains(t, torch.SlowBFloat16Of(false, false, false), "only with AVX-512", "AVX2")
	assert.Contains(t, torch.SlowBFloat16Of(false, true, true), "only with AVX-512", "AVX-512, and oneDNN held to AVX2")
	assert.Contains(t, torch.SlowBFloat16Of(true, true, false), "no instructions", "AVX-512 alone")
	assert.Empty(t, torch.SlowBFloat16Of(true, true, true), "AVX-512 BF16 or AMX")
	assert.Empty(t, torch.SlowBFloat16Of(true, false, false), "AVX2 with AVX-NE-CONVERT")
	assert.Contains(t, torch.SlowBFloat16OnARMOf(false), "no instructions for it (BF16")
	assert.Empty(t, torch.SlowBFloat16OnARMOf(true))
}

func TestReproducibleNumbersHaveNoBFloat16Kernels(t *testing.T) {
	testenv.RequireTorch(t)
	if !testenv.Pinned() {
		t.Skip("the code paths are not those of reproducible numbers")
	}
	assert.Contains(t, torch.SlowBFloat16(), "only with AVX-512")
}
