package nn_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// flattenable returns recurrent layers with every combination of weights.
func flattenable() map[string]interface {
	nn.Layer
	FlattenParameters()
} {
	return map[string]interface {
		nn.Layer
		FlattenParameters()
	}{
		"RNN":            nn.NewRNN(5, 4, nil),
		"RNN with ReLU":  nn.NewRNN(5, 4, &nn.RNNOptions{Nonlinearity: nn.ReLUNonlinearity, NoBias: true}),
		"GRU":            nn.NewGRU(5, 4, &nn.RNNOptions{Bidirectional: true, BatchFirst: true}),
		"LSTM":           nn.NewLSTM(5, 4, &nn.RNNOptions{Layers: 2}),
		"projected LSTM": nn.NewLSTM(5, 4, &nn.RNNOptions{ProjSize: 2}),
	}
}

func TestFlatteningOnTheCPUChangesNothing(t *testing.T) {
	testenv.RequireTorch(t)
	for name, layer := range flattenable() {
		x := torch.Randn(3, 2, 5)
		before, params := layer.Forward(x), nn.Params(layer)
		layer.FlattenParameters()
		nn.To(layer, torch.TensorOptions{DType: torch.Float32})
		golden.Bits(t, name, layer.Forward(x), before)
		for i, p := range nn.Params(layer) {
			if !p.Tensor.Is(params[i].Tensor) {
				t.Errorf("%s: %s is another tensor", name, p.Name)
			}
		}
	}
}

// On a GPU, values, gradients and outputs stay the same. By default cuDNN computes recurrent layers in
// TF32.
func TestFlatteningOnAGPUKeepsTheValues(t *testing.T) {
	testenv.RequireCUDA(t)
	former := cuda.CuDNNSettings()
	t.Cleanup(func() { cuda.SetCuDNN(former) })
	exact := former
	exact.TF32 = false
	cuda.SetCuDNN(exact)
	for name, layer := range flattenable() {
		x := torch.Randn(3, 2, 5)
		onCPU, state := layer.Forward(x), map[string]torch.Tensor{}
		for _, p := range nn.Params(layer) {
			state[p.Name] = p.Tensor.Detach().Clone()
		}
		nn.ToDevice(layer, torch.CUDA(0))
		for _, p := range nn.Params(layer) {
			golden.Bits(t, name+": "+p.Name, p.Tensor.Detach().CPU(), state[p.Name])
		}
		y := layer.Forward(x.ToDevice(torch.CUDA(0)))
		y.Sum(torch.DefaultDType).Backward()
		golden.Close(t, name, y.CPU(), onCPU, 1e-4, 1e-5)
		for _, p := range nn.Params(layer) {
			if !p.Tensor.Grad().Defined() {
				t.Errorf("%s: %s has no gradient", name, p.Name)
			}
		}
	}
}
