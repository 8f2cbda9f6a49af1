package crnn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// labels are for 6 frames. The third has too many repeated classes for them, so its loss is
// infinite.
var labels = Batch{Targets: []int64{1, 2, 3, 3, 2, 2, 2, 2, 2}, Lengths: []int64{3, 2, 4}}

func TestLossOfABatchHasTheBitsOfLibtorchsWithTensors(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	torch.Scope(func() {
		logProbs := torch.Randn(6, 3, 4).LogSoftmax(2, torch.DefaultDType).Detach().RequiresGrad()
		loss := batchLoss(engine.ForwardPass{}, logProbs, labels)
		loss.Backward()
		gradient := logProbs.Grad().Clone()
		logProbs.SetGrad(torch.Tensor{})
		want := logProbs.CTCLoss(torch.From(labels.Targets), torch.From([]int64{6, 6, 6}), torch.From(labels.Lengths),
			blank, torch.ReductionMean, true)
		want.Backward()
		assert.Equal(t, want.Item(), loss.Item())
		assert.True(t, gradient.Equal(logProbs.Grad()))
	})
}

func TestMeanOfLossesIsThatOfLibtorch(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(2)
	torch.Scope(func() {
		logProbs := torch.Randn(6, 3, 4).LogSoftmax(2, torch.DefaultDType)
		lengths := torch.From(int32s(labels.Lengths))
		losses := torch.Call("aten::_ctc_loss", logProbs, torch.From(labels.Targets), []int64{6, 6, 6}, labels.Lengths,
			blank)[0]
		require.True(t, losses.IsInf().Any().Item() != 0, "no picture is without an alignment")
		assert.InDelta(t, batchLoss(engine.ForwardPass{}, logProbs, labels).Item(), meanOfLosses(losses, lengths).Item(),
			1e-6)
	})
}

func TestCuDNNTakesLabelsThatFitItsKernel(t *testing.T) {
	for lengths, want := range map[[2]int64]bool{{1, 6}: true, {0, 3}: false, {7, 1}: false, {6, 6}: true} {
		assert.Equal(t, want, cuDNNTakes(lengths[:], 6), lengths)
	}
	assert.False(t, cuDNNTakes([]int64{256}, 300))
}

func TestTargetsThatAreNoClassesAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	logProbs := torch.Zeros(6, 1, 4)
	for _, c := range []struct {
		b    Batch
		want string
	}{
		{Batch{Targets: []int64{1, 4}, Lengths: []int64{2}}, "a target of the batch is 4, but there are 4 classes: 0 to 3"},
		{Batch{Targets: []int64{-1}, Lengths: []int64{1}}, "a target of the batch is -1"},
		{Batch{Targets: []int64{1}, Lengths: []int64{2}}, "are [2], but there are 1 targets"},
		{Batch{Targets: []int64{1}, Lengths: []int64{2, -1}}, "are [2 -1], but there are 1 targets"},
	} {
		err := torch.Try(func() { batchLoss(engine.ForwardPass{}, logProbs, c.b) })
		if assert.Error(t, err) {
			assert.True(t, strings.Contains(err.Error(), c.want), "%v, want %q", err, c.want)
		}
	}
}

func TestLossOfABatchOnAGPUIsThatOfTheCPU(t *testing.T) {
	testenv.RequireCUDA(t)
	d := torch.CUDA(0)
	torch.ManualSeed(3)
	torch.Scope(func() {
		fits := Batch{Targets: []int64{1, 2, 3, 3, 2, 1}, Lengths: []int64{3, 2, 1}}
		for _, b := range []Batch{fits, labels} {
			host := torch.Randn(6, 3, 4).LogSoftmax(2, torch.DefaultDType).Detach().RequiresGrad()
			device := host.Detach().ToDevice(d).RequiresGrad()
			want := batchLoss(engine.ForwardPass{}, host, b)
			want.Backward()
			got := batchLoss(engine.ForwardPass{Device: d}, device, b)
			got.Backward()
			assert.InDelta(t, want.Item(), got.Item(), 1e-5)
			assert.Less(t, device.Grad().CPU().Sub(host.Grad()).Abs().Max().Item(), 1e-5)
		}
	})
}

// The labels of licence plates have the same length, so that all batches are of the same kind.
func TestGraphsOfACRNNHaveTheBitsOfTheRunWithout(t *testing.T) {
	testenv.RequireCUDA(t)
	run := func(g engine.Graphs) (bits string, warnings []string) {
		torch.ManualSeed(2)
		model, err := New(Config{Charset: strings.Split(" abc", ""), Map2SeqDim: 8, RNNDim: 8,
			ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}})
		require.NoError(t, err)
		s, err := NewStep(model, engine.Options{Device: torch.CUDA(0), Graphs: g, TF32: engine.TF32Off, FullDeterminism: true,
			Warn: func(text string) { warnings = append(warnings, text) }})
		require.NoError(t, err)
		defer torch.UseDeterministicAlgorithms(false, false)
		for range 6 {
			batch, err := s.Collate([]Sample{{Pixels: make([]float32, 32*128), Text: "abc"},
				{Pixels: make([]float32, 32*128), Text: "b"}})
			require.NoError(t, err)
			require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
			_, err = s.Update(t.Context(), 0.01)
			require.NoError(t, err)
		}
		for _, p := range nn.Params(model) {
			bits += fmt.Sprint(p.Tensor.CPU().Bytes())
		}
		return bits, warnings
	}
	want, _ := run(engine.Graphs{})
	got, warnings := run(engine.Graphs{Kinds: 4, WarmUp: 1})
	assert.Empty(t, warnings)
	assert.Equal(t, want, got)
}

func TestGraphsAndALossOfSomebodyElsesAreRefused(t *testing.T) {
	err := (&task{}).ValidateOptions(engine.Options{Graphs: engine.Graphs{Kinds: 1},
		Loss: func(engine.ForwardPass, engine.Outputs) engine.Loss { return engine.Loss{} }})
	assert.ErrorContains(t, err, "crnn: Options.Loss and Options.Graphs are both set")
}
