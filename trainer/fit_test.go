package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// narrator prints the events of a run.
type narrator struct{}

func (narrator) EpochBegin(r *trainer.Run) error {
	fmt.Printf("epoch %g begins\n", r.Epoch)
	return nil
}
func (narrator) StepEnd(r *trainer.Run) error {
	fmt.Printf("  update %d of %d, epoch %g\n", r.GlobalStep, r.MaxSteps, r.Epoch)
	return nil
}
func (narrator) AfterEval(_ *trainer.Run, m trainer.Metrics) error {
	fmt.Printf("  evaluated: %v\n", m)
	return nil
}
func (narrator) AfterSave(_ *trainer.Run, checkpoint string) error {
	fmt.Printf("  saved %s\n", filepath.Base(checkpoint))
	return nil
}
func (narrator) TrainEnd(r *trainer.Run) error { fmt.Println("end:", r.StopReason()); return nil }

// Evaluation after every epoch, a checkpoint every three updates, and early stopping.
func ExampleTrainer_Fit_events() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	accuracy := []float64{0.5, 0.7, 0.6, 0.65}
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"accuracy": accuracy[n-1]}
	}}
	t, err := trainer.New(step, trainer.Options{
		OutputDir: dir, Epochs: 4, BatchSize: 4, Eval: trainer.Every(1, trainer.Epoch), Save: trainer.Every(3,
			trainer.Update), MetricForBest: "accuracy",
		Callbacks: []any{narrator{}, &callback.EarlyStopping{Patience: 1}}, Progress: io.Discard,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := t.Fit(context.Background(), trainertest.Samples(8), trainertest.Samples(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("best:", r.Best.Metric, r.Best.Value, "after update", r.Best.GlobalStep)
	// Output:
	// epoch 0 begins
	//   update 1 of 8, epoch 0.5
	//   update 2 of 8, epoch 1
	//   evaluated: map[accuracy:0.5]
	// epoch 1 begins
	//   update 3 of 8, epoch 1.5
	//   saved checkpoint-3
	//   update 4 of 8, epoch 2
	//   evaluated: map[accuracy:0.7]
	// epoch 2 begins
	//   update 5 of 8, epoch 2.5
	//   update 6 of 8, epoch 3
	//   saved checkpoint-6
	//   evaluated: map[accuracy:0.6]
	// end: accuracy has not improved for 1 evaluations
	// best: eval_accuracy 0.7 after update 4
}

func TestLoadBestAtEndSavesEachBestAtOnce(t *testing.T) {
	losses := []float64{3, 1, 2}
	dir := t.TempDir()
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": losses[n-1]}
	}}
	tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, Epochs: 3, LoadBestAtEnd: true,
		KeepCheckpoints: 1, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Fit(t.Context(), trainertest.Samples(16), trainertest.Samples(3))
	if err != nil {
		t.Fatal(err)
	}
	if r.Best.GlobalStep != 4 || filepath.Base(r.Best.Checkpoint) != "checkpoint-4" ||
		r.Best.Metrics["eval_loss"] != 1 {
		t.Errorf("best %+v, want update 4 in checkpoint-4", r.Best)
	}
	if !strings.HasSuffix(step.Trace(), "weights(checkpoint-4)") {
		t.Errorf("trace ends with %q, want the weights of checkpoint-4 loaded",
			step.Trace()[max(0, len(step.Trace())-60):])
	}
	for _, name := range []string{"checkpoint-4", "checkpoint-6"} {
		if err := checkpoint.Verify(filepath.Join(dir, name)); err != nil {
			t.Errorf("the best and the last must stay: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "checkpoint-2")); err == nil {
		t.Error("checkpoint-2 is still there")
	}
}

func TestDivisors(t *testing.T) {
	configured := semantics.Default
	configured.Divisor = semantics.Accumulate
	undivided := semantics.Default
	undivided.UndividedWithItems = true
	for _, c := range []struct {
		claim string
		rules semantics.Rules
		items int64
		want  string
	}{
		{"a short window is divided by its own length", semantics.Default, 0,
			"train(0/2) train(2/2) update(0.1) train(1) update(0.1)"},
		{"or by the configured length", configured, 0, "train(0/2) train(2/2) update(0.1) train(1/2) update(0.1)"},
		{"items are counted over the window", semantics.Default, 3, "train(0/2 of 6) train(2/2 of 6) update(0.1) " +
			"train(1 of 3) update(0.1)"},
		{"Hugging Face does not divide where items are counted", undivided, 3,
			"train(0 of 6) train(2 of 6) update(0.1) train(1 of 3) update(0.1)"},
	} {
		step := &trainertest.Step{PerSample: trainer.Counts{Items: c.items}}
		tr, err := trainer.New[int, []int](step, trainer.Options{
			Epochs: 1, BatchSize: 1, Accumulate: 2, LearningRate: 0.1, Schedule: lr.Constant{}, Semantics: c.rules,
			Progress: io.Discard,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fit(t.Context(), trainertest.Samples(3), nil); err != nil {
			t.Fatal(err)
		}
		if got := step.Trace(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.claim, got, c.want)
		}
	}
}

// fusedStep is a step that says whether its optimizer is fused.
type fusedStep struct {
	*trainertest.Step
	fused bool
}

func (s fusedStep) About() trainer.About {
	about := s.Step.About()
	about.Fused = s.fused
	return about
}

func TestASkippedUpdate(t *testing.T) {
	moves := semantics.Default
	moves.ScheduleOnSkip = true
	fused := semantics.Default
	fused.FusedHidesSkips = true
	for _, c := range []struct {
		claim  string
		rules  semantics.Rules
		fused  bool
		rates  string
		logged []float64
	}{
		{"of a fused optimizer too lets the schedule stand still", semantics.Default, true,
			"update(1) update(0.75) update(0.75) update(0.5)", []float64{1, 0.75, 0.75, 0.5}},
		{"of an optimizer that is not fused is seen", fused, false, "update(1) update(0.75) update(0.75) update(0.5)",
			[]float64{1, 0.75, 0.75, 0.5}},
		{"of a fused optimizer may pass for one that was made", fused, true,
			"update(1) update(0.75) update(0.5) update(0.25)", []float64{1, 0.75, 0.5, 0.25}},
		{"counts, but the schedule does not advance", semantics.Default, false,
			"update(1) update(0.75) update(0.75) update(0.5)", []float64{1, 0.75, 0.75, 0.5}},
		{"or moves on all the same", moves, false, "update(1) update(0.75) update(0.5) update(0.25)",
			[]float64{1, 0.75, 0.5, 0.25}},
	} {
		step := &trainertest.Step{Skip: func(update int) bool { return update == 2 }}
		tr, err := trainer.New[int, []int](fusedStep{step, c.fused}, trainer.Options{
			MaxSteps: 4, BatchSize: 1, LearningRate: 1, Log: trainer.Every(1, trainer.Update), Semantics: c.rules,
			Progress: io.Discard,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), trainertest.Samples(4), nil)
		if err != nil {
			t.Fatal(err)
		}
		var updates []string
		for call := range strings.SplitSeq(step.Trace(), " ") {
			if strings.HasPrefix(call, "update") {
				updates = append(updates, call)
			}
		}
		if got := strings.Join(updates, " "); got != c.rates {
			t.Errorf("%s: %s, want %s", c.claim, got, c.rates)
		}
		for i, want := range c.logged {
			if got := r.History[i]["learning_rate"]; got != want {
				t.Errorf("%s: logged rate %d is %v, want %v", c.claim, i+1, got, want)
			}
		}
	}
}

func TestNanIsLoggedUnlessItIsFiltered(t *testing.T) {
	filtered := semantics.Default
	filtered.FilterNonFiniteLoss = true
	for _, c := range []struct {
		rules semantics.Rules
		want  float64
	}{{semantics.Default, math.NaN()}, {filtered, (2 + 2.0/2) / 2}} {
		step := &trainertest.Step{Loss: func(micro int, _ []int) float64 { return []float64{2, math.NaN()}[micro-1] }}
		dir := t.TempDir()
		tr, err := trainer.New[int, []int](step, trainer.Options{
			OutputDir: dir, MaxSteps: 2, BatchSize: 1, Log: trainer.Every(2, trainer.Update), Semantics: c.rules,
			Progress: io.Discard, NonFinite: trainer.IgnoreNonFinite,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), trainertest.Samples(2), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.History[0]["loss"]; got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%+v: logged loss %v, want %v", c.rules, got, c.want)
		}
		text, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if math.IsNaN(c.want) && !strings.HasPrefix(string(text), `{"loss":"nan","grad_norm":`) {
			t.Errorf("metrics.jsonl begins with %.60q", text)
		}
	}
}

func TestEvaluateAlone(t *testing.T) {
	step := new(trainertest.Step)
	tr, err := trainer.New[int, []int](step, trainer.Options{EvalBatchSize: 2, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	m, err := tr.Evaluate(t.Context(), trainertest.Samples(3))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m["loss"]; !ok || step.Trace() != "eval(0,1) eval(2) metrics" {
		t.Errorf("metrics %v after %q, want a loss after eval(0,1) eval(2) metrics", m, step.Trace())
	}
	if _, err := tr.Evaluate(t.Context(), nil); err == nil {
		t.Error("Evaluate without data: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Evaluate(ctx, trainertest.Samples(3)); !errors.Is(err, context.Canceled) {
		t.Errorf("Evaluate of a cancelled context = %v, want context.Canceled", err)
	}
}

// reentrant is a hook that calls Fit from within Fit.
type reentrant struct {
	tr  *trainer.Trainer[int, []int]
	err error
}

func (h *reentrant) TrainBegin(*trainer.Run) error {
	_, h.err = h.tr.Fit(context.Background(), trainertest.Samples(1), nil)
	return nil
}

func TestATrainerDoesOneThingAtATime(t *testing.T) {
	h := &reentrant{}
	tr, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{MaxSteps: 1, Callbacks: []any{h},
		Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	h.tr = tr
	if _, err := tr.Fit(t.Context(), trainertest.Samples(1), nil); err != nil {
		t.Fatal(err)
	}
	if h.err == nil || !strings.Contains(h.err.Error(), "one thing at a time") {
		t.Errorf("Fit within Fit = %v, want a refusal", h.err)
	}
}

func TestBadSamplesAreAskedAbout(t *testing.T) {
	broken := data.Map(trainertest.Samples(4), func(i int) (int, error) {
		if i == 2 {
			return 0, errors.New("broken file")
		}
		return i, nil
	})
	step := new(trainertest.Step)
	o := trainer.Options{Epochs: 1, BatchSize: 4, Order: data.Sequential{}, Progress: io.Discard}
	tr, err := trainer.New[int, []int](step, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(t.Context(), broken, nil); err == nil || !strings.Contains(err.Error(), "broken file") {
		t.Errorf("Fit = %v, want the sample's error", err)
	}
	o.BadSample = func(int, error) error { return nil }
	if tr, err = trainer.New[int, []int](step, o); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(t.Context(), broken, nil); err != nil || !strings.Contains(step.Trace(), "train(0,1,3)") {
		t.Errorf("Fit = %v, trace %q, want the sample left out", err, step.Trace())
	}
}

// TestSwitchesOfAResume covers the switches that no recorded run shows.
func TestSwitchesOfAResume(t *testing.T) {
	evalAgain, oldIntervals := semantics.Default, semantics.Default
	evalAgain.EvalOnStartAfterResume = true
	oldIntervals.IntervalsFromCheckpoint = true
	for _, c := range []struct {
		claim         string
		rules         semantics.Rules
		evals, losses int // counts in the second session
	}{
		{"the evaluation before the first update is not repeated, and the options' intervals hold", semantics.Default,
			1, 4},
		{"it is repeated", evalAgain, 2, 4},
		{"the checkpoint's intervals hold", oldIntervals, 1, 2},
	} {
		o := trainer.Options{OutputDir: t.TempDir(), BatchSize: 1, MaxSteps: 4, EvalOnStart: true,
			Eval: trainer.Every(8, trainer.Update), ResumeFrom: trainer.Latest,
			Log: trainer.Every(2, trainer.Update), Save: trainer.Every(4, trainer.Update), Semantics: c.rules,
			Progress: io.Discard}
		first, err := runOnce(t.Context(), new(trainertest.Step), o)
		if err != nil {
			t.Fatal(err)
		}
		o.MaxSteps, o.Log = 8, trainer.Every(1, trainer.Update)
		step := new(trainertest.Step)
		second, err := runOnce(t.Context(), step, o)
		if err != nil {
			t.Fatal(err)
		}
		losses := 0
		for _, row := range second.History {
			if _, ok := row["loss"]; ok && row["step"] > 4 {
				losses++
			}
		}
		if evals := strings.Count(step.Trace(), "metrics"); evals != c.evals || losses != c.losses {
			t.Errorf("%s: %d evaluations and %d logged losses after %d rows, want %d and %d", c.claim, evals, losses,
				len(first.History), c.evals, c.losses)
		}
	}
}

func TestABestEvaluationOfASavedUpdateKnowsItsCheckpoint(t *testing.T) {
	dir := t.TempDir()
	r, err := runOnce(t.Context(), new(trainertest.Step), trainer.Options{OutputDir: dir, Epochs: 1,
		Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if r.Best.Checkpoint != "checkpoint-2" {
		t.Errorf("best %+v, want it in checkpoint-2, saved at the last update before its evaluation", r.Best)
	}
}

func TestTheModesOfTheStepsLibraryAreOfOneThread(t *testing.T) {
	seen := map[int]bool{}
	step := &trainertest.Step{Inject: func(string, int) error {
		seen[threadID()] = true
		runtime.Gosched()
		return nil
	}}
	if _, err := runOnce(t.Context(), step, resumable(memoryDir(t), trainer.Every(2, trainer.Update))); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 {
		t.Errorf("the step was called on %d threads, want 1", len(seen))
	}
}

// clipping is a step that clips in a separate call.
type clipping struct {
	trainertest.Step
	fail error
}

func (c *clipping) Clip(context.Context) error {
	c.Calls = append(c.Calls, "clip")
	return c.fail
}

type markBeforeUpdate struct{ step *clipping }

func (m markBeforeUpdate) BeforeUpdate(*trainer.Run) error {
	m.step.Calls = append(m.step.Calls, "before-update")
	return nil
}

func TestGradientsAreClippedBeforeTheHookAndOncePerUpdate(t *testing.T) {
	step := new(clipping)
	fit, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 1, Accumulate: 2, Progress: io.Discard,
		Callbacks: []any{markBeforeUpdate{step}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fit.Fit(context.Background(), trainertest.Samples(3), nil); err != nil {
		t.Fatal(err)
	}
	want := "train(0/2) train(2/2) clip before-update update(5e-05) train(1) clip before-update update(2.5e-05)"
	if got := strings.Join(slices.DeleteFunc(step.Calls, func(call string) bool {
		return !strings.HasPrefix(call, "train") && !strings.HasPrefix(call, "update") && call != "clip" &&
			call != "before-update"
	}), " "); got != want {
		t.Errorf("calls: %s\nwant:  %s", got, want)
	}
}

func TestClippingThatFailsIsAnErrorOfTheStep(t *testing.T) {
	broken := errors.New("no gradients here")
	fit, err := trainer.New(&clipping{fail: broken}, trainer.Options{MaxSteps: 1, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	var failed *trainer.StepError
	if _, err := fit.Fit(context.Background(), trainertest.Samples(3), nil); !errors.Is(err, broken) ||
		!errors.As(err, &failed) {
		t.Errorf("error %v, want a *StepError that wraps %v", err, broken)
	}
}
