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

type state map[string]any

func TestValuesGoThereAndBack(t *testing.T) {
	v, err := Value("", state{"b": []any{1, int64(2), 0.5, "x", true, nil}, "a": map[int]any{3: state{}},
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

func TestFromJSONKeepsOrderAndKinds(t *testing.T) {
	v, err := FromJSON([]byte(`{"z": [1, 1.0, {}], "a": null}`))
	require.NoError(t, err)
	d := v.(*pickle.Dict)
	assert.Equal(t, []any{"z", "a"}, d.Keys)
	assert.Equal(t, []any{int64(1), 1.0, &pickle.Dict{}}, d.Values[0].(*pickle.List).Items)
	for _, text := range []string{"", "{", "[1] 2", `{"a"}`} {
		_, err := FromJSON([]byte(text))
		assert.Error(t, err, text)
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
		state, groups, err := Optimizer(o)
		require.NoError(t, err)
		assert.Contains(t, string(groups), "param_groups")
		assert.Equal(t, []any{int64(0), int64(1)}, state.Keys)
		path := filepath.Join(t.TempDir(), "x.pt")
		require.NoError(t, pickle.WriteFile(path, Dict("model", model, "state", state)))
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
