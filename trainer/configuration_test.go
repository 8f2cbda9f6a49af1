package trainer_test

import (
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// configured is a step with settings.
type configured struct {
	*trainertest.Step
	precision string
}

func (c configured) About() trainer.About {
	a := c.Step.About()
	a.Settings = map[string]string{"Precision": c.precision}
	return a
}

func TestAResumeComparesTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	fit := func(precision string, change func(*trainer.Options)) (*trainer.Result, error) {
		o := trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 2, Accumulate: 2, Seed: 5, LearningRate: 0.1,
			Schedule: lr.Cosine{}, Save: trainer.Every(2, trainer.Update), Progress: io.Discard,
			ResumeFrom: trainer.Latest}
		change(&o)
		tr, err := trainer.New[int, []int](configured{new(trainertest.Step), precision}, o)
		require.NoError(t, err)
		return tr.Fit(t.Context(), trainertest.Samples(8), nil)
	}
	_, err := fit("float32", func(o *trainer.Options) { o.MaxSteps, o.Epochs = 2, 0 })
	require.NoError(t, err)
	for _, c := range []struct {
		claim, precision string
		change           func(*trainer.Options)
		warning, refused string
	}{
		{"intervals and workers may change", "float32", func(o *trainer.Options) {
			o.MaxSteps, o.Epochs, o.Log, o.Workers, o.KeepCheckpoints = 2, 0, trainer.Every(1, trainer.Update), 3, 9
		}, "", ""},
		{"the rate", "float32", func(o *trainer.Options) { o.MaxSteps, o.Epochs, o.LearningRate = 2, 0, 0.2 },
			"LearningRate was 0.1 and is 0.2", ""},
		{"the schedule", "float32", func(o *trainer.Options) { o.MaxSteps, o.Epochs, o.Schedule = 2, 0, lr.Constant{} },
			"Schedule was Cosine and is Constant", ""},
		{"the length", "float32", func(o *trainer.Options) { o.MaxSteps, o.Epochs = 3, 0 }, "MaxSteps was 2 and is 3",
			""},
		{"a setting of the step", "bfloat16", func(o *trainer.Options) { o.MaxSteps, o.Epochs = 2, 0 },
			"Precision was float32 and is bfloat16", ""},
		{"the batch size", "float32", func(o *trainer.Options) { o.BatchSize = 4 }, "", "BatchSize"},
		{"accumulation", "float32", func(o *trainer.Options) { o.Accumulate = 1 }, "", "Accumulate"},
		{"the seed", "float32", func(o *trainer.Options) { o.Seed, o.DataSeed = 6, 5 }, "", "Seed was 5 and is 6"},
		{"Hugging Face warns alone", "float32", func(o *trainer.Options) {
			o.Semantics, o.Seed, o.DataSeed, o.Overwrite = semantics.HuggingFace, 6, 5, false
		}, "Seed was 5 and is 6", ""},
		{"by force", "float32", func(o *trainer.Options) { o.BatchSize, o.Seed, o.ForceResume = 4, 6, true },
			"Seed was 5 and is 6", ""},
	} {
		r, err := fit(c.precision, c.change)
		switch {
		case c.refused != "":
			require.ErrorIs(t, err, trainer.ErrOtherRun, c.claim)
			assert.ErrorContains(t, err, c.refused, c.claim)
			assert.ErrorContains(t, err, "Options.ForceResume", c.claim)
		case c.warning == "":
			require.NoError(t, err, c.claim)
			assert.Empty(t, r.Warnings, c.claim)
		default:
			require.NoError(t, err, c.claim)
			require.NotEmpty(t, r.Warnings, c.claim)
			assert.Contains(t, r.Warnings[len(r.Warnings)-1], c.warning, c.claim)
		}
		// each case resumes from the run of two updates
		dir = restart(t, fit, func(d string) { dir = d })
	}
}

// restart makes a new folder with a run of two updates.
func restart(t *testing.T, fit func(string, func(*trainer.Options)) (*trainer.Result, error),
	in func(dir string)) string {
	dir := t.TempDir()
	in(dir)
	_, err := fit("float32", func(o *trainer.Options) { o.MaxSteps, o.Epochs = 2, 0 })
	require.NoError(t, err)
	return dir
}

// drawn is a data set of numbers that counts its draws.
type drawn struct {
	n     int
	at    func(i int) int
	draws atomic.Int64
}

func (d *drawn) Len() int { return d.n }

func (d *drawn) At(i int) (int, error) {
	d.draws.Add(1)
	return d.at(i), nil
}

func TestAResumeNoticesAnotherTrainingSet(t *testing.T) {
	same := func(i int) int { return i }
	for _, c := range []struct {
		claim string
		at    func(i int) int
		skip  bool
		want  string
	}{
		{"the same", same, false, ""},
		{"the last sample is another one", func(i int) int { return i + i/39 }, false,
			"sample 39 of the training set was "},
		{"all are", func(i int) int { return i + 1 }, false, "sample 0 of the training set was "},
		{"not looked at", func(i int) int { return i + 1 }, true, ""},
		{"random", func(int) int { return rand.Int() }, false, ""},
	} {
		dir := t.TempDir()
		fit := func(at func(i int) int, steps int) (*trainer.Result, *drawn) {
			tr, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{OutputDir: dir, MaxSteps: steps,
				BatchSize: 4, LearningRate: 0.1, Schedule: lr.Constant{}, Progress: io.Discard, SkipFingerprint: c.skip,
				Save: trainer.Every(2, trainer.Update), ResumeFrom: trainer.Latest, ForceResume: true})
			require.NoError(t, err)
			set := &drawn{n: 40, at: at}
			r, err := tr.Fit(t.Context(), set, nil)
			require.NoError(t, err, c.claim)
			return r, set
		}
		fit(same, 2)
		r, set := fit(c.at, 2)
		switch {
		case c.want == "":
			assert.Empty(t, r.Warnings, c.claim)
		default:
			require.Len(t, r.Warnings, 1, c.claim)
			assert.Contains(t, r.Warnings[0], c.want, c.claim)
		}
		if c.skip {
			assert.Zero(t, set.draws.Load(), "there is nothing left to train on")
		} else {
			assert.LessOrEqual(t, set.draws.Load(), int64(16), c.claim)
		}
	}
}
