package moetest_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/torch"
)

// TestExpertsAreNotQuantized packs attention in four bits, saves and loads it, and trains an adapter
// beside it.
func TestExpertsAreNotQuantized(t *testing.T) {
	testenv.RequireTorch(t)
	c, dir := small(true), t.TempDir()
	c.HiddenSize, c.HeadDim = 64, 16
	m, err := auto.NewCausalLM(c, nil)
	require.NoError(t, err)
	require.NoError(t, m.Save(dir))
	o := auto.Options{DType: torch.BFloat16, Warnings: io.Discard}
	packing := o
	packing.Quantize = &quantized.Config{}
	packed, err := auto.CausalLM(t.Context(), dir, packing)
	require.NoError(t, err)
	assert.Len(t, nn.QuantizedLayers(packed), 2*4, "the projections of attention in each of two layers")

	again := t.TempDir()
	require.NoError(t, packed.Save(again))
	loaded, err := auto.CausalLM(t.Context(), again, o)
	require.NoError(t, err)
	assert.Empty(t, loaded.Report.Missing)
	assert.Empty(t, loaded.Report.Unexpected)
	ids := torch.From([]int64{3, 14, 15, 9}, 1, 4)
	want := packed.Forward(ids, torch.Tensor{}, torch.Tensor{})
	assert.True(t, loaded.Forward(ids, torch.Tensor{}, torch.Tensor{}).Equal(want))

	require.NoError(t, packed.AddLoRA(lora.Config{}))
	logits, aux := packed.ForwardAux(ids, torch.Tensor{}, torch.Tensor{})
	logits.Sum(torch.Float32).Add(aux).Backward()
	for _, p := range nn.Params(packed) {
		assert.Equal(t, p.Tensor.NeedsGrad(), p.Tensor.Grad().Defined(), p.Name)
	}
}
