package nn_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"pgregory.net/rapid"
)

func TestPackingIsThatOfPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/packed.safetensors")
	for _, order := range []string{"sorted", "unsorted"} {
		for _, layout := range []string{"time_first", "batch_first"} {
			t.Run(order+" "+layout, func(t *testing.T) {
				goldencount.Start(t, "packed sequences", order+" "+layout)
				torch.Scope(func() {
					name := order + "." + layout + "."
					x := g.Tensor(name + "x").Clone().RequiresGrad()
					lengths := torch.Values[int64](g.Tensor(name + "lengths"))
					p := nn.PackPaddedSequence(x, lengths, layout == "batch_first", order == "sorted")
					compare(t, "data", p.Data, g.Tensor(name+"data"))
					compare(t, "batch sizes", p.BatchSizes, g.Tensor(name+"batch_sizes"))
					if order == "unsorted" {
						compare(t, "sorted indices", p.SortedIndices, g.Tensor(name+"sorted_indices"))
						compare(t, "unsorted indices", p.UnsortedIndices, g.Tensor(name+"unsorted_indices"))
					}
					padded, back := p.Pad(layout == "batch_first", -2, 7)
					compare(t, "padded", padded, g.Tensor(name+"padded"))
					if !slices.Equal(back, lengths) {
						t.Errorf("lengths are %v, want %v", back, lengths)
					}
					torch.Backward(torch.BackwardOptions{Gradients: []torch.Tensor{g.Tensor(name + "gy")}}, padded)
					compare(t, "gradient", x.Grad(), g.Tensor(name+"grad"))
				})
			})
		}
	}
}

func TestRecurrentLayersRunPackedSequencesAsPyTorchDoes(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/packed.safetensors")
	options := nn.RNNOptions{Layers: 2, Bidirectional: true, Dropout: 0.2}
	projected := options
	projected.ProjSize = 2
	type run = func(p *nn.PackedSequence, s []torch.Tensor) (*nn.PackedSequence, []torch.Tensor)
	one := func(f func(*nn.PackedSequence, torch.Tensor) (*nn.PackedSequence, torch.Tensor)) run {
		return func(p *nn.PackedSequence, s []torch.Tensor) (*nn.PackedSequence, []torch.Tensor) {
			y, h := f(p, s[0])
			return y, []torch.Tensor{h}
		}
	}
	lstm := func(o nn.RNNOptions) func() (any, run) {
		return func() (any, run) {
			m := nn.NewLSTM(3, 4, &o)
			return m, func(p *nn.PackedSequence, s []torch.Tensor) (*nn.PackedSequence, []torch.Tensor) {
				y, h, c := m.ForwardPacked(p, s[0], s[1])
				return y, []torch.Tensor{h, c}
			}
		}
	}
	layers := map[string]func() (any, run){
		"RNN":             func() (any, run) { m := nn.NewRNN(3, 4, &options); return m, one(m.ForwardPacked) },
		"GRU":             func() (any, run) { m := nn.NewGRU(3, 4, &options); return m, one(m.ForwardPacked) },
		"LSTM":            lstm(options),
		"LSTM_projection": lstm(projected),
	}
	for kind, make := range layers {
		for _, order := range []string{"sorted", "unsorted"} {
			t.Run(kind+" "+order, func(t *testing.T) {
				torch.Scope(func() {
					prefix := order + ".time_first."
					name := prefix + kind + "."
					torch.ManualSeed(11)
					m, call := make()
					x := g.Tensor(prefix + "x").Clone().RequiresGrad()
					p := nn.PackPaddedSequence(x, torch.Values[int64](g.Tensor(prefix+"lengths")), false,
						order == "sorted")
					var states []torch.Tensor
					for g.Has(fmt.Sprintf("%sstate%d", name, len(states))) {
						states = append(states, g.Tensor(fmt.Sprintf("%sstate%d", name, len(states))))
					}
					torch.ManualSeed(13)
					y, h := call(p, states)
					compare(t, "y", y.Data, g.Tensor(name+"y"))
					for i := range h {
						compare(t, fmt.Sprintf("state %d", i), h[i], g.Tensor(fmt.Sprintf("%sh%d", name, i)))
					}
					torch.Backward(torch.BackwardOptions{Gradients: []torch.Tensor{g.Tensor(name + "gy")}}, y.Data)
					compare(t, "gradient", x.Grad(), g.Tensor(name+"grad"))
					for _, p := range nn.Params(m) {
						compare(t, "gradient of "+p.Name, p.Tensor.Grad(), g.Tensor(name+"grad."+p.Name))
					}
				})
			})
		}
	}
}

