package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func streamed(t *testing.T, step *trainertest.Step, o trainer.Options, s data.Stream[int]) (*trainer.Result, error) {
	t.Helper()
	o.Progress = io.Discard
	tr, err := trainer.New(step, o)
	if err != nil {
		t.Fatal(err)
	}
	return tr.FitStream(t.Context(), s, nil)
}

// A stream of 5 samples, batches of 2, windows of 2: a pass is one complete window and a rest of
// one sample.
func TestTheRestOfAPass(t *testing.T) {
	leaks := semantics.Default
	leaks.Loop, leaks.StreamEpochByPlan = semantics.HuggingFaceLoop, true
	for _, c := range []struct {
		claim  string
		rules  semantics.Rules
		want   string
		epochs []float64
	}{
		{"is an update, and the epoch is measured by the last pass", semantics.Default,
			"train(0,1/2) train(2,3/2) update train(4) update train(0,1/2) train(2,3/2) update",
			[]float64{2. / 6, 3. / 6, 1 + 2./3}},
		{"leaks into the next pass in Hugging Face's loop", leaks,
			"train(0,1/2) train(2,3/2) update train(4) train(0,1/2) train(2,3/2) update train(4) train(0,1/2) " +
				"train(2,3/2) update", []float64{2. / 6, 1 + 2./6, 2 + 2./6}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			step := new(trainertest.Step)
			o := trainer.Options{MaxSteps: 3, BatchSize: 2, Accumulate: 2, Log: trainer.Every(1, trainer.Update),
				Semantics: c.rules}
			r, err := streamed(t, step, o, data.StreamOf(trainertest.Samples(5), nil))
			if err != nil {
				t.Fatal(err)
			}
			if got := regexp.MustCompile(`update\([^)]*\)`).ReplaceAllString(step.Trace(), "update"); got != c.want {
				t.Errorf("calls\n%s, want\n%s", got, c.want)
			}
			var epochs []float64
			for _, row := range r.History[:3] {
				epochs = append(epochs, row["epoch"])
			}
			if !slices.EqualFunc(epochs, c.epochs, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
				t.Errorf("epochs %v, want %v", epochs, c.epochs)
			}
		})
	}
}

// A stream of 3 samples, batches of 2, windows of 3: under Hugging Face's rule no pass gives an
// update, and its loop never ends.
func TestAStreamThatNeverFillsAWindow(t *testing.T) {
	stream := data.StreamOf(trainertest.Samples(3), nil)
	o := trainer.Options{MaxSteps: 4, BatchSize: 2, Accumulate: 3}
	o.Semantics.Loop = semantics.HuggingFaceLoop
	step := new(trainertest.Step)
	_, err := streamed(t, step, o, stream)
	if err == nil || !strings.Contains(err.Error(), "the last 20 passes over the stream gave no update") ||
		!strings.Contains(err.Error(), "Options.Accumulate (3)") {
		t.Errorf("ended with %v, want the reason why no update comes", err)
	}
	if got := strings.Count(step.Trace(), "train("); got != 40 {
		t.Errorf("trained on %d batches, want those of 20 passes", got)
	}

	o.Callbacks = []any{&stopAtPass{at: 7}}
	r, err := streamed(t, new(trainertest.Step), o, stream)
	if err != nil || r.GlobalStep != 0 {
		t.Errorf("a hook that stops the run: %+v, %v; want its end without an update", r, err)
	}

	o.Callbacks, o.Semantics.Loop = nil, semantics.DefaultLoop
	if r, err = streamed(t, new(trainertest.Step), o, stream); err != nil || r.GlobalStep != 4 {
		t.Errorf("without the rule: %+v, %v; want all 4 updates", r, err)
	}
}

// stopAtPass stops a run at the end of the pass with this number.
type stopAtPass struct{ at, seen int }

func (s *stopAtPass) EpochEnd(r *trainer.Run) error {
	if s.seen++; s.seen == s.at {
		r.Stop("enough")
	}
	return nil
}

func TestDropLastOfAStream(t *testing.T) {
	for _, c := range []struct {
		claim string
		keeps bool
		want  int
	}{
		{"leaves the short batch out", false, 2},
		{"leaves it in under StreamKeepsLast", true, 3},
	} {
		step := new(trainertest.Step)
		o := trainer.Options{MaxSteps: 6, BatchSize: 2, DropLast: true}
		o.Semantics.StreamKeepsLast = c.keeps
		if _, err := streamed(t, step, o, data.StreamOf(trainertest.Samples(5), nil)); err != nil {
			t.Fatal(err)
		}
		if passes := strings.Count(step.Trace(), "train(0,1)"); passes != 6/c.want {
			t.Errorf("%s: %d passes, want %d of %d batches", c.claim, passes, 6/c.want, c.want)
		}
	}
}

