package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// fitNonFinite trains for ten updates; the loss of the sample with number bad is NaN.
func fitNonFinite(step *trainertest.Step, dir string, bad int, o trainer.Options) (*trainer.Result, error) {
	step.Loss = func(_ int, batch []int) float64 {
		if batch[0] == bad-1 {
			return math.NaN()
		}
		return 1
	}
	o.OutputDir, o.Epochs, o.BatchSize, o.Progress = dir, max(1, o.Epochs), 1, io.Discard
	o.Order = data.Sequential{}
	o.Log, o.Save = trainer.Every(1, trainer.Update), trainer.Every(3, trainer.Update)
	t, err := trainer.New[int, []int](step, o)
	if err != nil {
		return nil, err
	}
	return t.Fit(context.Background(), trainertest.Samples(10), nil)
}

func TestARunStopsAtALossThatIsNotFinite(t *testing.T) {
	dir := t.TempDir()
	r, err := fitNonFinite(new(trainertest.Step), dir, 5, trainer.Options{KeepCheckpoints: 1})
	var bad *trainer.NonFiniteError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, "loss", bad.Name)
	assert.Equal(t, 5, bad.GlobalStep)
	assert.Equal(t, filepath.Join(dir, "checkpoint-3"), bad.Checkpoint)
	assert.Equal(t, run.BadNumbers, run.CodeOf(err))
	require.NotNil(t, r, "the Result comes with the error")
	assert.Len(t, r.History, 5, "the row with the nan is in the log")
	assert.NoError(t, checkpoint.Verify(bad.Checkpoint))
}

func TestOtherTrainersContinueAfterANan(t *testing.T) {
	for _, rules := range []semantics.Rules{semantics.HuggingFace, semantics.Hezar, semantics.PytorchAccelerated,
		semantics.PyMarlin} {
		_, err := fitNonFinite(new(trainertest.Step), t.TempDir(), 5, trainer.Options{Semantics: rules})
		assert.NoError(t, err, rules.Name)
	}
}

func TestWeightsThatAreNotFiniteAreNotSaved(t *testing.T) {
	step := &trainertest.Step{}
	step.Inject = func(op string, n int) error {
		if op == "update" && n == 5 {
			step.BadWeights = []string{"encoder.weight", "encoder.bias"}
		}
		return nil
	}
	dir := t.TempDir()
	_, err := fitNonFinite(step, dir, 0, trainer.Options{KeepCheckpoints: 1})
	require.ErrorContains(t, err, "after update 6: 2 of the weights are not finite, the first is encoder.weight")
	require.ErrorContains(t, err, "the newest checkpoint is finite: "+filepath.Join(dir, "checkpoint-3"))
	assert.NoDirExists(t, filepath.Join(dir, "checkpoint-6"))
	assert.NoError(t, checkpoint.Verify(filepath.Join(dir, "checkpoint-3")))
}

func TestIgnoredNonFiniteWeightsLeaveTheOlderCheckpoints(t *testing.T) {
	step := &trainertest.Step{}
	step.Inject = func(op string, n int) error {
		if op == "update" && n == 5 {
			step.BadWeights = []string{"w"}
		}
		return nil
	}
	dir := t.TempDir()
	_, err := fitNonFinite(step, dir, 0, trainer.Options{KeepCheckpoints: 1, NonFinite: trainer.IgnoreNonFinite})
	require.NoError(t, err)
	for _, n := range []int{3, 6, 9} {
		assert.DirExists(t, filepath.Join(dir, fmt.Sprintf("checkpoint-%d", n)))
	}
	again := &trainertest.Step{}
	_, err = fitNonFinite(again, dir, 0, trainer.Options{ResumeFrom: trainer.Latest})
	require.NoError(t, err)
	assert.Contains(t, again.Trace(), "load(checkpoint-3)", "Latest takes the newest that is finite")
}

func TestAnUpdateWhoseGradientsAreNotFiniteIsSkipped(t *testing.T) {
	updates := func(bad int) int {
		var schedule scheduleMoves
		_, err := fitNonFinite(new(trainertest.Step), t.TempDir(), bad,
			trainer.Options{NonFinite: trainer.SkipNonFinite,
				Callbacks: []any{&schedule}})
		require.NoError(t, err)
		return schedule.n
	}
	assert.Equal(t, 10, updates(0))
	assert.Equal(t, 9, updates(5), "the schedule does not move with a skipped update")
	_, err := trainer.New[int, []int](new(bareStep), trainer.Options{NonFinite: trainer.SkipNonFinite})
	assert.ErrorContains(t, err, "About().SkipsNonFinite is false")
}