func TestPackingAndPaddingGiveTheSequencesBack(t *testing.T) {
	testenv.RequireTorch(t)
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.Int64Range(1, 6), 1, 6).Draw(t, "lengths")
		batchFirst := rapid.Bool().Draw(t, "batchFirst")
		torch.Scope(func() {
			var sequences []torch.Tensor
			for _, n := range lengths {
				sequences = append(sequences, torch.Randn(n, 2))
			}
			padded, back := nn.PackSequence(sequences, false).Pad(batchFirst, 0, 0)
			if !slices.Equal(back, lengths) {
				t.Fatalf("lengths are %v, want %v", back, lengths)
			}
			if !padded.Equal(nn.PadSequence(sequences, batchFirst, 0)) {
				t.Fatalf("the sequences of lengths %v changed", lengths)
			}
		})
	})
}

func TestMalformedPackedSequencesAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Zeros(4, 2, 3)
	good := nn.PackPaddedSequence(x, []int64{4, 2}, false, true)
	with := func(sizes ...int64) *nn.PackedSequence {
		return &nn.PackedSequence{Data: good.Data, BatchSizes: torch.From(sizes)}
	}
	gru := nn.NewGRU(3, 2, nil)
	for name, test := range map[string]struct {
		call func()
		want string
	}{
		"a length for each sequence": {func() { nn.PackPaddedSequence(x, []int64{4}, false, true) },
			"want 2 lengths, one for each sequence, found 1"},
		"no length beyond the end": {func() { nn.PackPaddedSequence(x, []int64{5, 2}, false, true) },
			"the length of sequence 0 must be between 1 and 4, found 5"},
		"no empty sequence": {func() { nn.PackPaddedSequence(x, []int64{4, 0}, false, true) },
			"the length of sequence 1 must be between 1 and 4, found 0"},
		"sorted lengths do not increase": {func() { nn.PackPaddedSequence(x, []int64{2, 4}, false, true) },
			"must not increase with sorted set, found [2 4]"},
		"a vector cannot be packed": {func() {
			nn.PackPaddedSequence(torch.Zeros(4), []int64{4}, false, true)
		}, "want 2 or more dimensions, found [4]"},
		"no sequences cannot be packed": {func() { nn.PackSequence(nil, true) }, "want at least one sequence"},
		"a scalar is no sequence": {func() {
			nn.PackSequence([]torch.Tensor{torch.ScalarTensor(1.0)}, true)
		}, "sequence 0 has no dimension"},
		"the total length is not shorter": {func() { good.Pad(false, 0, 3) },
			"at least that of the longest sequence, 4, found 3"},
		"batch sizes fit the data": {func() { gru.ForwardPacked(with(2, 2, 2), torch.Tensor{}) },
			"" /* 6 rows: fits */},
		"batch sizes reach beyond the data": {func() { gru.ForwardPacked(with(4, 4), torch.Tensor{}) },
			"BatchSizes are 8 elements together, but Data has 6"},
		"batch sizes do not increase": {func() { gru.ForwardPacked(with(1, 5), torch.Tensor{}) },
			"must be positive and not increase, found [1 5]"},
		"batch sizes are positive": {func() { gru.ForwardPacked(with(6, 0), torch.Tensor{}) },
			"must be positive and not increase, found [6 0]"},
		"the zero value is no sequence": {func() { gru.ForwardPacked(&nn.PackedSequence{}, torch.Tensor{}) },
			"want a PackedSequence as PackPaddedSequence makes it"},
		"packed features are those of a GRU": {func() { nn.NewGRU(4, 2, nil).ForwardPacked(good, torch.Tensor{}) },
			"want an input with 4 features"},
		"a state of another batch": {func() { gru.ForwardPacked(good, torch.Zeros(1, 3, 2)) },
			"want a state of shape [1 2 2], found [1 3 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			err := torch.Try(test.call)
			if test.want == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			if te := (*torch.Error)(nil); !errors.As(err, &te) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
