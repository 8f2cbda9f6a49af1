package recorded

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

func TestOptimizer(t *testing.T) {
	parse := func(text string) *spec.Object {
		o, err := spec.ParseObject([]byte(text))
		require.NoError(t, err)
		return o
	}
	b, err := Optimizer("adamw", parse(`{"lr": 0.1, "betas": [0.8, 0.9], "eps": null, "amsgrad": true, "fused": true}`))
	require.NoError(t, err)
	assert.Equal(t, optim.AdamW{LR: 0.1, Beta1: new(0.8), Beta2: new(0.9), AMSGrad: true, Implementation: optim.Fused},
		b)
	b, err = Optimizer("Adafactor", parse(`{"eps": [null, 0.01], "d": 2}`))
	require.NoError(t, err)
	assert.Equal(t, optim.Adafactor{Eps2: new(0.01), ClipThreshold: new(2.0), Implementation: optim.ForLoop}, b)
	for name, text := range map[string]string{"Sgd": `{}`, "sgd": `{"capturable": true}`, "SGD": `{"speed": 1}`} {
		var missing *spec.Unsupported
		_, err = Optimizer(name, parse(text))
		assert.ErrorAs(t, err, &missing, name)
	}
}

func TestFormula(t *testing.T) {
	testenv.RequireTorch(t)
	m := nn.NewLinear(2, 3, nil)
	f := Formula{Formula: new(uint64(7)), Gain: map[string]float64{"weight": 2}}
	require.NoError(t, f.Fill(m))
	twice := torch.Values[float32](m.Weight)
	require.NoError(t, Formula{Formula: f.Formula}.Fill(m))
	for i, v := range torch.Values[float32](m.Weight) {
		assert.InDelta(t, 2*v, twice[i], 1e-6)
	}
	assert.NotEqual(t, twice[0], twice[1])
	assert.Error(t, Formula{Formula: f.Formula, Gain: map[string]float64{"none": 1}}.Fill(m))
	assert.Error(t, Formula{}.Fill(m))
}

func TestConfig(t *testing.T) {
	got := Config(map[string]any{"b": []any{json.Number("1"), json.Number("1.5")}, "10": "x"})
	assert.Equal(t, omegaconf.Map{{Key: int64(10), Value: "x"}, {Key: "b", Value: []any{int64(1), 1.5}}}, got)
}
