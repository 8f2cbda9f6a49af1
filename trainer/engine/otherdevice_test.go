package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A checkpoint made on a GPU is one made on the CPU with the state of one more generator: CUDA's
// has 16 bytes, seed and offset.
func TestACheckpointOfAGPUResumesOnTheCPUAndNamesWhatItCannotPutBack(t *testing.T) {
	testenv.RequireTorch(t)
	newStep := func() (trainer.Step[data.Example, engine.Examples], *[]string) {
		var warnings []string
		s, err := engine.New(engine.Classify(nn.Sequential{nn.NewLinear(2, 2, nil)}), engine.Options{
			Warn: func(text string) { warnings = append(warnings, text) }})
		require.NoError(t, err)
		return s, &warnings
	}
	dir := t.TempDir()
	torch.ManualSeed(7)
	saved, _ := newStep()
	require.NoError(t, saved.Save(dir, trainer.SaveOptions{}))
	want := torch.DefaultGenerator(torch.CPU).State()

	add := func(name string) {
		file := filepath.Join(dir, "rng_state.safetensors")
		states, metadata, err := tensorio.Load(file)
		require.NoError(t, err)
		defer tensorio.Free(states)
		torch.Scope(func() {
			other := torch.FromBytes(make([]byte, 16), torch.Uint8, 16)
			err = tensorio.Save(file, append(states, torch.Named{Name: name, Tensor: other}), metadata)
		})
		require.NoError(t, err)
	}
	add("cuda:3")
	torch.ManualSeed(8)
	resumed, warnings := newStep()
	require.NoError(t, resumed.Load(dir, trainer.LoadOptions{}))
	assert.Equal(t, want, torch.DefaultGenerator(torch.CPU).State(), "the CPU's is put back")
	require.Len(t, *warnings, 1)
	assert.Contains(t, (*warnings)[0],
		"made on cuda:3, and this run is on cpu: the state of the generator of cuda:3 is not restored")

	add("tpu:0")
	resumed, _ = newStep()
	require.ErrorContains(t, resumed.Load(dir, trainer.LoadOptions{}), `"tpu:0" is neither a device nor a generator of the task`)
}
