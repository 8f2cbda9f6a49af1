package functional_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	f "github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

type tensors = []torch.Tensor

// cases are the cases of testdata/functional.py.
var cases = map[string]func(in tensors) torch.Tensor{
	"cross_entropy":          func(in tensors) torch.Tensor { return f.CrossEntropy(in[0], in[1]) },
	"cross_entropy_weighted": func(in tensors) torch.Tensor { return f.CrossEntropyWeighted(in[0], in[1], in[2]) },
	"cross_entropy_options": func(in tensors) torch.Tensor {
		return f.CrossEntropyWith(in[0], in[1], f.CrossEntropyOptions{Weight: in[2], IgnoreIndex: new(int64(2)),
			Reduction: f.Sum, LabelSmoothing: 0.1})
	},
	"cross_entropy_ignore_zero": func(in tensors) torch.Tensor {
		return f.CrossEntropyWith(in[0], in[1], f.CrossEntropyOptions{IgnoreIndex: new(int64(0)), Reduction: f.None})
	},
	"cross_entropy_images":        func(in tensors) torch.Tensor { return f.CrossEntropy(in[0], in[1]) },
	"cross_entropy_probabilities": func(in tensors) torch.Tensor { return f.CrossEntropy(in[0], in[1]) },
	"cross_entropy_one":           func(in tensors) torch.Tensor { return f.CrossEntropy(in[0], in[1]) },
	"nll_loss":                    func(in tensors) torch.Tensor { return f.NLLLoss(in[0], in[1]) },
	"nll_loss_options": func(in tensors) torch.Tensor {
		return f.NLLLossWith(in[0], in[1], f.NLLLossOptions{Weight: in[2], IgnoreIndex: new(int64(1)),
			Reduction: f.None})
	},
	"nll_loss_images":     func(in tensors) torch.Tensor { return f.NLLLoss(in[0], in[1]) },
	"nll_loss_one":        func(in tensors) torch.Tensor { return f.NLLLoss(in[0], in[1]) },
	"mse_loss_mean":       func(in tensors) torch.Tensor { return f.MSELoss(in[0], in[1], f.Mean) },
	"mse_loss_sum":        func(in tensors) torch.Tensor { return f.MSELoss(in[0], in[1], f.Sum) },
	"mse_loss_none":       func(in tensors) torch.Tensor { return f.MSELoss(in[0], in[1], f.None) },
	"mse_loss_broadcast":  func(in tensors) torch.Tensor { return f.MSELoss(in[0], in[1], f.Mean) },
	"l1_loss_mean":        func(in tensors) torch.Tensor { return f.L1Loss(in[0], in[1], f.Mean) },
	"l1_loss_sum":         func(in tensors) torch.Tensor { return f.L1Loss(in[0], in[1], f.Sum) },
	"l1_loss_none":        func(in tensors) torch.Tensor { return f.L1Loss(in[0], in[1], f.None) },
	"l1_loss_broadcast":   func(in tensors) torch.Tensor { return f.L1Loss(in[0], in[1], f.Mean) },
	"smooth_l1_loss":      func(in tensors) torch.Tensor { return f.SmoothL1Loss(in[0], in[1], f.Mean, 0.5) },
	"smooth_l1_loss_zero": func(in tensors) torch.Tensor { return f.SmoothL1Loss(in[0], in[1], f.Mean, 0) },
	"huber_loss":          func(in tensors) torch.Tensor { return f.HuberLoss(in[0], in[1], f.Sum, 0.7) },
	"kl_div":              func(in tensors) torch.Tensor { return f.KLDiv(in[0], in[1], f.Mean, false) },
	"kl_div_log":          func(in tensors) torch.Tensor { return f.KLDiv(in[0], in[1], f.Sum, true) },
	"bce_with_logits":     func(in tensors) torch.Tensor { return f.BCEWithLogits(in[0], in[1]) },
	"bce_with_logits_options": func(in tensors) torch.Tensor {
		return f.BCEWithLogitsWith(in[0], in[1], f.BCEWithLogitsOptions{Weight: in[2], PosWeight: in[3],
			Reduction: f.Sum})
	},
	"ctc_loss": func(in tensors) torch.Tensor { return f.CTCLoss(in[0], in[1], in[2], in[3], f.CTCLossOptions{}) },
	"ctc_loss_flat": func(in tensors) torch.Tensor {
		return f.CTCLoss(in[0], in[1], in[2], in[3], f.CTCLossOptions{Reduction: f.Sum})
	},
	"ctc_loss_options": func(in tensors) torch.Tensor {
		return f.CTCLoss(in[0], in[1], in[2], in[3], f.CTCLossOptions{Blank: 5, Reduction: f.None, ZeroInfinity: true})
	},
	"relu":                func(in tensors) torch.Tensor { return f.ReLU(in[0]) },
	"gelu":                func(in tensors) torch.Tensor { return f.GELU(in[0]) },
	"gelu_tanh":           func(in tensors) torch.Tensor { return f.GELUTanh(in[0]) },
	"silu":                func(in tensors) torch.Tensor { return f.SiLU(in[0]) },
	"sigmoid":             func(in tensors) torch.Tensor { return f.Sigmoid(in[0]) },
	"tanh":                func(in tensors) torch.Tensor { return f.Tanh(in[0]) },
	"softplus":            func(in tensors) torch.Tensor { return f.Softplus(in[0]) },
	"leaky_relu":          func(in tensors) torch.Tensor { return f.LeakyReLU(in[0], 0.01) },
	"softmax":             func(in tensors) torch.Tensor { return f.Softmax(in[0], 0) },
	"log_softmax":         func(in tensors) torch.Tensor { return f.LogSoftmax(in[0], -1) },
	"dropout":             func(in tensors) torch.Tensor { return f.Dropout(in[0], 0.4, true) },
	"dropout_evaluating":  func(in tensors) torch.Tensor { return f.Dropout(in[0], 0.4, false) },
	"normalize":           func(in tensors) torch.Tensor { return f.Normalize(in[0], 2, 1, 1e-12) },
	"cosine_similarity":   func(in tensors) torch.Tensor { return f.CosineSimilarity(in[0], in[1], 1, 1e-8) },
	"linear":              func(in tensors) torch.Tensor { return f.Linear(in[0], in[1], in[2]) },
	"layer_norm":          func(in tensors) torch.Tensor { return f.LayerNorm(in[0], []int64{4}, in[1], in[2], 1e-5) },
	"gumbel_softmax":      func(in tensors) torch.Tensor { return f.GumbelSoftmax(in[0], 1, false, -1) },
	"gumbel_softmax_hard": func(in tensors) torch.Tensor { return f.GumbelSoftmax(in[0], 0.5, true, 0) },
	"kl_div_batchmean":    func(in tensors) torch.Tensor { return f.KLDiv(in[0], in[1], f.BatchMean, false) },
	"pdist":               func(in tensors) torch.Tensor { return f.PDist(in[0], 2) },
	"pdist_one":           func(in tensors) torch.Tensor { return f.PDist(in[0], 1) },
	"cdist":               func(in tensors) torch.Tensor { return f.CDist(in[0], in[1], 2) },
	"cdist_three":         func(in tensors) torch.Tensor { return f.CDist(in[0], in[1], 3) },
	"grid_sample":         func(in tensors) torch.Tensor { return f.GridSample(in[0], in[1], f.GridSampleOptions{}) },
	"grid_sample_nearest": func(in tensors) torch.Tensor {
		return f.GridSample(in[0], in[1], f.GridSampleOptions{Mode: "nearest", PaddingMode: "border",
			AlignCorners: true})
	},
	"grid_sample_bicubic": func(in tensors) torch.Tensor {
		return f.GridSample(in[0], in[1], f.GridSampleOptions{Mode: "bicubic", PaddingMode: "reflection"})
	},
	"grid_sample_volume": func(in tensors) torch.Tensor {
		return f.GridSample(in[0], in[1], f.GridSampleOptions{AlignCorners: true})
	},
	"affine_grid":        func(in tensors) torch.Tensor { return f.AffineGrid(in[0], []int64{2, 3, 4, 5}, false) },
	"affine_grid_volume": func(in tensors) torch.Tensor { return f.AffineGrid(in[0], []int64{2, 3, 4, 5, 3}, true) },
	"interpolate_antialias": func(in tensors) torch.Tensor {
		return f.Interpolate(in[0], f.InterpolateOptions{Size: []int64{3, 4}, Mode: f.Bilinear2d, Antialias: true})
	},
	"interpolate_antialias_bicubic": func(in tensors) torch.Tensor {
		return f.Interpolate(in[0], f.InterpolateOptions{Scale: []float64{0.6}, Mode: f.Bicubic, Antialias: true})
	},
	"attention": attention(f.ScaledDotProductAttentionOptions{}),
	"attention_mask": func(in tensors) torch.Tensor {
		return f.ScaledDotProductAttention(in[0], in[1], in[2], f.ScaledDotProductAttentionOptions{Mask: in[3],
			Scale: 0.3})
	},
	"attention_causal":  attention(f.ScaledDotProductAttentionOptions{Causal: true}),
	"attention_dropout": attention(f.ScaledDotProductAttentionOptions{Dropout: 0.3}),
	"attention_gqa":     attention(f.ScaledDotProductAttentionOptions{GQA: true}),
	"max_pool2d": func(in tensors) torch.Tensor {
		return f.MaxPool2d(in[0], []int64{2, 3}, f.MaxPoolOptions{Stride: []int64{1}, Padding: []int64{0, 1}})
	},
	"instance_norm": func(in tensors) torch.Tensor {
		return f.InstanceNorm(in[0], f.InstanceNormOptions{RunningMean: in[1], RunningVar: in[2],
			UseRunningStats: true})
	},
	"embedding": func(in tensors) torch.Tensor { return f.Embedding(in[0], in[1]) },
}