// transformers warns and ends a run that finds no batch; by default it is an error.
func TestARunWithoutABatch(t *testing.T) {
	o := trainer.Options{MaxSteps: 4, BatchSize: 8, DropLast: true, Progress: io.Discard}
	fit := func() (*trainer.Result, string, error) {
		step := new(trainertest.Step)
		tr, err := trainer.New[int, []int](step, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), trainertest.Samples(5), nil)
		return r, step.Trace(), err
	}
	if _, _, err := fit(); err == nil || !strings.Contains(err.Error(), "DropLast") {
		t.Errorf("by default: %v, want a refusal of DropLast", err)
	}
	o.Semantics = semantics.HuggingFace
	r, calls, err := fit()
	if err != nil || r.GlobalStep != 0 || r.TrainLoss != 0 || strings.Contains(calls, "train(") {
		t.Errorf("with EndWithoutBatch: %+v, %v, %q; want the end of a run without an update", r, err, calls)
	}
	if r, err := streamed(t, new(trainertest.Step), o, data.StreamOf(trainertest.Samples(0), nil)); err != nil ||
		r.GlobalStep != 0 {
		t.Errorf("a stream with EndWithoutBatch: %+v, %v; want its end without an update", r, err)
	}
	o.MaxSteps, o.Epochs = 0, 1
	if _, _, err := fit(); err == nil || !strings.Contains(err.Error(), "DropLast") {
		t.Errorf("without MaxSteps: %v, want a refusal of DropLast, as in transformers", err)
	}
}

func TestStreamsAreRefusedWhereTheyCannotBe(t *testing.T) {
	some := data.StreamOf(trainertest.Samples(5), nil)
	for _, c := range []struct {
		claim, want string
		o           trainer.Options
		stream      data.Stream[int]
	}{
		{"without MaxSteps", "Options.MaxSteps is 0", trainer.Options{}, some},
		{"with an order", "Options.Order is data.Sequential", trainer.Options{MaxSteps: 1, Order: data.Sequential{}},
			some},
		{"with fewer batches", "Options.LimitBatches is 3", trainer.Options{MaxSteps: 1, LimitBatches: 3}, some},
		{"with fewer steps", "Options.MaxStepsPerEpoch is 3", trainer.Options{MaxSteps: 1, MaxStepsPerEpoch: 3}, some},
		{"without samples", "no samples in its first pass", trainer.Options{MaxSteps: 1},
			data.StreamOf(trainertest.Samples(0), nil)},
		{"that are nil", "got nil", trainer.Options{MaxSteps: 1}, nil},
	} {
		if _, err := streamed(t, new(trainertest.Step), c.o, c.stream); err == nil || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%s: error %v, want %q", c.claim, err, c.want)
		}
	}
}

func TestAStreamThatCanBeReadOnceEndsTheRun(t *testing.T) {
	once := data.StreamFunc[int](func(pass, skip int) iter.Seq2[int, error] {
		return data.StreamOf(trainertest.Samples(5*max(0, 1-pass)), nil).Samples(0, skip)
	})
	r, err := streamed(t, new(trainertest.Step), trainer.Options{MaxSteps: 10, BatchSize: 2}, once)
	if err != nil {
		t.Fatal(err)
	}
	if r.GlobalStep != 3 || r.Epoch != 1 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0],
		"after 3 of 10 updates") {
		t.Errorf("ended with %+v", r)
	}
}

// A run over a stream that is killed after any update continues from its checkpoint to the same
// outcome.
func TestAStreamGoesOnFromEveryPoint(t *testing.T) {
	run := func(cancelAt int) (string, []trainer.Logs) {
		dir := memoryDir(t)
		o := trainer.Options{
			OutputDir: dir, MaxSteps: 9, BatchSize: 2, Accumulate: 2, Log: trainer.Every(2, trainer.Update),
			Eval:       trainer.Every(1, trainer.Epoch),
			ResumeFrom: trainer.Latest, Progress: io.Discard,
		}
		for {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			step := &trainertest.Step{Inject: func(op string, n int) error {
				if (op == "train" || op == "eval") && cancelAt > 0 {
					if cancelAt--; cancelAt == 0 {
						cancel()
					}
				}
				return nil
			}}
			tr, err := trainer.New(step, o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := tr.FitStream(ctx, data.StreamOf(trainertest.Samples(9), nil), trainertest.Samples(3))
			if errors.Is(err, context.Canceled) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(step.Weights(), step.Generator(), r.Epoch), r.History
		}
	}
	whole, log := run(0)
	for at := 1; at <= 17; at++ {
		state, history := run(at)
		if state != whole {
			t.Errorf("cancelled at call %d: state %s, want %s", at, state, whole)
		}
		if diff := cmp.Diff(log, history, ignoreTimes); diff != "" {
			t.Errorf("cancelled at call %d (-whole +resumed):\n%s", at, diff)
		}
	}
}
