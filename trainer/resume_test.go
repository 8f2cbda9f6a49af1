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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// resumable returns the options of a run in which everything happens: accumulation with a short
// last window; evaluations, logs and saves at different intervals; a best model; early stopping
// that counts without stopping; one and a half epochs.
func resumable(dir string, save trainer.Trigger) trainer.Options { return resumableIn(0, dir, save) }

// resumableIn is resumable for one of the loops.
func resumableIn(loop semantics.Loop, dir string, save trainer.Trigger) trainer.Options {
	return trainer.Options{
		Semantics: semantics.Rules{Loop: loop},
		OutputDir: dir, Epochs: 2.5, BatchSize: 2, EvalBatchSize: 3, Accumulate: 2, LearningRate: 0.5,
		Schedule: lr.Linear{Warmup: 2},
		Log:      trainer.Every(3, trainer.Update), Eval: trainer.Every(2, trainer.Update), Save: save,
		KeepCheckpoints: 2,
		MetricForBest:   "loss", EvalOnStart: true, ResumeFrom: trainer.Latest, Workers: 2, Progress: io.Discard,
		Callbacks: []any{&callback.EarlyStopping{Patience: 100}},
	}
}

// outcome is what is compared of two runs.
type outcome struct {
	Weights, Generator uint64
	History            []trainer.Logs
	TrainLoss          float64
	Best               trainer.Best
}

func runOnce(ctx context.Context, step *trainertest.Step, o trainer.Options) (outcome, error) {
	t, err := trainer.New[int, []int](step, o)
	if err != nil {
		return outcome{}, err
	}
	r, err := t.Fit(ctx, trainertest.Samples(13), trainertest.Samples(7))
	if err != nil {
		return outcome{}, err
	}
	r.Best.Checkpoint = filepath.Base(r.Best.Checkpoint)
	return outcome{step.Weights(), step.Generator(), r.History, r.TrainLoss, r.Best}, nil
}

// exceptTimes excludes from a comparison what depends on the clock.
var exceptTimes = cmp.Options{cmpopts.IgnoreMapEntries(func(k string, _ float64) bool {
	return strings.HasSuffix(k, "_runtime") || strings.HasSuffix(k, "_per_second")
}), cmpopts.EquateNaNs()}

var errPulledPlug = errors.New("plug pulled")

// TestARunGoesOnFromEveryPoint interrupts a run at every single call of its step, in two ways, and
// resumes it, under every loop: the outcome must be that of an uninterrupted run.
func TestARunGoesOnFromEveryPoint(t *testing.T) {
	everyUpdate := trainer.Every(1, trainer.Update)
	for _, c := range []struct {
		loop  semantics.Loop
		save  trainer.Trigger
		async bool
	}{
		{semantics.DefaultLoop, everyUpdate, false}, {semantics.DefaultLoop, everyUpdate, true},
		{semantics.DefaultLoop, trainer.Every(3, trainer.Update), false},
		{semantics.DefaultLoop, trainer.Every(3, trainer.Update), true},
		{semantics.DefaultLoop, trainer.Every(1, trainer.Epoch), false},
		{semantics.HuggingFaceLoop, everyUpdate, false}, {semantics.HuggingFaceLoop, everyUpdate, true},
		{semantics.HezarLoop, everyUpdate, false}, {semantics.HezarLoop, everyUpdate, true},
		{semantics.PytorchAcceleratedLoop, everyUpdate, false}, {semantics.PytorchAcceleratedLoop, everyUpdate, true},
		{semantics.PyMarlinLoop, everyUpdate, false}, {semantics.PyMarlinLoop, everyUpdate, true},
	} {
		save := c.save
		resumable := func(dir string, save trainer.Trigger) trainer.Options {
			o := resumableIn(c.loop, dir, save)
			o.AsyncSave = c.async
			return o
		}
		t.Run(fmt.Sprintf("loop %d, %s, async %t", c.loop, save, c.async), func(t *testing.T) {
			calls := 0
			whole := &trainertest.Step{Inject: func(string, int) error { calls++; return nil }}
			want, err := runOnce(t.Context(), whole, resumable(memoryDir(t), save))
			if err != nil {
				t.Fatal(err)
			}
			if calls < 60 {
				t.Fatalf("the uninterrupted run makes %d calls; that is too few for this test to mean anything", calls)
			}
			stride := 1
			if save != everyUpdate {
				stride = 5 // the points are the same; only the amount of repeated work differs
			}
			if c.async {
				stride *= 5
			}
			if testing.Short() {
				stride = 11
			}
			for at := 1; at <= calls; at += stride {
				t.Run(fmt.Sprintf("killed at call %d", at), func(t *testing.T) {
					dir, n := memoryDir(t), 0
					step := &trainertest.Step{Inject: func(string, int) error {
						if n++; n == at {
							return errPulledPlug
						}
						return nil
					}}
					if _, err := runOnce(t.Context(), step, resumable(dir, save)); !errors.Is(err, errPulledPlug) &&
						at < calls {
						// FilterLoss cannot fail; every other call can.
						t.Fatalf("Fit = %v, want the injected error", err)
					}
					got, err := runOnce(t.Context(), new(trainertest.Step), resumable(dir, save))
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got, exceptTimes); diff != "" {
						t.Errorf("resumed run (-whole +resumed):\n%s", diff)
					}
				})
				t.Run(fmt.Sprintf("cancelled at call %d", at), func(t *testing.T) {
					dir, n := memoryDir(t), 0
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					step := &trainertest.Step{Inject: func(string, int) error {
						if n++; n == at {
							cancel()
						}
						return nil
					}}
					_, err := runOnce(ctx, step, resumable(dir, save))
					var interrupted *trainer.InterruptedError
					switch {
					case err == nil: // only the end of the run was left
					case !errors.Is(err, context.Canceled) || !errors.As(err, &interrupted):
						t.Fatalf("Fit = %v, want an InterruptedError that is context.Canceled", err)
					case interrupted.GlobalStep > 0:
						if err := checkpoint.Verify(interrupted.Checkpoint); err != nil {
							t.Errorf("after the interruption at update %d: %v", interrupted.GlobalStep, err)
						}
						if want := fmt.Sprintf("checkpoint-%d",
							interrupted.GlobalStep); filepath.Base(interrupted.Checkpoint) != want {
							t.Errorf("saved in %s, want %s: no update may be lost", interrupted.Checkpoint, want)
						}
					}
					got, err := runOnce(t.Context(), new(trainertest.Step), resumable(dir, save))
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got, exceptTimes, cmpopts.IgnoreFields(trainer.Best{},
						"Checkpoint")); diff != "" {
						t.Errorf("resumed run (-whole +resumed):\n%s", diff)
					}
				})
			}
		})
	}
}

