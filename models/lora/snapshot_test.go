package lora_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// TestASnapshotIsTheModelAsItWas checks that an adapter that has no effect yet is disabled, whereas
// other adapters and other trained tensors are temporarily replaced by copies.
func TestASnapshotIsTheModelAsItWas(t *testing.T) {
	_, file := load(t)
	for name, c := range map[string]struct {
		config lora.Config
		swaps  bool
	}{
		"as it is drawn":    {lora.Config{R: 4}, false},
		"of random updates": {lora.Config{R: 4, Init: lora.InitRandom}, true},
		"with biases":       {lora.Config{R: 4, Bias: lora.AllBias}, true},
		"with magnitudes":   {lora.Config{R: 4, UseDoRA: true}, false},
		"of random DoRA":    {lora.Config{R: 4, UseDoRA: true, Init: lora.InitRandom}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := named(t, "gpt2").base(t)
			require.NoError(t, m.AddLoRA(c.config))
			nn.SetTraining(m, false)
			torch.NoGrad(func() {
				with, swaps, err := m.LoRA().Snapshot()
				require.NoError(t, err)
				assert.Equal(t, c.swaps, swaps)
				before := forward(m, file)
				for _, p := range nn.Params(m) {
					if p.Tensor.NeedsGrad() {
						p.Tensor.AddScalar_(0.1)
					}
				}
				trained := forward(m, file)
				assert.False(t, trained.Equal(before))
				for range 2 {
					with(func() {
						assert.True(t, forward(m, file).Equal(before), "meanwhile the model has the snapshot's weights")
					})
					assert.True(t, forward(m, file).Equal(trained), "afterwards the model has the trained weights again")
				}
			})
			a := m.LoRA()
			require.NoError(t, m.MergeLoRA())
			_, _, err := a.Snapshot()
			require.ErrorContains(t, err, "the adapter was merged or removed")
		})
	}
}