// A loss that is left out counts neither in the numerator nor in the denominator of the mean, in
// the log and in train_loss.
func TestTrainLossIsTheMeanOfTheLossesThatAreKept(t *testing.T) {
	for _, policy := range []trainer.NonFinite{trainer.SkipNonFinite, trainer.RollBackNonFinite} {
		for _, log := range []trainer.Trigger{trainer.Every(1, trainer.Update), trainer.Every(5, trainer.Update),
			trainer.Never} {
			step := &trainertest.Step{Loss: func(_ int, batch []int) float64 {
				if batch[0] == 6 {
					return math.NaN()
				}
				return 1
			}}
			if policy == trainer.RollBackNonFinite && log.String() == trainer.Never.String() { // the save finds it
				step.Inject = func(op string, n int) error {
					if op == "update" && n == 7 {
						step.BadWeights = []string{"w"}
					}
					return nil
				}
			}
			tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: t.TempDir(), Epochs: 1, BatchSize: 1,
				Order: data.Sequential{}, Log: log, Save: trainer.Every(4, trainer.Update), NonFinite: policy,
				Progress: io.Discard})
			require.NoError(t, err)
			r, err := tr.Fit(t.Context(), trainertest.Samples(12), nil)
			require.NoError(t, err)
			assert.Equal(t, 1.0, r.TrainLoss, "policy %d, log %v", policy, log)
			require.Len(t, r.Warnings, 1, "policy %d, log %v", policy, log)
			if policy == trainer.SkipNonFinite {
				assert.Contains(t, r.Warnings[0], "loss is NaN at update 7, and the run continues")
				for _, row := range r.History {
					if loss, ok := row["loss"]; ok && row["step"] != 7 {
						assert.Equal(t, 1.0, loss, "row of update %v, log %v", row["step"], log)
					}
				}
			}
		}
	}
}

// If the loop does not wait for the device, the losses between two rows of the log are left out
// together.
func TestTrainLossWhereSkipsAreUnseen(t *testing.T) {
	step := &trainertest.Step{Loss: func(_ int, batch []int) float64 {
		if batch[0] == 6 {
			return math.NaN()
		}
		return 1
	}}
	tr, err := trainer.New[int, []int](step, trainer.Options{Epochs: 1, BatchSize: 1,
		Log: trainer.Every(5, trainer.Update), NonFinite: trainer.SkipNonFinite,
		Semantics: semantics.Rules{ScheduleOnSkip: true}, Progress: io.Discard})
	require.NoError(t, err)
	r, err := tr.Fit(t.Context(), trainertest.Samples(12), nil)
	require.NoError(t, err)
	assert.Equal(t, 1.0, r.TrainLoss)
	assert.NotContains(t, strings.Join(step.Calls[:8], " "), "report", "before the first row of the log")
}

// A checkpoint records which losses were left out.
func TestTrainLossAfterAResumeKnowsWhatWasLeftOut(t *testing.T) {
	dir := t.TempDir()
	fit := func(steps int) float64 {
		step := &trainertest.Step{Loss: func(_ int, batch []int) float64 {
			if batch[0]%5 == 1 {
				return math.NaN()
			}
			return 1
		}}
		tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, MaxSteps: steps, BatchSize: 1,
			Order: data.Sequential{}, Log: trainer.Every(4, trainer.Update), Save: trainer.Every(1, trainer.Update),
			NonFinite: trainer.SkipNonFinite, ResumeFrom: trainer.Latest, Progress: io.Discard})
		require.NoError(t, err)
		r, err := tr.Fit(t.Context(), trainertest.Samples(12), nil)
		require.NoError(t, err)
		return r.TrainLoss
	}
	for _, steps := range []int{3, 7, 12} {
		assert.Equal(t, 1.0, fit(steps), "to update %d", steps)
	}
}

// A run that has skipped every update has no loss.
func TestTrainLossOfARunWithoutALoss(t *testing.T) {
	step := &trainertest.Step{Loss: func(int, []int) float64 { return math.NaN() }}
	tr, err := trainer.New[int, []int](step, trainer.Options{Epochs: 1, BatchSize: 1, NonFinite: trainer.SkipNonFinite,
		Progress: io.Discard})
	require.NoError(t, err)
	r, err := tr.Fit(t.Context(), trainertest.Samples(3), nil)
	require.NoError(t, err)
	assert.True(t, math.IsNaN(r.TrainLoss), "%v", r.TrainLoss)
}

type scheduleMoves struct{ n int }

func (s *scheduleMoves) AfterSchedule(*trainer.Run, float64) error {
	s.n++
	return nil
}

