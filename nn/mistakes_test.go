package nn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

func TestLayersNameMistakes(t *testing.T) {
	testenv.RequireTorch(t)
	x := func(shape ...int64) torch.Tensor { return torch.Zeros(shape...) }
	one := nn.Dims{1}
	attention := nn.NewMultiheadAttention(4, 2, nil)
	attend := func(q, k, v torch.Tensor, m nn.AttentionMask) func() {
		return func() { attention.Forward(q, k, v, m) }
	}
	q := x(3, 2, 4)
	tests := map[string]struct {
		call func()
		want string
	}{
		"Same and Padding": {func() {
			nn.NewConv2d(1, 1, one, &nn.ConvOptions{Same: true, Padding: one})
		}, "nn.NewConv2d: Same and Padding [1] are both set; want one"},
		"Same and a stride": {func() {
			nn.NewConv3d(1, 1, one, &nn.ConvOptions{Same: true, Stride: nn.Dims{2}})
		}, "Same needs the stride 1, found [2 2 2]"},
		"an unknown padding mode": {func() {
			nn.NewConv1d(1, 1, one, &nn.ConvOptions{PaddingMode: "mirror"})
		}, `PaddingMode "mirror" is not known`},
		"a constant padding mode": {func() {
			nn.NewConv1d(1, 1, one, &nn.ConvOptions{PaddingMode: functional.PadConstant})
		}, "or nothing for zeros"},
		"transposed groups": {func() {
			nn.NewConvTranspose2d(4, 6, one, &nn.ConvTransposeOptions{Groups: 4})
		}, "in (4) and out (6) must be divisible by Groups (4)"},
		"a transposed size": {func() {
			nn.NewConvTranspose1d(1, 1, nn.Dims{3}, nil).ForwardSize(x(1, 1, 4), nn.Dims{9})
		}, "dimension 0 of the output can have the sizes 6 to 6, found [9]"},
		"a transposed size of two numbers": {func() {
			nn.NewConvTranspose1d(1, 1, one, nil).ForwardSize(x(1, 1, 4), nn.Dims{4, 4})
		}, "the output's size has 2 numbers; want 1"},
		"Bilinear": {func() { nn.NewBilinear(1, 0, 1, nil) }, "in2 must be positive, found 0"},
		"BatchNorm3d of images": {func() { nn.NewBatchNorm3d(2, nil).Forward(x(1, 2, 3, 4)) },
			"want [N, channels, D, H, W], found [1 2 3 4]"},
		"BatchNorm1d of one row": {func() { nn.NewBatchNorm1d(2, nil).Forward(x(1, 2)) },
			"expected more than 1 value per channel when training, got input size [1 2]"},
		"BatchNorm2d of one pixel": {func() { nn.NewBatchNorm2d(2, nil).Forward(x(1, 2, 1, 1)) },
			"more than 1 value per channel when training, got input size [1 2 1 1]"},
		"BatchNorm3d of one voxel": {func() { nn.NewBatchNorm3d(2, nil).Forward(x(1, 2, 1, 1, 1)) },
			"more than 1 value per channel when training, got input size [1 2 1 1 1]"},
		"SyncBatchNorm of one row": {func() { nn.NewSyncBatchNorm(2, nil).Forward(x(1, 2)) },
			"more than 1 value per channel when training, got input size [1 2]"},
		"InstanceNorm1d of one step": {func() { nn.NewInstanceNorm1d(2, nil).Forward(x(3, 2, 1)) },
			"expected more than 1 spatial element when training, got input size [3 2 1]"},
		"InstanceNorm2d without a batch": {func() { nn.NewInstanceNorm2d(2, nil).Forward(x(2, 1, 1)) },
			"more than 1 spatial element when training, got input size [1 2 1 1]"},
		"InstanceNorm3d of one voxel": {func() { nn.NewInstanceNorm3d(2, nil).Forward(x(3, 2, 1, 1, 1)) },
			"more than 1 spatial element when training, got input size [3 2 1 1 1]"},
		"InstanceNorm of other channels": {func() { nn.NewInstanceNorm2d(3, nil).Forward(x(1, 2, 3, 4)) },
			"want 3 channels and 2 dimensions behind them, found [1 2 3 4]"},
		"groups that do not divide": {func() { nn.NewGroupNorm(4, 6, nil) },
			"channels (6) must be divisible by groups (4)"},
		"RMSNorm": {func() { nn.NewRMSNorm(nil, nil) },
			"want the size of at least one dimension"},
		"EmbeddingBag": {func() {
			nn.NewEmbeddingBag(3, 2, &nn.EmbeddingBagOptions{PaddingIdx: new(int64(-4))})
		}, "nn.NewEmbeddingBag: PaddingIdx -4 is out of range: there are 3 words"},
		"Dropout2d": {func() { nn.NewDropout2d(-1) },
			"nn.NewDropout2d: p is a probability and must be between 0 and 1, found -1"},
		"PReLU": {func() { nn.NewPReLU(&nn.PReLUOptions{Channels: -1}) },
			"Channels must be positive, found -1"},
		"Softmax2d of a matrix": {func() { nn.Softmax2d{}.Forward(x(2, 3)) },
			"want [N, C, H, W] or [C, H, W], found [2 3]"},
		"MaxPool3d": {func() { nn.NewMaxPool3d(nil, nil) },
			"nn.NewMaxPool3d: the kernel has 0 numbers; want 1 or 3 numbers"},
		"AvgPool1d with a divisor": {func() {
			nn.NewAvgPool1d(one, &nn.AvgPoolOptions{DivisorOverride: 2})
		}, "DivisorOverride is for 2 and 3 dimensions, found 2"},
		"adaptive pooling without a size": {func() { nn.NewAdaptiveAvgPool1d(nil) },
			"the output's size has 0 numbers; want 1 number"},
		"adaptive pooling to less": {func() { nn.NewAdaptiveMaxPool2d(nn.Dims{-2}) }, "must not be negative"},
		"a norm of exponent zero":  {func() { nn.NewLPPool1d(0, one, nil) }, "the norm's p must not be 0"},
		"fractional pooling without a size": {func() {
			nn.NewFractionalMaxPool2d(one, functional.FractionalMaxPoolOptions{})
		}, "want one of Size and Ratio"},
		"three sides of an image": {func() { nn.NewZeroPad2d(nn.Dims{1, 1, 1}) },
			"nn.NewZeroPad2d: pad has 3 numbers; want 1 or 4 numbers"},
		"reflection of another shape": {func() { nn.NewReflectionPad2d(one).Forward(x(4, 4)) },
			"want 3 dimensions, or 4 with a batch, found [4 4]"},
		"a GRU has no projection": {func() { nn.NewGRU(3, 2, &nn.RNNOptions{ProjSize: 1}) },
			"nn.NewGRU: ProjSize is for an LSTM, found 1"},
		"a projection grows nothing": {func() { nn.NewLSTM(3, 2, &nn.RNNOptions{ProjSize: 2}) },
			"ProjSize must be positive and less than hidden (2), found 2"},
		"an LSTM has no nonlinearity": {func() { nn.NewLSTM(3, 2, &nn.RNNOptions{Nonlinearity: "relu"}) },
			`Nonlinearity is for an RNN, found "relu"`},
		"an unknown nonlinearity": {func() { nn.NewRNN(3, 2, &nn.RNNOptions{Nonlinearity: "gelu"}) },
			`Nonlinearity "gelu" is not known; want tanh or relu`},
		"an unknown nonlinearity of a cell": {func() {
			nn.NewRNNCell(3, 2, &nn.CellOptions{Nonlinearity: "gelu"})
		}, `Nonlinearity "gelu" is not known`},
		"a GRUCell has no nonlinearity": {func() {
			nn.NewGRUCell(3, 2, &nn.CellOptions{Nonlinearity: "relu"})
		}, "Nonlinearity is for an RNNCell"},
		"a projected state": {func() {
			nn.NewLSTM(3, 4, &nn.RNNOptions{ProjSize: 2}).ForwardState(x(5, 1, 3), x(1, 1, 4), torch.Tensor{})
		}, "want a state of shape [1 1 2], found [1 1 4]"},
		"a cell's input": {func() {
			nn.NewGRUCell(3, 2, nil).Forward(x(1, 1, 3), torch.Tensor{})
		}, "want an input of 1 dimension, or 2 with a batch, found [1 1 3]"},
		"a cell's state": {func() {
			nn.NewLSTMCell(3, 2, nil).Forward(x(1, 3), x(2), torch.Tensor{})
		}, "want a state of 2 dimensions, as the input has, found [2]"},
		"heads that do not divide": {func() { nn.NewMultiheadAttention(5, 2, nil) },
			"embed (5) must be divisible by heads (2)"},
		"attention to another batch": {attend(q, x(3, 1, 4), x(3, 1, 4), nn.AttentionMask{}),
			"want a query and key of the same batch, found [3 2 4] and [3 1 4]"},
		"attention to values of other length": {attend(q, x(3, 2, 4), x(5, 2, 4), nn.AttentionMask{}),
			"want a key and value of the same length and batch"},
		"attention of other features": {attend(q, x(3, 2, 5), x(3, 2, 4), nn.AttentionMask{}),
			"want 4, 4 and 4 features of query, key and value in the last dimension"},
		"attention of other dimensions": {attend(x(3, 4), q, q, nn.AttentionMask{}),
			"want a query, key and value of 3 dimensions, or 2 without a batch"},
		"a mask of another shape": {attend(q, q, q, nn.AttentionMask{Mask: x(3, 4)}),
			"want a Mask of shape [3 3] or [4 3 3], found [3 4]"},
		"a padding of another shape": {attend(q, q, q, nn.AttentionMask{KeyPadding: x(3, 2)}),
			"want a KeyPadding of shape [2 3], found [3 2]"},
		"a mask of integers": {attend(q, q, q, nn.AttentionMask{Mask: torch.Arange(9).View(3, 3)}),
			"a mask is bool or of a floating-point type, found int64"},
		"two masks": {attend(q, q, q, nn.AttentionMask{Mask: x(3, 3), Causal: true}),
			"Mask and Causal are both set; want one"},
		"cutoffs that do not increase": {func() {
			nn.NewAdaptiveLogSoftmaxWithLoss(16, 20, []int64{5, 5}, nil)
		}, "cutoffs must increase and be between 1 and classes-1 (19), found [5 5]"},
		"a cluster without features": {func() { nn.NewAdaptiveLogSoftmaxWithLoss(3, 20, []int64{5}, nil) },
			"cluster 0 would have no features"},
		"a class too many": {func() {
			nn.NewAdaptiveLogSoftmaxWithLoss(16, 20, []int64{5}, nil).Forward(x(1, 16), torch.From([]int64{20}))
		}, "classes are 0 to 19, but the target has others: 20 to 20"},
		"no layers": {func() { nn.NewTransformer(4, 2, 0, 1, nil) }, "n must be positive, found 0"},
		"weight norm of a norm": {func() { nn.NewWeightNorm(nn.NewBatchNorm1d(2, nil), 0) },
			"want a layer with parameters only, such as a Linear or a convolution, found nn.BatchNorm1d"},
		"weight norm of nothing": {func() { nn.NewWeightNorm(nn.ReLU{}, 0) }, `nn.ReLU has no parameter "weight"`},
		"weight norm along nothing": {func() { nn.NewWeightNorm(nn.NewLinear(2, 2, nil), 2) },
			"dim must be between -1 and 1, found 2"},
		"spectral norm along nothing": {func() {
			nn.NewSpectralNorm(nn.NewLinear(2, 2, nil), &nn.SpectralNormOptions{Dim: new(int64(2))})
		}, "Dim must be between -2 and 1, found 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := torch.Try(test.call)
			if te := (*torch.Error)(nil); !errors.As(err, &te) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// PyTorch counts the batch before it raises the error.
func TestBatchOfOneRowIsCountedAndNothingElse(t *testing.T) {
	testenv.RequireTorch(t)
	b := nn.NewBatchNorm1d(2, nil)
	if err := torch.Try(func() { b.Forward(torch.Ones(1, 2)) }); !errors.Is(err, torch.ErrValue) {
		t.Fatalf("error %v, want torch.ErrValue", err)
	}
	if n, mean, v := b.NumBatchesTracked.Item(), b.RunningMean.Sum(torch.DefaultDType).Item(),
		b.RunningVar.Sum(torch.DefaultDType).Item(); n != 1 || mean != 0 || v != 2 {
		t.Errorf("after the refusal: %v batches, means %v, variances %v in all; want 1, 0 and 2", n, mean, v)
	}
}