func TestCancelledWhileDataIsLoading(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the machine is being taken away")
	o := resumable(memoryDir(t), trainer.Every(100, trainer.Update))
	step := &trainertest.Step{Inject: func(op string, n int) error {
		if op == "update" && n == 4 {
			cancel(why)
		}
		return nil
	}}
	_, err := runOnce(ctx, step, o)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Fatalf("Fit = %v, want context.Canceled and its cause", err)
	}
	if !strings.Contains(err.Error(), "checkpoint-4") || !strings.Contains(err.Error(), "trainer.Latest") {
		t.Errorf("error %q does not say where the run was saved and how to continue", err)
	}
}

func TestADamagedCheckpointIsPassedOver(t *testing.T) {
	dir := memoryDir(t)
	o := resumable(dir, trainer.Every(1, trainer.Update))
	step := &trainertest.Step{Inject: func(op string, n int) error {
		if op == "update" && n == 6 {
			return errPulledPlug
		}
		return nil
	}}
	if _, err := runOnce(t.Context(), step, o); !errors.Is(err, errPulledPlug) {
		t.Fatal(err)
	}
	flipBit(t, filepath.Join(dir, "checkpoint-5", "step.json"))

	named := o
	named.ResumeFrom = filepath.Join(dir, "checkpoint-5")
	_, err := runOnce(t.Context(), new(trainertest.Step), named)
	if err == nil || !strings.Contains(err.Error(), "checkpoint-5") || !strings.Contains(err.Error(), "step.json") {
		t.Fatalf("Fit from the damaged checkpoint = %v, want an error that names it and its file", err)
	}
	var damaged *checkpoint.DamagedError
	if !errors.As(err, &damaged) {
		t.Errorf("%v is not a DamagedError", err)
	}

	second := new(trainertest.Step)
	tr, err := trainer.New[int, []int](second, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Fit(t.Context(), trainertest.Samples(13), trainertest.Samples(7))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(second.Trace(), "load(checkpoint-4)") {
		t.Errorf("trace %q: want the run to continue from checkpoint-4", second.Trace())
	}
	if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "checkpoint-5") {
		t.Errorf("warnings %q do not name the damaged checkpoint", r.Warnings)
	}
}

func TestNothingWholeLeftIsNotAFreshStart(t *testing.T) {
	dir := memoryDir(t)
	o := resumable(dir, trainer.Every(4, trainer.Update))
	o.KeepCheckpoints = 1
	o.MaxSteps, o.Epochs = 4, 0
	if _, err := runOnce(t.Context(), new(trainertest.Step), o); err != nil {
		t.Fatal(err)
	}
	flipBit(t, filepath.Join(dir, "checkpoint-4", "trainer_state.json"))
	_, err := runOnce(t.Context(), new(trainertest.Step), o)
	if !errors.Is(err, checkpoint.ErrNone) {
		t.Errorf("Fit = %v, want checkpoint.ErrNone", err)
	}
}

