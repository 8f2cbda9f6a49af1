package functional_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	f "github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMistakesAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Zeros(2, 3)
	image, indices := torch.Zeros(1, 2, 4, 4), torch.Arange(4)
	volume := torch.Zeros(1, 2, 3, 3, 3)
	tests := map[string]struct {
		call func()
		want string
	}{
		"an unknown reduction": {func() { f.MSELoss(x, x, 7) },
			"functional.MSELoss: the reduction 7 is not known"},
		"targets of another shape": {func() { f.BCEWithLogits(x, torch.Zeros(3)) },
			"want a target in the shape of the input, [2 3], found [3]"},
		"shapes that cannot be broadcast": {func() { f.L1Loss(x, torch.Zeros(4), f.Mean) }, "broadcast_tensors"},
		"class indices of the wrong batch": {func() { f.CrossEntropy(x, torch.Arange(3)) },
			"CrossEntropyLoss(float32[2,3], int64[3]"},
		"log-probabilities and too many targets": {func() { f.NLLLoss(x, torch.Arange(3)) }, "nll_loss_nd"},
		"two strides for three dimensions": {func() {
			f.Conv3d(volume, torch.Zeros(1, 2, 1, 1, 1), torch.Tensor{}, f.ConvOptions{Stride: []int64{1, 1}})
		}, "functional.Conv3d: Stride has 2 numbers; want 1 or 3 numbers"},
		"Same and Padding": {func() {
			f.Conv2d(image, torch.Zeros(1, 2, 1, 1), torch.Tensor{}, f.ConvOptions{Same: true, Padding: []int64{1}})
		}, "Same and Padding [1] are both set"},
		"a kernel of another channel count": {func() {
			f.Conv3d(volume, torch.Zeros(1, 3, 1, 1, 1), torch.Tensor{}, f.ConvOptions{})
		}, "aten::conv3d(float32[1,2,3,3,3], float32[1,3,1,1,1]"},
		"pooling without a kernel": {func() { f.MaxPool1d(x, nil, f.MaxPoolOptions{}) },
			"functional.MaxPool1d: the kernel has 0 numbers; want 1 number"},
		"a divisor in one dimension": {func() {
			f.AvgPool1d(x, []int64{1}, f.AvgPoolOptions{DivisorOverride: 2})
		}, "DivisorOverride is for 2 and 3 dimensions"},
		"adaptive pooling without a size": {func() { f.AdaptiveAvgPool2d(image, nil) },
			"the output's size has 0 numbers; want 1 or 2 numbers"},
		"adaptive pooling of a vector": {func() { f.AdaptiveMaxPool2d(x, []int64{1}) },
			"want 3 dimensions, or 4 with a batch, found [2 3]"},
		"a norm of exponent zero": {func() { f.LPPool2d(image, 0, []int64{2}, nil, false) },
			"the norm's p must not be 0"},
		"unpooling to an impossible size": {func() {
			f.MaxUnpool2d(image, image, []int64{2}, f.MaxUnpoolOptions{Size: []int64{8, 11}})
		}, "Size is [8 11], but dimension 1 must be between 6 and 10"},
		"fractional pooling without a size": {func() {
			f.FractionalMaxPool2d(image, []int64{2}, f.FractionalMaxPoolOptions{})
		}, "want one of Size and Ratio"},
		"fractional pooling that grows": {func() {
			f.FractionalMaxPool2d(image, []int64{2}, f.FractionalMaxPoolOptions{Ratio: []float64{1.5}})
		}, "Ratio must be between 0 and 1, found [1.5]"},
		"an unknown padding": {func() { f.Pad(x, []int64{1, 1}, "mirror", 0) },
			`the mode "mirror" is not known`},
		"a value for a reflection": {func() { f.Pad(image, []int64{1, 1}, f.PadReflect, 2) },
			`the mode "reflect" takes no value, found 2`},
		"resizing a matrix": {func() { f.Interpolate(x, f.InterpolateOptions{Size: []int64{2}}) },
			"want [N, C, L], [N, C, H, W] or [N, C, D, H, W], found [2 3]"},
		"resizing to nothing": {func() { f.Interpolate(image, f.InterpolateOptions{}) },
			"want one of Size and Scale"},
		"trilinear images": {func() {
			f.Interpolate(image, f.InterpolateOptions{Size: []int64{2}, Mode: f.Trilinear})
		}, `the mode "trilinear" is not known for [1 2 4 4]`},
		"corners of the nearest pixel": {func() {
			f.Interpolate(image, f.InterpolateOptions{Size: []int64{2}, AlignCorners: true})
		}, "AlignCorners is for the linear modes and bicubic, found nearest"},
		"antialiasing of the nearest pixel": {func() {
			f.Interpolate(image, f.InterpolateOptions{Size: []int64{2}, Antialias: true})
		}, "Antialias is for bilinear and bicubic"},
		"a recomputed size": {func() {
			f.Interpolate(image, f.InterpolateOptions{Size: []int64{2}, Recompute: true})
		}, "Recompute has no meaning with Size"},
		"an unknown grid mode": {func() {
			f.GridSample(image, image, f.GridSampleOptions{Mode: "cubic"})
		}, `the mode "cubic" is not known`},
		"an unknown grid padding": {func() {
			f.GridSample(image, image, f.GridSampleOptions{PaddingMode: "wrap"})
		}, `the padding mode "wrap" is not known`},
		"a probability above one": {func() { f.AlphaDropout(x, 1.5, true) },
			"functional.AlphaDropout: p is a probability and must be between 0 and 1, found 1.5"},
		"dropping channels of a matrix": {func() { f.Dropout3d(x, 0.5, true) },
			"want 4 dimensions, or 5 with a batch, found [2 3]"},
		"dropping channels of a matrix's images": {func() { f.Dropout2d(x, 0.5, true) },
			"want [N, C, H, W] or [N, C, L], found [2 3]"},
		"limits the wrong way round": {func() { f.Hardtanh(x, 1, -1) }, "want low <= high, found 1 and -1"},
		"a batch mean of other losses": {func() { f.L1Loss(x, x, f.BatchMean) },
			"functional.L1Loss: BatchMean is for KLDiv"},
		"probabilities of another shape": {func() {
			f.BinaryCrossEntropy(x, torch.Zeros(3), f.BCELossOptions{})
		}, "want a target in the shape of the input, [2 3], found [3]"},
		"a variance below zero": {func() {
			f.GaussianNLLLoss(x, x, x.SubScalar(1), f.GaussianNLLLossOptions{})
		}, "the variance has negative numbers"},
		"a variance of another shape": {func() {
			f.GaussianNLLLoss(x, x, torch.Zeros(2, 4), f.GaussianNLLLossOptions{})
		}, "want a variance in the shape of the input, [2 3]"},
		"a variance of one number": {func() {
			f.GaussianNLLLoss(x, x, torch.Zeros(1, 1), f.GaussianNLLLossOptions{})
		}, "or with 1 in one dimension, found [1 1]"},
		"an exponent of three": {func() {
			f.MultiMarginLoss(x, torch.Arange(2), f.MultiMarginLossOptions{P: 3})
		}, "P must be 1 or 2, found 3"},
		"a margin below zero": {func() {
			f.TripletMarginLoss(x, x, x, f.TripletMarginLossOptions{Margin: -1})
		}, "Margin must be positive, found -1"},
		"triplets of different dimensions": {func() {
			f.TripletMarginWithDistanceLoss(x, x, torch.Zeros(3), f.TripletMarginWithDistanceLossOptions{})
		}, "want the same number of dimensions, found [2 3], [2 3] and [3]"},
		"ranks of different dimensions": {func() { f.MarginRankingLoss(x, x, torch.Zeros(3), f.Mean, 0) },
			"want the same number of dimensions, found [2 3], [2 3] and [3]"},
		"bags without offsets": {func() {
			f.EmbeddingBag(indices, torch.Zeros(4, 2), f.EmbeddingBagOptions{})
		}, "a one-dimensional input needs one-dimensional Offsets"},
		"bags with two kinds of offsets": {func() {
			f.EmbeddingBag(indices.View(2, 2), torch.Zeros(4, 2), f.EmbeddingBagOptions{Offsets: indices})
		}, "Offsets are for a one-dimensional input, found [2 2]"},
		"bags with weights of the wrong mode": {func() {
			f.EmbeddingBag(indices.View(2, 2), torch.Zeros(4, 2), f.EmbeddingBagOptions{PerSampleWeights: torch.Zeros(2,
				2)})
		}, "PerSampleWeights are for BagSum"},
		"bags without an index": {func() {
			f.EmbeddingBag(indices.View(4, 1).Narrow(1, 0, 0), torch.Zeros(4, 2), f.EmbeddingBagOptions{})
		}, "want bags of at least one index, found [4 0]"},
		"bags with a padding out of range": {func() {
			f.EmbeddingBag(indices.View(2, 2), torch.Zeros(4, 2), f.EmbeddingBagOptions{PaddingIdx: new(int64(4))})
		}, "PaddingIdx 4 is out of range: there are 4 words"},
		"attention with two masks": {func() {
			f.ScaledDotProductAttention(image, image, image, f.ScaledDotProductAttentionOptions{Causal: true, Mask: x})
		}, "Mask and Causal are both set; want one"},
		"a batch of one vector": {func() {
			f.BatchNorm(torch.Zeros(1, 4), f.BatchNormOptions{Training: true})
		}, "functional.BatchNorm: expected more than 1 value per channel when training, got input size [1 4]"},
		"a batch of one pixel": {func() {
			f.BatchNorm(torch.Zeros(1, 4, 1, 1), f.BatchNormOptions{Training: true})
		}, "when training, got input size [1 4 1 1]"},
		"an eps below zero": {func() {
			f.BatchNorm(x, f.BatchNormOptions{Training: true, Eps: -1})
		}, "functional.BatchNorm: Eps must be positive, found -1"},
		"an instance of one pixel": {func() {
			f.InstanceNorm(torch.Zeros(5, 4, 1, 1), f.InstanceNormOptions{})
		}, "functional.InstanceNorm: expected more than 1 spatial element when training, got input size [5 4 1 1]"},
		"an instance without any pixel": {func() { f.InstanceNorm(x, f.InstanceNormOptions{}) },
			"more than 1 spatial element when training, got input size [2 3]"},
		"groups of one value": {func() {
			f.GroupNorm(torch.Zeros(1, 4), 4, torch.Tensor{}, torch.Tensor{}, 1e-5)
		}, "functional.GroupNorm: expected more than 1 value per channel when training, got input size [1 4]"},
		"local responses of a matrix": {func() { f.LocalResponseNorm(x, 2, 1, 1, 1) },
			"want 3 or more dimensions, found [2 3]"},
		"local responses of no channel": {func() { f.LocalResponseNorm(image, 0, 1, 1, 1) },
			"size must be positive, found 0"},
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

func TestNormsTakeOneValueWherePyTorchDoes(t *testing.T) {
	testenv.RequireTorch(t)
	mean, variance := torch.Zeros(4), torch.Ones(4)
	tests := map[string]func() torch.Tensor{
		"a batch of one by the running statistics": func() torch.Tensor {
			return f.BatchNorm(torch.Ones(1, 4), f.BatchNormOptions{RunningMean: mean, RunningVar: variance})
		},
		"an instance of one by the running statistics": func() torch.Tensor {
			return f.InstanceNorm(torch.Ones(1, 4, 1), f.InstanceNormOptions{RunningMean: mean, RunningVar: variance,
				UseRunningStats: true})
		},
		"one example of two pixels": func() torch.Tensor {
			return f.BatchNorm(torch.Ones(1, 4, 2), f.BatchNormOptions{Training: true})
		},
		"two examples of one value": func() torch.Tensor {
			return f.BatchNorm(torch.Ones(2, 4), f.BatchNormOptions{Training: true})
		},
		"two groups of two": func() torch.Tensor {
			return f.GroupNorm(torch.Ones(1, 4), 2, torch.Tensor{}, torch.Tensor{}, 1e-5)
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := torch.Try(func() { test() }); err != nil {
				t.Error(err)
			}
		})
	}
}
