package callback_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func ExampleEarlyStopping() {
	loss := []float64{3, 2, 2.5, 2.1, 1}
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": loss[n-1]}
	}}
	t, err := trainer.New(step, trainer.Options{Epochs: 5, Callbacks: []any{&callback.EarlyStopping{Patience: 2}},
		Progress: io.Discard})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := t.Fit(context.Background(), trainertest.Samples(8), trainertest.Samples(8))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("epoch", r.Epoch, "-", r.StopReason, "- best", r.Best.Value)
	// Output: epoch 4 - loss has not improved for 2 evaluations - best 2
}

// stopsAfter returns the number of evaluations after which a run with these values ends.
func stopsAfter(t *testing.T, e *callback.EarlyStopping, o trainer.Options, metric string, values []float64) int {
	t.Helper()
	evals := 0
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		evals = n
		return trainer.Metrics{metric: values[n-1]}
	}}
	o.Epochs, o.MetricForBest, o.Callbacks, o.Progress = float64(len(values)), metric, []any{e}, io.Discard
	tr, err := trainer.New[int, []int](step, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(t.Context(), trainertest.Samples(8), trainertest.Samples(8)); err != nil {
		t.Fatal(err)
	}
	return evals
}

func TestEarlyStopping(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		claim  string
		e      callback.EarlyStopping
		metric string
		values []float64
		want   int
	}{
		{"the zero value stops at the first evaluation that is no better", callback.EarlyStopping{}, "loss",
			[]float64{3, 2, 2, 1}, 3},
		{"an improvement starts the count again", callback.EarlyStopping{Patience: 2}, "loss", []float64{3, 4, 2, 4, 1,
			4, 4, 0}, 7},
		{"greater is better where the metric says so", callback.EarlyStopping{}, "accuracy", []float64{0.1, 0.2, 0.3,
			0.2, 0.4}, 4},
		{"an improvement within the threshold does not count", callback.EarlyStopping{Threshold: 0.5}, "loss",
			[]float64{3, 2.6, 1}, 2},
		{"but it is the best from then on", callback.EarlyStopping{Patience: 2, Threshold: 0.5}, "loss",
			[]float64{3, 2.6, 2.2, 1}, 3},
		{"nan is no improvement", callback.EarlyStopping{Patience: 2}, "loss", []float64{3, nan, nan, 1}, 3},
		{"nan at first is waited for", callback.EarlyStopping{Patience: 2}, "loss", []float64{nan, nan, 3, 4, 2}, 5},
		{"a run that improves goes to its end", callback.EarlyStopping{}, "loss", []float64{3, 2, 1}, 3},
	} {
		if got := stopsAfter(t, &c.e, trainer.Options{}, c.metric, c.values); got != c.want {
			t.Errorf("%s: ended after %d evaluations, want %d", c.claim, got, c.want)
		}
	}
}

func TestTheSameCallbackServesTwoRuns(t *testing.T) {
	e := &callback.EarlyStopping{Patience: 2}
	for range 2 {
		if got := stopsAfter(t, e, trainer.Options{}, "loss", []float64{1, 2, 2, 2}); got != 3 {
			t.Errorf("ended after %d evaluations, want 3", got)
		}
	}
}

