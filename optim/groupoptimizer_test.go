package optim_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// groupOptimizers are the cases of testdata/groups/groups.py.
var groupOptimizers = map[string]struct {
	builder optim.Builder
	groups  []groupCase
}{
	"Muon and AdamW": {optim.Muon{LR: peak}, []groupCase{
		{names: []string{"weight", "late"}},
		{names: []string{"bias", "scale"}, optimizer: apart},
		{names: []string{"rare", "frozen"}, optimizer: apart, decay: new(0.2)},
	}},
	"betas": {optim.AdamW{LR: peak}, []groupCase{
		{names: []string{"weight", "bias"}, optimizer: optim.AdamW{LR: peak, Beta1: new(0.7), Beta2: new(0.9),
			Eps: new(1e-5)}},
		{names: []string{"scale", "late", "rare", "frozen"}},
	}},
	"momenta": {optim.SGD{LR: peak, Momentum: 0.9, Nesterov: true, Implementation: optim.ForLoop}, []groupCase{
		{names: []string{"weight"}},
		{names: []string{"bias", "scale", "late"}, optimizer: optim.SGD{LR: 2 * peak, Momentum: 0.5,
			Implementation: optim.ForLoop}},
		{names: []string{"rare", "frozen"}, optimizer: optim.SGD{LR: peak, Implementation: optim.ForLoop}},
	}},
}

var apart = optim.AdamW{LR: peak / 4, Beta1: new(0.8), Beta2: new(0.95), Eps: new(1e-6)}

func TestGroupsHaveTheirOptimizers(t *testing.T) {
	testenv.RequireTorch(t)
	inputs := golden.Load(t, "testdata/optim.safetensors")
	want := golden.Load(t, "testdata/groups/groups.safetensors")
	for name, c := range groupOptimizers {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "optimizers, 20 updates", "groups: "+name)
			for _, stop := range []int{0, 2, 10} {
				first, r := start(t, inputs, c.builder, c.groups, nil), start(t, inputs, c.builder, c.groups, nil)
				first.updates(0, stop)
				for name, p := range r.params {
					torch.NoGrad(func() { p.Copy_(first.params[name]) })
				}
				require.NoError(t, r.opt.LoadState(first.opt.State(), first.opt.Updates()))
				r.updates(stop, updates)
				r.g = want
				r.compare(name)
				if stop == 0 {
					sameGroups(t, want.Metadata[name], r.opt)
				}
			}
		})
	}
}

// sameGroups compares the settings of groups with the param_groups of PyTorch's optimizers.
func sameGroups(t *testing.T, want string, opt optim.Optimizer) {
	t.Helper()
	_, text, err := optim.ToPyTorch(opt)
	require.NoError(t, err)
	var got struct {
		Groups []map[string]any `json:"param_groups"`
	}
	var theirs []map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	require.NoError(t, json.Unmarshal([]byte(want), &theirs))
	require.Len(t, got.Groups, len(theirs))
	for i, group := range theirs {
		for key, value := range group {
			if key != "params" && key != "foreach" && key != "fused" { // each of PyTorch's optimizers numbers its own
				assert.Equal(t, value, got.Groups[i][key], "%s of group %d", key, i)
			}
		}
	}
}

// pair makes an optimizer for a matrix and a vector in a group with an optimizer of its own.
func pair(t *testing.T, b, own optim.Builder) optim.Optimizer {
	t.Helper()
	opt, err := b.Build([]optim.Group{
		{Params: []torch.Named{{Name: "matrix", Tensor: torch.Ones(4, 3).RequiresGrad()}}},
		{Params: []torch.Named{{Name: "vector", Tensor: torch.Ones(3).RequiresGrad()}}, Optimizer: own, Name: "own"},
	})
	require.NoError(t, err)
	return opt
}

func setGrads(o optim.Optimizer, value float64) {
	for _, p := range o.Params() {
		p.Tensor.SetGrad(p.Tensor.Detach().MulScalar(value))
	}
}

func TestGroupsThatAreRebuiltKeepTheirRates(t *testing.T) {
	testenv.RequireTorch(t)
	first := pair(t, optim.Muon{LR: 0.02}, optim.AdamW{LR: 0.005})
	assert.Equal(t, 0.25, first.Groups()[1].LRScale)
	again, err := optim.Muon{LR: 0.5}.Build(first.Groups())
	require.NoError(t, err)
	assert.Equal(t, first.Groups(), again.Groups())
}