func attention(o f.ScaledDotProductAttentionOptions) func(in tensors) torch.Tensor {
	return func(in tensors) torch.Tensor { return f.ScaledDotProductAttention(in[0], in[1], in[2], o) }
}

func TestFunctionsAreThoseOfPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/functional.safetensors")
	for _, name := range g.Names() {
		if c, ok := strings.CutSuffix(name, ".y"); ok && cases[c] == nil {
			t.Errorf("the table lacks the case %s", c)
		}
	}
	for name, call := range cases {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "functional", name)
			torch.Scope(func() {
				var in tensors
				for g.Has(fmt.Sprintf("%s.%d", name, len(in))) {
					in = append(in, g.Tensor(fmt.Sprintf("%s.%d", name, len(in))).Clone())
				}
				if in[0].DType().IsFloatingPoint() {
					in[0].RequiresGrad()
				}
				torch.ManualSeed(3)
				y := call(in)
				compare(t, "y", y, g.Tensor(name+".y"))
				if g.Has(name + ".grad") {
					torch.Backward(torch.BackwardOptions{Gradients: tensors{y.OnesLike()}}, y)
					compare(t, "grad", in[0].Grad(), g.Tensor(name+".grad"))
				}
			})
		})
	}
}

func compare(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	golden.Recorded(t, name, got, want)
}

