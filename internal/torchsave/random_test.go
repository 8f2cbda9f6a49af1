package torchsave_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// transformers seeds with 42, and its Trainer draws neither from random nor from numpy.random.
func TestSeededStatesAreThoseOfPython(t *testing.T) {
	testenv.RequireTorch(t)
	want, _, _, err := torchsave.ReadRandom("../../trainer/engine/testdata/hf_checkpoint/checkpoint-3/rng_state.pth",
		torchsave.TransformersRandom)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rng_state.pth")
	for _, names := range []torchsave.RandomNames{torchsave.TransformersRandom, torchsave.AccelerateRandom} {
		require.NoError(t, torchsave.SeedRandom(42).Write(path, names, []torch.Device{torch.CPU}, "step", 7))
		got, generators, rest, err := torchsave.ReadRandom(path, names)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, torch.DefaultGenerator(torch.CPU).State(), generators[torch.CPU])
		step, _ := rest.Get("step")
		assert.Equal(t, int64(7), step)
	}
}

func TestFilesThatHoldNoRandomStates(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "rng_state.pth")
	for want, v := range map[string]any{
		"want a dictionary of random states": &pickle.List{},
		"want random.getstate()":             torchsave.Dict("python", 1, "numpy", 2),
		`no tensor "cpu"`: torchsave.Dict("python", pickle.Tuple{1, 2, 3}, "numpy",
			pickle.Tuple{"MT19937", 2, 3, 4, 5}),
	} {
		require.NoError(t, pickle.WriteFile(path, v))
		_, _, _, err := torchsave.ReadRandom(path, torchsave.TransformersRandom)
		assert.ErrorContains(t, err, want)
	}
}

func TestSchedulesAreReadAsWritten(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "scheduler.pt")
	groups := []optim.Group{{}, {LRScale: 0.1}}
	want := torchsave.Schedule{Steps: 3, Base: 0.01, Rate: 0.005}
	require.NoError(t, torchsave.WriteSchedule(path, want, groups))
	got, err := torchsave.ReadSchedule(path, groups)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	_, err = torchsave.ReadSchedule(path, groups[:1])
	assert.ErrorContains(t, err, "2 groups, and the optimizer has 1")
	for want, d := range map[string]*pickle.Dict{
		"of no schedule that is a function": torchsave.Dict("best", 1.0),
		"its last_epoch is -3":              torchsave.Dict("base_lrs", &pickle.List{}, "last_epoch", -3),
		"its base_lrs[0] is x": torchsave.Dict("last_epoch", 3, "base_lrs",
			&pickle.List{Items: []any{"x", 1.0}}),
	} {
		require.NoError(t, pickle.WriteFile(path, d))
		_, err := torchsave.ReadSchedule(path, groups)
		assert.ErrorContains(t, err, want)
	}
}

func TestScalersAreReadAsWritten(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "scaler.pt")
	want := amp.GradScalerState{Scale: 1024, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2000,
		GrowthTracker: 3}
	v, err := torchsave.FromStruct(want)
	require.NoError(t, err)
	require.NoError(t, torchsave.WriteFile(path, v))
	saved, err := torchsave.ReadFile(path)
	require.NoError(t, err)
	var got amp.GradScalerState
	require.NoError(t, torchsave.ToStruct(saved, &got))
	assert.Equal(t, want, got)
}

func TestRestoredGeneratorsDrawWhatTheyDrewBefore(t *testing.T) {
	testenv.RequireTorch(t)
	devices := torchsave.DevicesOf(torch.CPU)
	require.Equal(t, []torch.Device{torch.CPU}, devices)
	draw := func() (x float32) {
		torch.Scope(func() { x = torch.Values[float32](torch.Rand(1))[0] })
		return x
	}
	states := torchsave.GeneratorsOf(devices)
	require.Contains(t, states, "cpu")
	first := draw()
	assert.NotEqual(t, first, draw())
	states.Restore(devices)
	assert.Equal(t, first, draw())

	torchsave.Generators{"cuda:0": states["cpu"]}.Restore(devices) // no states for these devices: nothing changes
	assert.NotEqual(t, first, draw())
	err := torch.Try(func() { torchsave.Generators{"cpu": []byte("no state")}.Restore(devices) })
	assert.ErrorContains(t, err, "SetState")
}

// After a resume, a process may have its GPU under another index.
func TestTheStateOfAGPUIsFoundUnderAnotherNumber(t *testing.T) {
	first, second := []byte("first"), []byte("second")
	for _, c := range []struct {
		states torchsave.Generators
		device torch.Device
		want   []byte
	}{
		{torchsave.Generators{"cpu": first, "cuda:0": second}, torch.CUDA(4), second},
		{torchsave.Generators{"cpu": first, "cuda:0": second}, torch.CUDA(0), second},
		{torchsave.Generators{"cpu": first, "cuda:0": second}, torch.CPU, first},
		{torchsave.Generators{"cuda:0": first, "cuda:4": second}, torch.CUDA(4), second},
		{torchsave.Generators{"cuda:0": first, "cuda:1": second}, torch.CUDA(4), nil}, // ambiguous
		{torchsave.Generators{"cpu": first}, torch.CUDA(0), nil},
		{torchsave.Generators{"cuda:0": first}, torch.CPU, nil},
		{nil, torch.CUDA(0), nil},
	} {
		state, ok := torchsave.GeneratorOf(c.states, c.device)
		assert.Equal(t, c.want, state, "%v of %v", c.device, c.states)
		assert.Equal(t, c.want != nil, ok)
	}
}