func TestARunRollsBackAndContinues(t *testing.T) {
	step := &trainertest.Step{}
	dir := t.TempDir()
	r, err := fitNonFinite(step, dir, 5, trainer.Options{NonFinite: trainer.RollBackNonFinite})
	require.NoError(t, err)
	assert.Contains(t, step.Trace(), "update(3e-05) load(checkpoint-3) train(5)")
	assert.Equal(t, 10, r.GlobalStep)
	require.Len(t, r.Warnings, 1)
	assert.Contains(t, r.Warnings[0], "after update 5: loss is NaN")

	r, err = fitNonFinite(&trainertest.Step{}, t.TempDir(), 2, trainer.Options{NonFinite: trainer.RollBackNonFinite})
	require.ErrorContains(t, err, "there is no checkpoint to return to")
	assert.Equal(t, 2, r.GlobalStep)

	always := &trainertest.Step{}
	always.Inject = func(op string, n int) error {
		if op == "update" && n > 3 {
			always.BadWeights = []string{"w"}
		}
		return nil
	}
	_, err = fitNonFinite(always, t.TempDir(), 0, trainer.Options{NonFinite: trainer.RollBackNonFinite, Epochs: 2})
	var bad *trainer.NonFiniteError
	require.True(t, errors.As(err, &bad), "%v", err)
	assert.Equal(t, "weights", bad.Name)
	assert.Contains(t, bad.Error(), "checkpoint-3 3 times")
}

// stopping is a step that checks each loss, as that of package engine does on a CPU.
type stopping struct{ trainer.Step[int, []int] }

func (s stopping) Train(ctx context.Context, batch []int, w trainer.Window) error {
	if err := s.Step.Train(ctx, batch, w); err != nil || !w.StopAtNonFinite || batch[0] != 4 {
		return err
	}
	return &trainer.NonFiniteError{Name: "loss", Value: math.NaN()}
}

// finding can also tell where a number becomes non-finite.
type finding struct {
	stopping
	err error
}

func (s finding) FindNonFinite(_ context.Context, batch []int, _ trainer.Window) (o trainer.NonFiniteOrigin, _ error) {
	if s.err == nil && batch[0] == 4 {
		o.Module = "conv"
	}
	return o, s.err
}

func TestARunStopsWhereItsStepDoes(t *testing.T) {
	for _, c := range []struct {
		claim   string
		step    trainer.Step[int, []int]
		o       trainer.Options
		samples []int
		want    string
	}{
		{"a step that can say where", finding{stopping{new(trainertest.Step)}, nil}, trainer.Options{}, []int{4},
			"after update 4, before the next update: loss is NaN; the first layer whose output is not finite is " +
				"conv; the samples of the batch are 4;"},
		{"one that cannot", stopping{new(trainertest.Step)}, trainer.Options{}, nil,
			"are not known: trainer_test.stopping is not a trainer.NonFiniteFinder: implement FindNonFinite"},
		{"one that fails to", finding{stopping{new(trainertest.Step)}, errors.New("no memory")}, trainer.Options{}, nil,
			"the layer and the samples that caused it are not known: no memory;"},
		{"another policy", stopping{new(trainertest.Step)}, trainer.Options{NonFinite: trainer.IgnoreNonFinite}, nil,
			""},
	} {
		o := c.o
		o.Epochs, o.BatchSize, o.Progress, o.Order = 1, 1, io.Discard, data.Sequential{}
		fit, err := trainer.New(c.step, o)
		require.NoError(t, err, c.claim)
		r, err := fit.Fit(context.Background(), trainertest.Samples(10), nil)
		if c.want == "" {
			assert.NoError(t, err, c.claim)
			continue
		}
		var bad *trainer.NonFiniteError
		require.ErrorAs(t, err, &bad, c.claim)
		assert.Contains(t, err.Error(), c.want, c.claim)
		assert.Equal(t, c.samples, bad.Samples, c.claim)
		assert.Equal(t, 4, r.GlobalStep, c.claim)
	}
}

// roller is a step with its own random numbers, in a group.
type roller struct {
	member
	random []string // random states that were restored
}

func (r *roller) RandomState() ([]byte, error) { return fmt.Append(nil, "rank ", r.group.Rank()), nil }

func (r *roller) SetRandomState(state []byte) error {
	r.random = append(r.random, string(state))
	return nil
}

func TestEveryProcessRollsBackToItsOwnRandomNumbers(t *testing.T) {
	dir := t.TempDir()
	errs := inGroup(t, 2, time.Minute, func(g *dist.Group) error {
		trained := 0
		step := &roller{member: member{Step: &trainertest.Step{Loss: func(int, []int) float64 {
			if trained++; trained == 5 {
				return math.NaN()
			}
			return 1
		}}}}
		tr, err := trainer.New[int, []int](step, shareOptions(g, trainer.Options{OutputDir: dir, BatchSize: 1,
			Epochs: 1, Log: trainer.Every(1, trainer.Update), Save: trainer.Every(3, trainer.Update),
			NonFinite: trainer.RollBackNonFinite}))
		if err != nil {
			return err
		}
		if _, err := tr.Fit(t.Context(), trainertest.Samples(16), nil); err != nil {
			return err
		}
		assert.Contains(t, step.Trace(), "load(checkpoint-3)")
		assert.Equal(t, []string{fmt.Sprint("rank ", g.Rank())}, step.random)
		return nil
	})
	assert.Equal(t, []error{nil, nil}, errs)
}
