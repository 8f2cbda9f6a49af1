package nn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestCausalMaskHidesWhatComesBehind(t *testing.T) {
	testenv.RequireTorch(t)
	hidden := math.Inf(-1)
	got := torch.Values[float64](nn.CausalMask(3, torch.TensorOptions{DType: torch.Float64}))
	if want := []float64{0, hidden, hidden, 0, 0, hidden, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("CausalMask(3) = %v, want %v", got, want)
	}
}

func TestCausalIsTheCausalMask(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		x := torch.Randn(5, 2, 8)
		for name, o := range map[string]*nn.MultiheadAttentionOptions{
			"plain":              nil,
			"with appended keys": {AddBiasKV: true, AddZeroAttn: true}, // visible to all queries
		} {
			m := nn.NewMultiheadAttention(8, 2, o)
			masked := m.Forward(x, x, x, nn.AttentionMask{Mask: nn.CausalMask(5, torch.TensorOptions{})})
			golden.Close(t, name, m.Forward(x, x, x, nn.AttentionMask{Causal: true}), masked, 1e-5, 1e-6)
		}
	})
}

// If query, key and value are the same tensor, PyTorch projects a batch with a single product.
// Without a batch it makes three tensors first, so its bits are those of three products.
func TestAttentionWithoutABatchProjectsEachInputByItself(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		torch.ManualSeed(1)
		m := nn.NewMultiheadAttention(6, 2, nil)
		for range 50 {
			x := torch.Randn(3, 6)
			want := m.Forward(x, x.Clone(), x.Clone(), nn.AttentionMask{})
			golden.Bits(t, "one tensor", m.Forward(x, x, x, nn.AttentionMask{}), want)
		}
	})
}

func TestAWordSeesNothingThatComesBehind(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		layer := nn.NewTransformerEncoderLayer(8, 2, &nn.TransformerOptions{FeedForward: 16})
		nn.SetTraining(layer, false)
		x := torch.Randn(5, 2, 8).RequiresGrad()
		layer.Forward(x, nn.AttentionMask{Causal: true}).Narrow(0, 0, 3).Square().Sum(torch.DefaultDType).Backward()
		grad := x.Grad().Abs().SumDim([]int64{1, 2}, false, torch.DefaultDType)
		for i, g := range torch.Values[float32](grad) {
			if (g != 0) != (i < 3) {
				t.Errorf("the gradient of word %d is %v, but three words were asked for", i, g)
			}
		}
	})
}

func TestForwardIsForwardStateFromZeros(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		x := torch.Randn(5, 2, 3)
		rnn, gru, lstm := nn.NewRNN(3, 4, nil), nn.NewGRU(3, 4, nil), nn.NewLSTM(3, 4, nil)
		y, _ := rnn.ForwardState(x, torch.Zeros(1, 2, 4))
		golden.Bits(t, "RNN", rnn.Forward(x), y)
		y, _ = gru.ForwardState(x, torch.Zeros(1, 2, 4))
		golden.Bits(t, "GRU", gru.Forward(x), y)
		y, _, _ = lstm.ForwardState(x, torch.Zeros(1, 2, 4), torch.Zeros(1, 2, 4))
		golden.Bits(t, "LSTM", lstm.Forward(x), y)
	})
}
