package nn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// deferrable contains every kind of parameter whose initialization is postponed, and some that are
// not postponed.
type deferrable struct {
	Embed     *nn.Embedding          `module:"embed"`
	Padded    *nn.Embedding          `module:"padded"`
	Attention *nn.MultiheadAttention `module:"attention"`
	Norm      *nn.LayerNorm          `module:"norm"`
	Batch     *nn.BatchNorm1d        `module:"batch"`
	LSTM      *nn.LSTM               `module:"lstm"`
	Linears   []*nn.Linear           `module:"linears"`
	Tied      *nn.Linear             `module:"tied"`
}

func newDeferrable() *deferrable {
	m := &deferrable{Embed: nn.NewEmbedding(300, 64, nil),
		Padded:    nn.NewEmbedding(300, 64, &nn.EmbeddingOptions{PaddingIdx: new(int64(0))}),
		Attention: nn.NewMultiheadAttention(64, 4, nil), Norm: nn.NewLayerNorm(nn.Dims{64}, nil),
		Batch: nn.NewBatchNorm1d(64, nil), LSTM: nn.NewLSTM(64, 64, nil)}
	for range 3 {
		m.Linears = append(m.Linears, nn.NewLinear(64, 300, nil))
	}
	m.Tied = nn.NewLinear(64, 300, nil)
	m.Tied.Weight = m.Embed.Weight
	initialize.Normal(m.Linears[1].Weight, 0, 0.02, nil) // again, as models with their own initialization do
	initialize.Orthogonal(m.Linears[2].Weight, 1, nil)
	initialize.TruncNormal(m.Attention.InProjWeight, 0, 1, -2, 2, nil)
	initialize.Zeros(m.Attention.OutProj.Weight)
	m.Linears[0].Weight.SetRequiresGrad(false)
	nn.To(m.Linears[2], torch.TensorOptions{DType: torch.Float64})
	return m
}

func TestDeferredParametersHaveTheValuesOfTheSeed(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(7)
	want := newDeferrable()
	next := torch.Rand(3)
	torch.ManualSeed(7)
	var got *deferrable
	nn.Defer(func() { got = newDeferrable() })
	assert.True(t, torch.Rand(3).Equal(next), "the generator has advanced as usual")
	state := torch.DefaultGenerator(torch.CPU).State()

	without := map[string]bool{}
	for _, p := range nn.Params(got) {
		if p.Tensor.Device() == torch.Meta {
			without[p.Name] = true
		}
	}
	assert.Equal(t, map[string]bool{"embed.weight": true, "attention.in_proj_weight": true,
		"attention.out_proj.weight": true, "linears.0.weight": true, "linears.1.weight": true,
		"linears.2.weight": true}, without)
	assert.Panics(t, func() { got.Linears[0].Weight.Detach().Bytes() }, "it has no values yet")

	for i := len(got.Linears) - 1; i >= 0; i-- { // in any order and in parts
		require.NoError(t, nn.Materialize(got.Linears[i]))
	}
	require.NoError(t, nn.Materialize(got))
	require.NoError(t, nn.Materialize(got), "nothing is left to do")
	assert.Equal(t, state, torch.DefaultGenerator(torch.CPU).State())
	assert.Equal(t, got.Embed.Weight, got.Tied.Weight)
	params := nn.StateDict(got)
	for i, w := range nn.StateDict(want) {
		assert.Equal(t, w.Name, params[i].Name)
		assert.Equal(t, w.Tensor.NeedsGrad(), params[i].Tensor.NeedsGrad(), w.Name)
		assert.True(t, w.Tensor.Detach().Equal(params[i].Tensor.Detach()), "%s has other values", w.Name)
	}
}

func TestADeferredParameterThatWasChangedOtherwiseIsNamed(t *testing.T) {
	testenv.RequireTorch(t)
	var l *nn.Linear
	nn.Defer(func() { l = nn.NewLinear(100, 100, nil) })
	torch.NoGrad(func() { l.Weight.MulScalar_(2) })
	require.ErrorContains(t, nn.Materialize(l), "parameter weight was left for later by nn.Defer, and then changed")
	nn.Defer(func() { l = nn.NewLinear(100, 100, nil) })
	assert.ErrorContains(t, torch.Try(func() { initialize.Zeros(l.Weight.Detach().Narrow(0, 0, 3)) }), "has no memory")
}

// A Transformer copies its layers and draws them again; the layers of an encoder keep the copied
// values.
func TestDeferredCopiesOfLayers(t *testing.T) {
	testenv.RequireTorch(t)
	for name, build := range map[string]func() any{
		"transformer": func() any { return nn.NewTransformer(64, 2, 2, 2, nil) },
		"encoder": func() any {
			return nn.NewTransformerEncoder(nn.NewTransformerEncoderLayer(64, 2, nil), 3, nil)
		},
	} {
		torch.ManualSeed(7)
		want := nn.StateDict(build())
		torch.ManualSeed(7)
		var model any
		nn.Defer(func() { model = build() })
		require.NoError(t, nn.Materialize(model), name)
		got := nn.StateDict(model)
		require.Len(t, got, len(want))
		for i, w := range want {
			assert.Equal(t, w.Name, got[i].Name)
			assert.True(t, w.Tensor.Detach().Equal(got[i].Tensor.Detach()), "%s: %s has other values", name, w.Name)
		}
	}
}
