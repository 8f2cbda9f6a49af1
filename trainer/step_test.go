package trainer_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// bareStep supports only the arithmetic.
type bareStep struct {
	trainer.BaseStep[int, []int]
	trained, evaluated int
}

func (*bareStep) Collate(samples []int) ([]int, error) { return samples, nil }

func (s *bareStep) Train(_ context.Context, batch []int, _ trainer.Window) error {
	s.trained += len(batch)
	return nil
}

func (*bareStep) Update(context.Context, float64) (bool, error) { return true, nil }

func (*bareStep) Report(context.Context) (trainer.Report, error) {
	return trainer.Report{GradNorm: -1}, nil
}

func (s *bareStep) Eval(_ context.Context, batch []int) error {
	s.evaluated += len(batch)
	return nil
}

func (s *bareStep) Metrics(context.Context) (trainer.Metrics, error) {
	return trainer.Metrics{"loss": float64(s.evaluated)}, nil
}

func TestAStepOfSixMethodsIsTrained(t *testing.T) {
	step := new(bareStep)
	tr, err := trainer.New(step, trainer.Options{Epochs: 2, BatchSize: 2, Progress: io.Discard})
	require.NoError(t, err)
	r, err := tr.Fit(t.Context(), trainertest.Samples(5), trainertest.Samples(3))
	require.NoError(t, err)
	assert.Equal(t, bareStep{trained: 10, evaluated: 6}, *step)
	assert.Equal(t, 6, r.GlobalStep)
	assert.Error(t, step.Save(t.TempDir(), trainer.SaveOptions{}))
	assert.Error(t, step.Load(t.TempDir(), trainer.LoadOptions{}))
	assert.Error(t, step.SetMomentum(0.9))
}

// around embeds the interface Step, which has no methods of a SplitStep or GroupStep.
type around struct{ trainer.Step[int, []int] }

type atForward struct{}

func (atForward) AfterForward(*trainer.Run) error { return nil }

// joiner says that it trains in a group, and does.
type joiner struct{ member }

func (joiner) About() trainer.About { return trainer.About{JoinsGroup: true} }

func TestWhatAStepCannotDoIsRefusedBeforeTheRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	recording, six := around{new(trainertest.Step)}, trainer.Step[int, []int](new(bareStep))
	joins := around{&joiner{member{Step: new(trainertest.Step)}}}
	rules := func(change func(r *semantics.Rules)) trainer.Options {
		o := trainer.Options{Semantics: semantics.Default}
		change(&o.Semantics)
		return o
	}
	clipsEveryBatch := rules(func(r *semantics.Rules) {
		r.Loop, r.ClipEveryBatch = semantics.PytorchAcceleratedLoop, true
	})
	clipsEveryBatch.Accumulate = 2
	for _, c := range []struct {
		claim string
		step  trainer.Step[int, []int]
		o     trainer.Options
		want  string
	}{
		{"a hook between the passes", recording, trainer.Options{Callbacks: []any{atForward{}}},
			"the hook trainer_test.atForward has AfterForward, but trainer_test.around is not a trainer.SplitStep: " +
				"implement Forward, Backward and BatchLoss for its batches; a type that embeds the interface"},
		{"a report of every loss", recording, rules(func(r *semantics.Rules) { r.LossReport = semantics.RunningMean }),
			"around is not a trainer.SplitStep: implement Forward, Backward and BatchLoss"},
		{"a group", joins, trainer.Options{Group: groupOfTwo(t)},
			"around is not a trainer.GroupStep: implement JoinGroup, RandomState, SetRandomState, SharesEval and EvalRound"},
		{"several processes without a group", joins, trainer.Options{Process: trainer.Process{World: 2}},
			"Options.Group is nil"},
		{"checkpoints", six, trainer.Options{OutputDir: dir}, "cannot be saved: About().Saves is false"},
		{"a resume", six, trainer.Options{OutputDir: dir, ResumeFrom: trainer.Latest}, "About().Saves is false"},
		{"weights alone", six, trainer.Options{OutputDir: dir, Save: trainer.Never, SaveOnlyModel: true},
			"Options.SaveOnlyModel is set, but *trainer_test.bareStep cannot be saved"},
		{"tokens", six, trainer.Options{CountTokens: true}, "About().CountsTokens is false"},
		{"an empty cache", six, trainer.Options{EmptyCacheSteps: 1}, "About().KnowsMemory is false"},
		{"smaller batches", six, trainer.Options{AutoFindBatchSize: true}, "About().KnowsMemory is false"},
		{"clipping every batch", six, clipsEveryBatch, "About().Clips is false"},
		{"the evaluation mode", six, rules(func(r *semantics.Rules) { r.StayInEvalMode = true }),
			"About().KeepsMode is false"},
		{"a filtered loss", six, rules(func(r *semantics.Rules) { r.FilterNonFiniteLoss = true }),
			"About().FiltersLoss is false"},
	} {
		c.o.Progress = io.Discard
		_, err := trainer.New(c.step, c.o)
		require.ErrorContains(t, err, c.want, c.claim)
	}

	// The number of changes in a schedule is known only when there are data.
	step := new(bareStep)
	tr, err := trainer.New(step, trainer.Options{Schedule: lr.OneCycleLR{}, Progress: io.Discard})
	require.NoError(t, err)
	_, err = tr.Fit(t.Context(), trainertest.Samples(8), nil)
	require.ErrorContains(t, err, "About().SetsMomentum is false")
	assert.Zero(t, *step, "it was trained on")
	_, err = os.Stat(dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// The tests of package trainer use the recording step for everything that a step can be asked, so
// it must support all of it.
func TestTheRecordingStepCanDoAllButJoinAGroupAndRecycle(t *testing.T) {
	about := reflect.ValueOf(new(trainertest.Step).About())
	for i, f := range reflect.VisibleFields(about.Type()) {
		switch f.Name {
		case "Text", "LearningRate", "Fused", "Reproducible", "MakesModel", "Settings", "JoinsGroup", "Sharded",
			"DrawsOrder", "Recycles":
		default:
			assert.True(t, about.Field(i).Bool(), f.Name)
		}
	}
}

// groupOfTwo returns a group of two processes that is never used for communication.
func groupOfTwo(t *testing.T) *dist.Group {
	t.Helper()
	groups := make(chan *dist.Group, 2)
	for rank, err := range inGroup(t, 2, 0, func(g *dist.Group) error { groups <- g; return nil }) {
		require.NoError(t, err, "rank %d", rank)
	}
	return <-groups
}

func TestADecoratorChangesNothing(t *testing.T) {
	run := func(decorate func(*trainertest.Step) trainer.Step[int, []int]) (*trainertest.Step, *trainer.Result) {
		step := new(trainertest.Step)
		tr, err := trainer.New(decorate(step), resumable(memoryDir(t), trainer.Every(2, trainer.Update)))
		require.NoError(t, err)
		r, err := tr.Fit(t.Context(), trainertest.Samples(13), trainertest.Samples(7))
		require.NoError(t, err)
		return step, r
	}
	plain, want := run(func(s *trainertest.Step) trainer.Step[int, []int] { return s })
	decorated, got := run(func(s *trainertest.Step) trainer.Step[int, []int] { return around{s} })
	assert.Equal(t, plain.Calls, decorated.Calls)
	assert.Equal(t, plain.Weights(), decorated.Weights())
	assert.Equal(t, plain.Generator(), decorated.Generator())
	assert.Equal(t, want.TrainLoss, got.TrainLoss)
	assert.Equal(t, want.Best.Value, got.Best.Value)
}
