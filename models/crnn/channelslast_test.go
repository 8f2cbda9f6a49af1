package crnn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestChannelsLastGivesTheSameLossAndGradients(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	grads := map[torch.MemoryFormat]map[string]torch.Tensor{}
	losses := map[torch.MemoryFormat]float64{}
	for _, format := range []torch.MemoryFormat{torch.ContiguousFormat, torch.ChannelsLast} {
		torch.ManualSeed(3)
		m, err := crnn.New(crnn.Config{Charset: []string{"", "a", "b"}, ImageWidth: 16, RNNDim: 8,
			ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}})
		require.NoError(t, err)
		step, err := crnn.NewStep(m, engine.Options{MemoryFormat: format, MaxGradNorm: -1})
		require.NoError(t, err)
		samples := make([]crnn.Sample, 3)
		for i := range samples {
			samples[i] = crnn.Sample{Pixels: make([]float32, 32*16), Text: "aba"[i:]}
			for k := range samples[i].Pixels {
				samples[i].Pixels[k] = float32((k*7+i*13)%17)/8 - 1
			}
		}
		b, err := step.Collate(samples)
		require.NoError(t, err)
		require.NoError(t, step.Train(t.Context(), b, trainer.Window{Len: 1, Divisor: 1}))
		report, err := step.Report(t.Context())
		require.NoError(t, err)
		losses[format], grads[format] = report.LossSum, map[string]torch.Tensor{}
		for _, p := range nn.Params(m) {
			if g := p.Tensor.Grad(); g.Defined() {
				grads[format][p.Name] = g.Contiguous()
			}
			if p.Tensor.Dim() == 4 {
				assert.Equal(t, format == torch.ChannelsLast, p.Tensor.Stride()[1] == 1, p.Name)
			}
		}
	}
	assert.InEpsilon(t, losses[torch.ContiguousFormat], losses[torch.ChannelsLast], 1e-6)
	require.Len(t, grads[torch.ChannelsLast], len(grads[torch.ContiguousFormat]))
	for name, want := range grads[torch.ContiguousFormat] {
		golden.Close(t, name, grads[torch.ChannelsLast][name], want, 1e-5, 1e-6)
	}
}