func TestTheCountSurvivesAResume(t *testing.T) {
	broken := errors.New("broken")
	values := []float64{1, 2, 2, 2, 2, 2, 2, 2}
	for _, c := range []struct {
		claim    string
		rules    semantics.Rules
		patience int
		want     int // evaluations over both sessions
	}{
		{"the second session continues counting", semantics.Default, 4, 5},
		{"Hugging Face counts from 0", semantics.HuggingFace, 4, 7},
	} {
		o := trainer.Options{OutputDir: t.TempDir(), Epochs: 8, Save: trainer.Every(1, trainer.Epoch),
			MetricForBest: "loss", Eval: trainer.Every(1, trainer.Epoch),
			ResumeFrom: trainer.Latest, Semantics: c.rules, Progress: io.Discard}
		evals := 0
		fit := func(inject func(string, int) error) error {
			o.Callbacks = []any{&callback.EarlyStopping{Patience: c.patience}}
			step := &trainertest.Step{Inject: inject, EvalMetrics: func(n int, _ []int) trainer.Metrics {
				evals = n
				return trainer.Metrics{"loss": values[n-1]}
			}}
			tr, err := trainer.New[int, []int](step, o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = tr.Fit(t.Context(), trainertest.Samples(8), trainertest.Samples(8))
			return err
		}
		if err := fit(func(op string, n int) error {
			if op == "update" && n == 4 {
				return broken
			}
			return nil
		}); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if err := fit(nil); err != nil {
			t.Fatal(err)
		}
		if evals != c.want {
			t.Errorf("%s: stopped after %d evaluations, want %d", c.claim, evals, c.want)
		}
		before := evals
		if c.rules == semantics.Default {
			if err := fit(nil); err != nil || evals != before {
				t.Errorf("resumed after its stop: %v, %d evaluations, want none more than %d", err, evals, before)
			}
		}
	}
}

func TestTransformersResumesARunThatWasStopped(t *testing.T) {
	restored := semantics.HuggingFace
	restored.ForgetHooksAtResume = false
	for _, c := range []struct {
		claim string
		rules semantics.Rules
		same  bool // the second session uses the object of the first
		want  int  // evaluations over both sessions
	}{
		{"by default it ends immediately", semantics.Default, false, 3},
		{"by default it ends immediately, also with the same callback", semantics.Default, true, 3},
		{"with its count restored it continues to the next evaluation", restored, false, 4},
		{"and so it does with the count that the callback has kept", semantics.HuggingFace, true, 4},
		{"a forgotten count begins at 0", semantics.HuggingFace, false, 5},
	} {
		o := trainer.Options{OutputDir: t.TempDir(), Epochs: 8, Save: trainer.Every(1, trainer.Epoch),
			MetricForBest: "loss", Eval: trainer.Every(1, trainer.Epoch),
			ResumeFrom: trainer.Latest, Semantics: c.rules, Progress: io.Discard}
		evals := 0
		e := &callback.EarlyStopping{Patience: 2}
		for session := range 2 {
			if session == 1 && !c.same {
				e = &callback.EarlyStopping{Patience: 2}
			}
			o.Callbacks = []any{e}
			step := &trainertest.Step{EvalMetrics: func(int, []int) trainer.Metrics {
				evals++
				return trainer.Metrics{"loss": 1}
			}}
			tr, err := trainer.New[int, []int](step, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tr.Fit(t.Context(), trainertest.Samples(8), trainertest.Samples(8)); err != nil {
				t.Fatal(err)
			}
			if session == 0 && evals != 3 {
				t.Fatalf("the first session ended after %d evaluations, want 3", evals)
			}
		}
		if evals != c.want {
			t.Errorf("%s: %d evaluations over both sessions, want %d", c.claim, evals, c.want)
		}
	}
}

func TestTransformersWaitsForTheFirstBestEvaluation(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		claim string
		rules semantics.Rules
		want  int
	}{
		{"nan counts", semantics.Default, 2},
		{"nan does not count as long as nothing is the best", semantics.HuggingFace, 5},
	} {
		e := callback.EarlyStopping{Patience: 1}
		if got := stopsAfter(t, &e, trainer.Options{Semantics: c.rules, Eval: trainer.Every(1, trainer.Epoch)}, "loss",
			[]float64{nan, nan, nan, 3, 4, 2}); got != c.want {
			t.Errorf("%s: ended after %d evaluations, want %d", c.claim, got, c.want)
		}
	}
}

func TestEarlyStoppingSaysWhatItMisses(t *testing.T) {
	asked := semantics.Default
	asked.TrackBestOnRequest = true
	for _, c := range []struct {
		claim string
		e     callback.EarlyStopping
		o     trainer.Options
		want  string
	}{
		{"no evaluation", callback.EarlyStopping{}, trainer.Options{Eval: trainer.Never}, "never evaluated"},
		{"no metric", callback.EarlyStopping{}, trainer.Options{Semantics: asked}, "MetricForBest"},
		{"negative patience", callback.EarlyStopping{Patience: -1}, trainer.Options{}, "Patience is -1"},
		{"nan threshold", callback.EarlyStopping{Threshold: math.NaN()}, trainer.Options{}, "Threshold is NaN"},
		{"another metric", callback.EarlyStopping{}, trainer.Options{MetricForBest: "bleu"}, `MetricForBest is "bleu"`},
	} {
		c.o.Callbacks, c.o.Progress = []any{&c.e}, io.Discard
		tr, err := trainer.New[int, []int](new(trainertest.Step), c.o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fit(t.Context(), trainertest.Samples(4), trainertest.Samples(4)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Fit = %v, want an error with %q", c.claim, err, c.want)
		}
	}
}

func FuzzEarlyStoppingState(f *testing.F) {
	good, err := (&callback.EarlyStopping{Patience: 3}).MarshalState()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"attributes":{"early_stopping_patience_counter":-1}}`))
	f.Fuzz(func(t *testing.T, state []byte) {
		var a, b callback.EarlyStopping
		if a.UnmarshalState(state) != nil {
			return
		}
		text, err := a.MarshalState()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.UnmarshalState(text); err != nil || a != b {
			t.Fatalf("%s came back as %+v (%v), want %+v", text, b, err, a)
		}
	})
}
