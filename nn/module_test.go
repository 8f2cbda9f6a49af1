package nn_test

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestConstructorsNameMistakes(t *testing.T) {
	testenv.RequireTorch(t)
	x := func(shape ...int64) torch.Tensor { return torch.Zeros(shape...) }
	lstm := nn.NewLSTM(3, 2, nil)
	tests := []struct {
		name string
		call func()
		want string
	}{
		{"Linear", func() { nn.NewLinear(0, 3, nil) }, "nn.NewLinear: in must be positive, found 0"},
		{"Conv2d without a kernel", func() { nn.NewConv2d(1, 1, nil, nil) },
			"the kernel has 0 numbers; want 1 or 2 numbers"},
		{"Conv2d with a kernel of zero", func() { nn.NewConv2d(1, 1, nn.Dims{3, 0}, nil) },
			"the kernel must be positive, found 0"},
		{"Conv2d with too many strides", func() {
			nn.NewConv2d(1, 1, nn.Dims{3}, &nn.ConvOptions{Stride: nn.Dims{1, 1, 1}})
		}, "Stride has 3 numbers; want 1 or 2"},
		{"Conv1d with groups that do not divide", func() {
			nn.NewConv1d(4, 6, nn.Dims{3}, &nn.ConvOptions{Groups: 4})
		}, "in (4) and out (6) must be divisible by Groups (4)"},
		{"BatchNorm1d", func() { nn.NewBatchNorm1d(-1, nil) }, "channels must be positive, found -1"},
		{"BatchNorm1d of images", func() { nn.NewBatchNorm1d(2, nil).Forward(x(1, 2, 3, 4)) },
			"want [N, channels] or [N, channels, L], found [1 2 3 4]"},
		{"BatchNorm2d of sequences", func() { nn.NewBatchNorm2d(2, nil).Forward(x(1, 2, 3)) },
			"want [N, channels, H, W], found [1 2 3]"},
		{"LayerNorm", func() { nn.NewLayerNorm(nil, nil) }, "want the size of at least one dimension"},
		{"Embedding", func() {
			nn.NewEmbedding(3, 2, &nn.EmbeddingOptions{PaddingIdx: new(int64(3))})
		}, "PaddingIdx 3 is out of range: there are 3 words"},
		{"Dropout", func() { nn.NewDropout(math.NaN()) }, "p is a probability and must be between 0 and 1, found NaN"},
		{"MaxPool2d", func() { nn.NewMaxPool2d(nil, nil) }, "nn.NewMaxPool2d: the kernel has 0 numbers"},
		{"LSTM", func() { nn.NewLSTM(1, 1, &nn.RNNOptions{Dropout: 2}) }, "nn.NewLSTM: Dropout is a probability"},
		{"GRU", func() { nn.NewGRU(1, 0, nil) }, "nn.NewGRU: hidden must be positive, found 0"},
		{"an LSTM's input", func() { lstm.Forward(x(5, 1, 4)) }, "nn.LSTM: want an input with 3 features in the last " +
			"dimension, found [5 1 4]"},
		{"an LSTM's dimensions", func() { lstm.Forward(x(3)) }, "want an input of 2 dimensions, or 3 with a batch, " +
			"found [3]"},
		{"an LSTM's state", func() { lstm.ForwardState(x(5, 7, 3), x(1, 6, 2), torch.Tensor{}) },
			"want a state of shape [1 7 2], found [1 6 2]"},
		{"an LSTM's state without batch", func() { lstm.ForwardState(x(5, 3), x(1, 1, 2), torch.Tensor{}) },
			"want a state of shape [1 2], found [1 1 2]"},
		{"integers are no parameters", func() { nn.Parameter(torch.Arange(3)) }, "SetRequiresGrad"},
		{"a layer shows the shapes of a mismatch", func() { nn.NewLinear(3, 2, nil).Forward(x(4, 5)) },
			"Linear(float32[4,5], float32[2,3], float32[2])"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := torch.Try(test.call)
			if te := (*torch.Error)(nil); !errors.As(err, &te) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestParameterAndBufferTakeTheElementsOnly(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(2).RequiresGrad()
	p, b := nn.Parameter(w.MulScalar(3)), nn.Buffer(w.MulScalar(3))
	if !p.IsLeaf() || !p.NeedsGrad() || b.NeedsGrad() {
		t.Errorf("parameter: leaf %t, gradients %t; buffer: gradients %t", p.IsLeaf(), p.NeedsGrad(), b.NeedsGrad())
	}
	if again := nn.Parameter(w); !again.Is(w) {
		t.Error("a leaf was copied")
	}
}

func TestGeneratorOfOnesOwnDrawsTheSame(t *testing.T) {
	testenv.RequireTorch(t)
	for name, make := range map[string]func(torch.TensorOptions) any{
		"linear": func(o torch.TensorOptions) any { return nn.NewLinear(5, 4, &nn.LinearOptions{Factory: o}) },
		"conv": func(o torch.TensorOptions) any {
			return nn.NewConv2d(2, 4, nn.Dims{3}, &nn.ConvOptions{Factory: o})
		},
		"embedding": func(o torch.TensorOptions) any { return nn.NewEmbedding(5, 4, &nn.EmbeddingOptions{Factory: o}) },
		"gru":       func(o torch.TensorOptions) any { return nn.NewGRU(5, 4, &nn.RNNOptions{Factory: o}) },
	} {
		t.Run(name, func(t *testing.T) {
			torch.ManualSeed(9)
			want := make(torch.TensorOptions{})
			torch.ManualSeed(1)
			state := torch.DefaultGenerator(torch.CPU).State()
			got := make(torch.TensorOptions{Generator: torch.NewGenerator(9)})
			for i, p := range nn.Params(got) {
				golden.Bits(t, p.Name, p.Tensor, nn.Params(want)[i].Tensor)
			}
			if !slices.Equal(state, torch.DefaultGenerator(torch.CPU).State()) {
				t.Error("the default generator was used too")
			}
		})
	}
}

// keeper records its inputs.
type keeper struct{ seen *[]torch.Tensor }

func (k keeper) Forward(x torch.Tensor) torch.Tensor {
	*k.seen = append(*k.seen, x)
	return x.MulScalar(2)
}

func TestSequentialFreesItsIntermediatesOnly(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		var seen []torch.Tensor
		k := keeper{&seen}
		evaluating := nn.NewDropout(0.5)
		nn.SetTraining(evaluating, false)
		s := nn.Sequential{nn.Identity{}, k, k, evaluating, nn.NewDropout(0), k, nn.Sequential{k, nn.Identity{}},
			nn.Identity{}}
		x := torch.Ones(2)
		before := testenv.Live() // garbage of earlier tests has been freed
		y := s.Forward(x)
		if left := torch.Live() - before; left != 1 {
			t.Errorf("%d tensors are left behind, want the output only", left)
		}
		golden.Bits(t, "output", y, torch.Ones(2).MulScalar(16))
		golden.Bits(t, "input", x, torch.Ones(2))
		for i, s := range seen[1:] {
			if err := torch.Try(func() { s.Numel() }); !errors.Is(err, torch.ErrFreed) {
				t.Errorf("intermediate %d: %v, want ErrFreed", i, err)
			}
		}
		if out := (nn.Sequential{}).Forward(x); !out.Is(x) {
			t.Error("an empty Sequential does not return its input")
		}
	})
}

func TestForwardLeavesNothingBehind(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		lstm := nn.NewLSTM(3, 2, nil)
		gru := nn.NewGRU(3, 2, &nn.RNNOptions{BatchFirst: true})
		bn := nn.NewBatchNorm1d(3, &nn.BatchNormOptions{Cumulative: true})
		for name, f := range map[string]func() torch.Tensor{
			"lstm":           func() torch.Tensor { return lstm.Forward(torch.Ones(4, 2, 3)) },
			"lstm unbatched": func() torch.Tensor { return lstm.Forward(torch.Ones(4, 3)) },
			"gru unbatched":  func() torch.Tensor { return gru.Forward(torch.Ones(4, 3)) },
			"batch norm":     func() torch.Tensor { return bn.Forward(torch.Ones(4, 3)) },
		} {
			f().Free()
			before := testenv.Live()
			f()
			if got := torch.Live() - before; got != 2 { // the input and the output
				t.Errorf("%s: %d tensors are left, want the input and the output", name, got)
			}
		}
	})
}

func TestEvaluationInManyGoroutines(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	model := nn.Sequential{
		nn.NewConv2d(1, 4, nn.Dims{3}, nil), nn.NewBatchNorm2d(4, nil), nn.ReLU{}, nn.NewDropout(0.5),
		nn.NewMaxPool2d(nn.Dims{2}, nil),
		&nn.Flatten{StartDim: 2, EndDim: -1}, nn.NewLSTM(9, 5, &nn.RNNOptions{Layers: 2, Bidirectional: true}),
		nn.NewLinear(10, 3, nil),
	}
	nn.SetTraining(model, false)
	var inputs, want []torch.Tensor
	torch.NoGrad(func() {
		for range 8 {
			inputs = append(inputs, torch.Randn(2, 1, 8, 8))
			want = append(want, model.Forward(inputs[len(inputs)-1]))
		}
	})
	runtime.GC() // runs the cleanups for garbage of the setup
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			torch.NoGrad(func() {
				for range 20 {
					torch.Scope(func() { golden.Bits(t, "output", model.Forward(inputs[i]), want[i]) })
				}
			})
			if names := nn.Params(model); len(names) != 2+2+16+2 {
				t.Errorf("%d parameters, want 22", len(names))
			}
		})
	}
	group.Wait()
}
