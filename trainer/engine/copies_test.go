package engine_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The copy for a later save reuses the memory of the previous copy, and that memory is freed in the
// end.
func TestTheMemoryOfACopyIsUsedAgain(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	require.NoError(t, s.Train(t.Context(), batchOf(t, 3), trainer.Window{Len: 1, Divisor: 1}))
	_, err := s.Update(t.Context(), 0.1)
	require.NoError(t, err)
	begin := testenv.Live()
	save := func() {
		require.NoError(t, s.Save(t.TempDir(), trainer.SaveOptions{Later: func(write func() ([]string, error)) {
			_, err := write()
			require.NoError(t, err)
		}}))
	}
	save()
	once := testenv.Live()
	assert.Greater(t, once, begin)
	save()
	assert.Equal(t, once, testenv.Live())
	require.NoError(t, s.EmptyCache())
	assert.Equal(t, begin, testenv.Live())
	runtime.KeepAlive(s)
}

// later saves with SaveOptions.Later, and returns the function that writes.
func later(t *testing.T, s *tagStep, dir string) (write func() ([]string, error)) {
	t.Helper()
	require.NoError(t, s.Save(dir, trainer.SaveOptions{Later: func(w func() ([]string, error)) { write = w }}))
	return write
}

// An update directly after a save waits until the weights and the optimizer have been copied.
func TestAnUpdateWaitsForTheCopy(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	torch.NoGrad(func() {
		for _, p := range nn.Params(s.Model()) { // large, so that the copy takes its time
			p.Tensor.SetData_(torch.Randn(1000, 4000))
			p.Tensor.SetGrad(torch.Ones(1000, 4000))
		}
	})
	want, got := t.TempDir(), t.TempDir()
	require.NoError(t, s.Save(want, trainer.SaveOptions{}))
	write := later(t, s, got)
	_, err := s.Update(t.Context(), 0.1)
	require.NoError(t, err)
	bad, err := write()
	require.NoError(t, err)
	assert.Empty(t, bad)
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		x, err := os.ReadFile(filepath.Join(want, name))
		require.NoError(t, err)
		y, err := os.ReadFile(filepath.Join(got, name))
		require.NoError(t, err)
		assert.True(t, string(x) == string(y), "%s is not that of the instant of the save", name)
	}
	require.NoError(t, s.EmptyCache())
}

// Weights that something else changes during the copy are noticed, and from then on they are copied
// at once.
func TestAChangeBesideTheCopyIsNoticed(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	param := nn.Params(s.Model())[0].Tensor
	change := func() { torch.NoGrad(func() { param.Add_(torch.Ones(1)) }) }
	write := later(t, s, t.TempDir())
	change()
	_, err := write()
	require.ErrorIs(t, err, trainer.ErrChangedWhileSaved)
	assert.ErrorContains(t, err, nn.Params(s.Model())[0].Name)

	want, got := t.TempDir(), t.TempDir()
	require.NoError(t, s.Save(want, trainer.SaveOptions{}))
	write = later(t, s, got)
	change()
	_, err = write()
	require.NoError(t, err)
	x, err := os.ReadFile(filepath.Join(want, "model.safetensors"))
	require.NoError(t, err)
	y, err := os.ReadFile(filepath.Join(got, "model.safetensors"))
	require.NoError(t, err)
	assert.True(t, string(x) == string(y))
	require.NoError(t, s.EmptyCache())
}

// The function that writes a copy returns the names of its weights that are not finite.
func TestACopyNamesItsWeightsThatAreNotFinite(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	bad := nn.Params(s.Model())[0]
	torch.NoGrad(func() { bad.Tensor.Reshape(-1).Narrow(0, 0, 1).Fill_(math.NaN()) })
	write := later(t, s, t.TempDir())
	names, err := write()
	require.NoError(t, err)
	assert.Equal(t, []string{bad.Name}, names)
	require.NoError(t, s.EmptyCache())
}

// The loop waits for the writer before it frees the memory of the copies.
func TestAnAsyncSaveBesideAnEmptyCache(t *testing.T) {
	fit := func(async bool) (dir string) {
		torch.ManualSeed(1)
		s, err := engine.New(engine.Classify(newNet()), engine.Options{})
		require.NoError(t, err)
		o := quiet(trainer.Options{OutputDir: t.TempDir(), Save: trainer.Every(1, trainer.Update), AsyncSave: async,
			EmptyCacheSteps: 1, MaxSteps: 8, BatchSize: 4})
		run, err := trainer.New(s, o)
		require.NoError(t, err)
		_, err = run.Fit(t.Context(), ring(30), nil)
		require.NoError(t, err)
		return o.OutputDir
	}
	want, got := fit(false), fit(true)
	for n := range 8 {
		for _, name := range []string{"model.safetensors", "optimizer.safetensors", "rng_state.safetensors"} {
			name = filepath.Join(fmt.Sprint("checkpoint-", n+1), name)
			x, err := os.ReadFile(filepath.Join(want, name))
			require.NoError(t, err)
			y, err := os.ReadFile(filepath.Join(got, name))
			require.NoError(t, err)
			assert.True(t, string(x) == string(y), name)
		}
	}
}
