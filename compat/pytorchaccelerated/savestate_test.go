package pytorchaccelerated_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
)

// states returns the names of the training states in a folder.
func states(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSecondTrainKeepsTheStatesThatItWrites(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	tr := lineTrainer(quiet(&pa.SaveTrainingState{SaveDir: dir, SaveEveryNEpochs: 1, NotAtEnd: true,
		MaxCheckpoints: 2}))
	for range 2 {
		require.NoError(t, run(tr, train{}))
		assert.Equal(t, []string{"epoch_1", "epoch_2"}, states(t, dir))
	}
	require.NoError(t, run(tr, train{NumEpochs: 3, ResumeFrom: filepath.Join(dir, "epoch_1")}))
	assert.Equal(t, []string{"epoch_2", "epoch_3"}, states(t, dir), "epoch_2 was written once more")
}

// A state that is saved at an event includes the effects of callbacks that run after the saver.
func TestStateOfTheFirstCallbackHasTheWholeEvent(t *testing.T) {
	testenv.RequireTorch(t)
	updateEvery := 1
	finish := func(o train, callbacks ...any) map[string][]byte {
		ema := &pa.ModelEMA{Decay: new(0.8), SavePath: filepath.Join(t.TempDir(), "ema.pt"), UpdateEvery: updateEvery}
		stop := &pa.EarlyStopping{Patience: 50, Threshold: new(100.0)} // counts every epoch as one without improvement
		best := &pa.SaveBestModel{SavePath: filepath.Join(t.TempDir(), "best.pt"), NoLoadAtEnd: true}
		tr, err := pa.New(newNet(), mse, optim.Adam{LR: 0.02}, quiet(append(callbacks, ema, stop, best)...))
		require.NoError(t, err)
		o.NumEpochs, o.GradientAccumulationSteps = 3, 3
		require.NoError(t, run(tr, o))
		out := ends(tr.Run, ema)
		for name, c := range map[string]pa.StateSaver{"ema": ema, "early stopping": stop, "save best": best} {
			out[name], err = c.MarshalState()
			require.NoError(t, err)
		}
		return out
	}
	for updateEvery = range 2 {
		want := finish(train{})
		saves := &everywhere{dir: t.TempDir()}
		require.Equal(t, want, finish(train{}, saves))
		for _, state := range saves.saved {
			assert.Equal(t, want, finish(train{ResumeFrom: state}), "%d %s", updateEvery, filepath.Base(state))
		}
	}
}

func TestStateIsWrittenWhereItsEventEndsTheRun(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	stop := &pa.EarlyStopping{Threshold: new(100.0)}
	tr := lineTrainer(quiet(&pa.SaveTrainingState{SaveDir: dir, SaveEveryNEpochs: 1, NotAtEnd: true}, stop))
	require.NoError(t, run(tr, train{NumEpochs: 5}))
	assert.Equal(t, []string{"epoch_1", "epoch_2"}, states(t, dir))
}

func TestAResumedRunDeletesTheStatesOfItsEarlierSessions(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	session := func(o train) {
		tr := lineTrainer(quiet(&pa.SaveTrainingState{SaveDir: dir, SaveEveryNEpochs: 1, NotAtEnd: true,
			MaxCheckpoints: 2}))
		require.NoError(t, run(tr, o))
	}
	session(train{NumEpochs: 3})
	require.Equal(t, []string{"epoch_2", "epoch_3"}, states(t, dir))
	session(train{NumEpochs: 4, ResumeFrom: filepath.Join(dir, "epoch_3")})
	assert.Equal(t, []string{"epoch_3", "epoch_4"}, states(t, dir))
	session(train{NumEpochs: 6, ResumeFrom: filepath.Join(dir, "epoch_4")})
	assert.Equal(t, []string{"epoch_5", "epoch_6"}, states(t, dir))
}