func ExampleCrossEntropy() {
	logits := torch.From([]float32{2, 0, 0, 0, 0, 2}, 2, 3)
	labels := torch.From([]int64{0, 2})
	fmt.Printf("%.4f\n", f.CrossEntropy(logits, labels).Item())
	fmt.Printf("%.4f\n", f.CrossEntropyWith(logits, labels, f.CrossEntropyOptions{LabelSmoothing: 0.1}).Item())
	// Output:
	// 0.2395
	// 0.3729
}

// The values of three words, as seen by each of them and those before it.
func ExampleScaledDotProductAttention() {
	x := torch.Eye(3).View(1, 1, 3, 3) // batch, heads, words, features
	y := f.ScaledDotProductAttention(x, x, x, f.ScaledDotProductAttentionOptions{Causal: true})
	fmt.Println(y.View(3, 3))
	// Output:
	// tensor([[1.0000, 0.0000, 0.0000],
	//         [0.3595, 0.6405, 0.0000],
	//         [0.2645, 0.2645, 0.4711]])
}

// Pictures are made larger as torch.nn.functional.interpolate does it.
func ExampleInterpolate() {
	x := torch.From([]float32{1, 2, 3, 4}, 1, 1, 2, 2)
	y := f.Interpolate(x, f.InterpolateOptions{Scale: []float64{2}})
	fmt.Println(y.View(4, 4))
	// Output:
	// tensor([[1., 1., 2., 2.],
	//         [1., 1., 2., 2.],
	//         [3., 3., 4., 4.],
	//         [3., 3., 4., 4.]])
}