// TestAFolderThatIsNoCheckpointIsNamed, with the checkpoint that was probably meant.
func TestAFolderThatIsNoCheckpointIsNamed(t *testing.T) {
	dir := memoryDir(t)
	o := resumable(dir, trainer.Every(4, trainer.Update))
	o.MaxSteps, o.Epochs = 4, 0
	_, err := runOnce(t.Context(), new(trainertest.Step), o)
	require.NoError(t, err)
	for from, want := range map[string]string{
		dir: dir + " is the folder of a run; name a checkpoint in it, of which checkpoint-4 is the newest",
		filepath.Join(dir, "checkpoint-3"): "there is no folder " + filepath.Join(dir, "checkpoint-3") +
			"; the newest one beside it is checkpoint-4",
		filepath.Join(dir, "nowhere", "checkpoint-3"): "there is no folder",
		t.TempDir(): "is damaged: it has no MANIFEST.json; name an older one",
	} {
		o.ResumeFrom = from
		_, err := runOnce(t.Context(), new(trainertest.Step), o)
		require.ErrorContains(t, err, "trainer: Options.ResumeFrom: ")
		require.ErrorContains(t, err, want)
	}
}

func TestOtherSizesAreRefused(t *testing.T) {
	dir := memoryDir(t)
	o := resumable(dir, trainer.Every(2, trainer.Update))
	o.MaxSteps, o.Epochs = 4, 0
	if _, err := runOnce(t.Context(), new(trainertest.Step), o); err != nil {
		t.Fatal(err)
	}
	for claim, change := range map[string]func(*trainer.Options){
		"BatchSize was 2 and is 4":  func(o *trainer.Options) { o.BatchSize = 4 },
		"Accumulate was 2 and is 1": func(o *trainer.Options) { o.Accumulate = 1 },
		"DropLast was false":        func(o *trainer.Options) { o.DropLast = true },
		"DataSeed was 42 and is 43": func(o *trainer.Options) { o.DataSeed = 43 },
	} {
		other := o
		change(&other)
		step := new(trainertest.Step)
		_, err := runOnce(t.Context(), step, other)
		if !errors.Is(err, trainer.ErrOtherRun) || !strings.Contains(err.Error(), claim) {
			t.Errorf("Fit = %v, want ErrOtherRun that says %q", err, claim)
		}
		if strings.Contains(step.Trace(), "load") {
			t.Errorf("%s: the step was loaded although the checkpoint was refused", claim)
		}
	}
	longer := o
	longer.MaxSteps = 6
	step := new(trainertest.Step)
	if _, err := runOnce(t.Context(), step, longer); err != nil || strings.Count(step.Trace(), "update(") != 2 {
		t.Errorf("a longer run: %v, trace %q, want two more updates", err, step.Trace())
	}
}

func TestAFinishedRunResumedDoesNoMoreUpdates(t *testing.T) {
	dir := memoryDir(t)
	o := resumable(dir, trainer.Every(2, trainer.Update))
	want, err := runOnce(t.Context(), new(trainertest.Step), o)
	if err != nil {
		t.Fatal(err)
	}
	step := new(trainertest.Step)
	got, err := runOnce(t.Context(), step, o)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(step.Trace(), "train(") || got.Weights != want.Weights || got.TrainLoss != want.TrainLoss {
		t.Errorf("trace %q, train_loss %v, want no training and %v", step.Trace(), got.TrainLoss, want.TrainLoss)
	}
}

// If a run is killed between its last save and the deletion of older checkpoints, it must not keep
// one too many forever.
func TestACheckpointTooManyGoesWhenARunGoesOn(t *testing.T) {
	dir := memoryDir(t)
	o := resumable(dir, trainer.Every(1, trainer.Update))
	o.KeepCheckpoints = 0
	if _, err := runOnce(t.Context(), &trainertest.Step{}, o); err != nil {
		t.Fatal(err)
	}
	o.KeepCheckpoints = 2
	if _, err := runOnce(t.Context(), &trainertest.Step{}, o); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "checkpoint-*")); err != nil || len(left) > 2 {
		t.Errorf("left: %q, %v; want at most 2", left, err)
	}
}

func TestLossesSinceTheLastLogSurviveAResume(t *testing.T) {
	dir := memoryDir(t)
	constant := func(int, []int) float64 { return 1 }
	o := trainer.Options{OutputDir: dir, MaxSteps: 4, BatchSize: 1, Log: trainer.Every(4, trainer.Update),
		Save:       trainer.Every(1, trainer.Update),
		ResumeFrom: trainer.Latest, Progress: io.Discard}
	step := &trainertest.Step{Loss: constant, Inject: func(op string, n int) error {
		if op == "update" && n == 3 {
			return errPulledPlug
		}
		return nil
	}}
	if _, err := runOnce(t.Context(), step, o); !errors.Is(err, errPulledPlug) {
		t.Fatal(err)
	}
	got, err := runOnce(t.Context(), &trainertest.Step{Loss: constant}, o)
	if err != nil {
		t.Fatal(err)
	}
	if got.History[0]["loss"] != 1 || got.TrainLoss != 1 || math.IsNaN(got.TrainLoss) {
		t.Errorf("loss %v, train_loss %v, want 1 and 1", got.History[0]["loss"], got.TrainLoss)
	}
}
