package torchsave

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

func TestValuesGoThereAndBack(t *testing.T) {
	v, err := Value("", map[string]any{"b": []any{1, int64(2), 0.5, "x", true, nil},
		"a": map[int]any{3: map[string]any{}},
		"n": json.Number("7"), "f": json.Number("1e-3"), "inf": math.Inf(-1)})
	require.NoError(t, err)
	assert.Equal(t, []any{"a", "b", "f", "inf", "n"}, v.(*pickle.Dict).Keys, "keys come in their order")
	path := filepath.Join(t.TempDir(), "x.pt")
	require.NoError(t, pickle.WriteFile(path, v))
	f, err := pickle.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	assert.Equal(t, map[string]any{"b": []any{1.0, 2.0, 0.5, "x", true, nil},
		"a": map[string]any{"3": map[string]any{}}, "n": 7.0, "f": 1e-3, "inf": "-inf"}, Plain(f.Value()))
}

func TestValueRefuses(t *testing.T) {
	for want, v := range map[string]any{
		"a.0 is a float32":             map[string]any{"a": []any{float32(1)}},
		"a is a map[string]int":        map[string]any{"a": map[string]int{}},
		"a is a map[float64]interface": map[string]any{"a": map[float64]any{}},
	} {
		_, err := Value("", v)
		assert.ErrorContains(t, err, want)
	}
}

func TestStateDicts(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		m := nn.NewLinear(2, 1, nil)
		o, err := optim.AdamW{}.Build([]optim.Group{{Params: nn.Params(m)}})
		require.NoError(t, err)
		m.Forward(torch.Ones(1, 2)).Sum(torch.DefaultDType).Backward()
		o.Step(0.1)
		model, err := Module(m)
		require.NoError(t, err)
		state, err := StateDict(o, 0.1)
		require.NoError(t, err)
		assert.Len(t, state["state"], 2)
		path := filepath.Join(t.TempDir(), "x.pt")
		require.NoError(t, WriteFile(path, map[string]any{"model": model, "state": state["state"]}))
		f, err := pickle.Open(path)
		require.NoError(t, err)
		defer func() { _ = f.Close() }()
		got, err := Tensor(f.Reader, "model.weight")
		require.NoError(t, err)
		golden.Bits(t, "weight", got, m.Weight)
		_, err = Tensor(f.Reader, "state.0.exp_avg")
		require.NoError(t, err)
		_, err = Tensor(f.Reader, "none")
		assert.ErrorContains(t, err, "no tensor")
	})
}

func TestFilesOfBothKindsContinueAnOptimizer(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		build := func() (*nn.Linear, optim.Optimizer) {
			m := nn.NewLinear(2, 1, nil)
			o, err := optim.AdamW{}.Build([]optim.Group{{Params: nn.Params(m), LRScale: 0.5}})
			require.NoError(t, err)
			return m, o
		}
		m, o := build()
		m.Forward(torch.Ones(1, 2)).Sum(torch.DefaultDType).Backward()
		o.Step(0.1)
		saved, err := StateDict(o, 0.2)
		require.NoError(t, err)
		for _, name := range []string{"x.pt", "x.safetensors"} {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, WriteFile(path, map[string]any{"optimizer": saved, "note": math.Inf(1)}))
			got, err := ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, math.Inf(1), got["note"], name)
			_, other := build()
			rate, err := LoadStateDict(other, got["optimizer"].(map[string]any))
			require.NoError(t, err)
			assert.Equal(t, 0.2, rate, name)
			for i, s := range o.State() {
				golden.Bits(t, name+": "+s.Name, other.State()[i].Tensor, s.Tensor)
			}
			EachTensor(got, torch.Tensor.Free)
		}
	})
}

func TestStateDictsThatDoNotFitAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	o, err := optim.SGD{LR: 1}.Build([]optim.Group{{Params: nn.Params(nn.NewLinear(2, 1, nil))}})
	require.NoError(t, err)
	group := map[string]any{"lr": 1, "params": []any{0, 1}}
	for want, saved := range map[string]map[string]any{
		"want a list param_groups":       {},
		"it has 2 groups":                {"param_groups": []any{group, group}},
		"param_groups[0] is int":         {"param_groups": []any{1}},
		"no learning rate lr, found nil": {"param_groups": []any{map[string]any{"lr": "nil"}}},
		"found string":                   {"param_groups": []any{group}, "state": "x"},
		"state 0 is int":                 {"param_groups": []any{group}, "state": map[int]any{0: 1}},
		"state 0.x is int, want a tensor": {"param_groups": []any{group},
			"state": map[int]any{0: map[string]any{"x": 1}}},
	} {
		_, err := LoadStateDict(o, saved)
		assert.ErrorContains(t, err, want)
	}
}

// A float64, to which JSON numbers are usually decoded, cannot represent every int64.
func TestWholeNumbersKeepTheirDigits(t *testing.T) {
	for _, n := range []int64{1<<60 + 1, math.MaxInt64, math.MinInt64, 0} {
		for _, name := range []string{"x.safetensors", "x.pt"} {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, WriteFile(path, map[string]any{"n": n}))
			v, err := ReadFile(path)
			require.NoError(t, err)
			assert.EqualValues(t, n, v["n"], name)
		}
	}
}
