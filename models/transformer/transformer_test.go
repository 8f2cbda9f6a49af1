package transformer_test

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func TestMasksHaveTheFormThatAttentionWants(t *testing.T) {
	testenv.RequireTorch(t)
	ragged := torch.From([]int64{1, 1, 1, 0}, 2, 2)
	if m := transformer.PaddingMask(torch.Tensor{}, torch.Float32, transformer.SDPA); m.Defined() {
		t.Error("no mask became one")
	}
	for _, a := range []transformer.Attention{transformer.SDPA, transformer.Eager} {
		if m := transformer.PaddingMask(ragged.FullLike(1), torch.Float32, a); m.Defined() {
			t.Errorf("%s: a mask that masks nothing was kept", a)
		}
	}
	known := ragged.ToDType(torch.Bool)
	for _, a := range []transformer.Attention{transformer.SDPA, transformer.Eager} {
		if got, want := transformer.PaddingMask(known, torch.Float32, a), transformer.PaddingMask(ragged, torch.Float32,
			a); !got.Equal(want) {
			t.Errorf("%s: a mask of booleans becomes %v, want %v", a, got, want)
		}
		if !transformer.PaddingMask(known.FullLike(true), torch.Float32, a).Defined() {
			t.Errorf("%s: a mask of booleans was not assumed to contain padding", a)
		}
	}
	if m := transformer.PaddingMask(ragged, torch.Float32, transformer.SDPA); m.DType() != torch.Bool ||
		!slices.Equal(m.Shape(), []int64{2, 1, 2, 2}) {
		t.Errorf("sdpa: the mask is %s%v, want bool[2 1 2 2]", m.DType(), m.Shape())
	}
	for dtype, lowest := range map[torch.DType]float64{torch.Float32: -math.MaxFloat32, torch.Float64: -math.MaxFloat64,
		torch.Float16: -65504, torch.BFloat16: -3.3895313892515355e38} {
		m := transformer.PaddingMask(ragged, dtype, transformer.Eager)
		if got := torch.Values[float64](m.ToDType(torch.Float64)); m.DType() != dtype || !slices.Equal(got,
			[]float64{0, 0, 0, lowest}) {
			t.Errorf("eager: the mask is %s %v, want %s [0 0 0 %g]", m.DType(), got, dtype, lowest)
		}
	}
	if err := torch.Try(func() {
		transformer.PaddingMask(ragged, torch.Int64, transformer.Eager)
	}); err == nil || !strings.Contains(err.Error(), "want one of floating-point numbers") {
		t.Errorf("a mask of integers: error %v", err)
	}
}

func TestBothWaysOfAttentionAgree(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	q, k, v := torch.Randn(2, 3, 8), torch.Randn(2, 3, 8), torch.Randn(2, 3, 8)
	mask := torch.From([]int64{1, 1, 1, 1, 0, 0}, 2, 3)
	attend := func(a transformer.Attention) torch.Tensor {
		return a.Attend(q, k, v, transformer.Mask{Padding: transformer.PaddingMask(mask, torch.Float32, a)}, 2, 0)
	}
	golden.Close(t, "attention", attend(transformer.SDPA), attend(transformer.Eager), 1e-5, 1e-6)
}

func TestUnknownNamesListTheKnownOnes(t *testing.T) {
	if _, err := transformer.ActivationByName("swiglu"); err == nil || !strings.Contains(err.Error(), `"gelu_new"`) {
		t.Errorf("error %v, want one that lists the activations", err)
	}
	if _, err := transformer.Attention("flash_attention_2").Resolved(); err == nil || !strings.Contains(err.Error(),
		`"sdpa" "eager"`) {
		t.Errorf("error %v, want one that lists the ways", err)
	}
	if a, err := transformer.Attention("").Resolved(); a != transformer.SDPA || err != nil {
		t.Errorf("the default is %q, error %v", a, err)
	}
}

func TestUndrawnLayersUseNoRandomNumbers(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	before := torch.DefaultGenerator(torch.CPU).State()
	b := transformer.Builder{Undrawn: true}
	made := []any{b.Linear(3, 2), b.Embedding(4, 3, new(int64(1))), b.LayerNorm(3, 1e-12)}
	if !slices.Equal(before, torch.DefaultGenerator(torch.CPU).State()) {
		t.Error("the generator has moved")
	}
	drawn := transformer.Builder{}
	for i, want := range []any{drawn.Linear(3, 2), drawn.Embedding(4, 3, new(int64(1))), drawn.LayerNorm(3, 1e-12)} {
		a, b := nn.Params(made[i]), nn.Params(want)
		for k := range b {
			if a[k].Name != b[k].Name || !slices.Equal(a[k].Tensor.Shape(), b[k].Tensor.Shape()) ||
				!a[k].Tensor.NeedsGrad() {
				t.Errorf("%s%v, want %s%v with gradients", a[k].Name, a[k].Tensor.Shape(), b[k].Name,
					b[k].Tensor.Shape())
			}
		}
	}
}

func TestOnlyMissingTensorsAreDrawn(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	m := nn.Sequential{nn.NewLinear(40, 30, nil), nn.NewEmbedding(30, 20,
		&nn.EmbeddingOptions{PaddingIdx: new(int64(2))}), nn.NewLayerNorm(nn.Dims{3}, nil)}
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			p.Tensor.Fill_(7)
		}
	})
	transformer.InitWeights(m, 0.5, map[string]bool{"0.bias": true, "1.weight": true, "2.weight": true})
	p := nn.Params(m)
	for i, want := range []float32{7, 0, -1, 1, 7} {
		if got := torch.Values[float32](p[i].Tensor.Detach())[0]; want >= 0 && got != want {
			t.Errorf("%s is %v, want %v", p[i].Name, got, want)
		}
	}
	if std := p[2].Tensor.Detach().Std(true).Item(); math.Abs(std-0.5) > 0.05 {
		t.Errorf("the embedding has standard deviation %g, want about 0.5", std)
	}
	if row := p[2].Tensor.Detach().Select(0, 2).Norm(2).Item(); row != 0 {
		t.Errorf("the padding row has norm %g, want 0", row)
	}
}