func TestAScheduleMovesTheMomentumOfAllGroups(t *testing.T) {
	testenv.RequireTorch(t)
	opt := pair(t, optim.Muon{}, optim.AdamW{})
	require.NoError(t, opt.(optim.MomentumSetter).SetMomentum(0.7))
	_, text, err := optim.ToPyTorch(opt)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"momentum":0.7`)
	assert.Contains(t, string(text), `"betas":[0.7,0.999]`)
	err = pair(t, optim.Muon{}, optim.Adagrad{}).(optim.MomentumSetter).SetMomentum(0.7)
	assert.ErrorContains(t, err, "Adagrad has neither a momentum nor a beta1")

	opt = pair(t, optim.SGD{}, optim.SGD{Momentum: 0.9})
	setGrads(opt, 1)
	opt.Step(0.1)
	require.NoError(t, opt.(optim.MomentumSetter).SetMomentum(0.5), "the buffer of one group is there, the other's not")
	setGrads(opt, 1)
	opt.Step(0.1)
	assert.Len(t, opt.State(), 2)
}

func TestSomeGroupsMayBeScheduleFree(t *testing.T) {
	testenv.RequireTorch(t)
	opt := pair(t, optim.SGD{LR: 0.1}, optim.SGDScheduleFree{LR: 0.1})
	modes := opt.(optim.ModeSwitcher)
	for range 3 {
		modes.Train()
		setGrads(opt, 1)
		opt.Step(0.1)
	}
	matrix, vector := opt.Params()[0].Tensor, opt.Params()[1].Tensor
	inTraining := vector.Clone()
	trained := matrix.Clone()
	modes.Eval()
	assert.True(t, matrix.Equal(trained))
	assert.False(t, vector.Equal(inTraining))
	again := pair(t, optim.SGD{LR: 0.1}, optim.SGDScheduleFree{LR: 0.1})
	require.NoError(t, again.LoadState(opt.State(), opt.Updates()))
	torch.NoGrad(func() { again.Params()[1].Tensor.Copy_(vector) })
	again.(optim.ModeSwitcher).Train()
	assert.True(t, again.Params()[1].Tensor.AllClose(inTraining, 1e-6, 1e-6, false))
}

// Only if every group has a fused kernel may the kernels decide about an update by themselves.
func TestUpdatesAreSkippedInAllGroups(t *testing.T) {
	testenv.RequireTorch(t)
	for _, b := range []optim.Builder{optim.Muon{}, optim.SGD{}} {
		opt := pair(t, b, optim.AdamW{})
		type scaled interface {
			StepUnless(lr float64, foundInf torch.Tensor)
			StepSupportsAMPScaling() bool
		}
		_, muon := b.(optim.Muon)
		assert.Equal(t, !muon, opt.(scaled).StepSupportsAMPScaling())
		for _, inf := range []float64{0, 1} {
			setGrads(opt, 1)
			before := opt.Params()[0].Tensor.Clone()
			ownBefore := opt.Params()[1].Tensor.Clone()
			opt.(scaled).StepUnless(0.1, torch.Full(inf))
			assert.Equal(t, inf == 1, opt.Params()[0].Tensor.Equal(before))
			assert.Equal(t, inf == 1, opt.Params()[1].Tensor.Equal(ownBefore))
		}
		assert.Equal(t, 1, opt.Updates())
	}
}

func TestLayerByLayerWithOptimizersOfGroups(t *testing.T) {
	testenv.RequireTorch(t)
	plain := pair(t, optim.Muon{LR: 0.1}, optim.AdamW{LR: 0.01})
	layered := pair(t, optim.LayerWise{Optimizer: optim.Muon{LR: 0.1}}, optim.AdamW{LR: 0.01})
	defer layered.(optim.BackwardUpdater).RemoveHooks()
	loss := func(o optim.Optimizer) torch.Tensor {
		matrix, vector := o.Params()[0].Tensor, o.Params()[1].Tensor
		return matrix.Mul(vector).Square().Sum(0)
	}
	for range 3 {
		loss(plain).Backward()
		plain.Step(0.1)
		plain.ZeroGrad()
		layered.(optim.BackwardUpdater).BeforeBackward(0.1)
		loss(layered).Backward()
		layered.Step(0.1)
	}
	for i, p := range plain.Params() {
		assert.True(t, p.Tensor.Equal(layered.Params()[i].Tensor), p.Name)
	}
}

func TestOptimizersThatAGroupCannotHave(t *testing.T) {
	testenv.RequireTorch(t)
	params := func() []torch.Named {
		return []torch.Named{{Name: "vector", Tensor: torch.Ones(3).RequiresGrad()}}
	}
	for says, c := range map[string]struct {
		builder, own optim.Builder
		kind         error
	}{
		"LOMO does not work in a group": {optim.AdamW{}, optim.LOMO{}, optim.ErrOption},
		"LayerWise does not work in a group": {optim.AdamW{}, optim.LayerWise{Optimizer: optim.AdamW{}},
			optim.ErrOption},
		"AdamW.LR is -1": {optim.SGD{}, optim.AdamW{LR: -1}, optim.ErrOption},
		`parameter "vector" has 1 dimensions; Muon`: {optim.SGD{}, optim.Muon{}, optim.ErrParam},
	} {
		_, err := c.builder.Build([]optim.Group{{Params: params(), Optimizer: c.own}})
		require.ErrorContains(t, err, says)
		assert.True(t, errors.Is(err, c.kind), says)
	}
	err := torch.Try(func() {
		optim.LayerDecay([]optim.Group{{Name: "own", Optimizer: optim.AdamW{}}}, 0.5, optim.TransformerLayer)
	})
	assert.ErrorContains(t, err, `group "own" has an Optimizer and no LRScale`)
	_, err = optim.SGD{}.Build([]optim.Group{{Params: params()}, {Optimizer: optim.AdamW{}}})
	assert.NoError(t, err, "a group may be empty")
}
