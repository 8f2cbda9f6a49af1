package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// two has two validation sets, of 3 and 2 samples.
var two = trainer.EvalSets[int]{{Name: "a", Set: trainertest.Samples(3)}, {Name: "b", Set: trainertest.Samples(2)}}

// byRows gives evaluations with the given number of rows these values, in order.
func byRows(metric string, values map[int][]float64) func(int, []int) trainer.Metrics {
	seen := map[int]int{}
	return func(_ int, rows []int) trainer.Metrics {
		v := values[len(rows)][seen[len(rows)]]
		seen[len(rows)]++
		return trainer.Metrics{metric: v, "loss": 0}
	}
}

func fitted(t *testing.T, step trainer.Step[int, []int], o trainer.Options, train int,
	valid data.Dataset[int]) (*trainer.Result, error) {
	t.Helper()
	o.Progress = io.Discard
	tr, err := trainer.New(step, o)
	if err != nil {
		return nil, err
	}
	return tr.Fit(t.Context(), trainertest.Samples(train), valid)
}

// evalNames records the names of the evaluations it sees.
type evalNames struct{ names []string }

func (e *evalNames) AfterEval(r *trainer.Run, m trainer.Metrics) error {
	v, ok := r.BestValue(m)
	e.names = append(e.names, fmt.Sprintf("%s %v %v %v", r.Evaluation, r.Decides(), v, ok))
	return nil
}

func TestSeveralValidationSets(t *testing.T) {
	t.Run("each is logged under its name and passed to the hooks; the named one decides the best",
		func(t *testing.T) {
			names := new(evalNames)
			step := &trainertest.Step{EvalMetrics: byRows("accuracy", map[int][]float64{3: {0.1, 0.2, 0.3},
				2: {0.5, 0.9, 0.7}})}
			r, err := fitted(t, step, trainer.Options{MetricForBest: "eval_b_accuracy", Callbacks: []any{names}}, 8,
				two)
			if err != nil {
				t.Fatal(err)
			}
			if r.Best.Metric != "eval_b_accuracy" || r.Best.Value != 0.9 || r.Best.Metrics["eval_a_accuracy"] != 0.2 {
				t.Errorf("best %+v, want eval_b_accuracy 0.9 with eval_a_accuracy 0.2", r.Best)
			}
			if diff := cmp.Diff([]string{"eval_a false 0 false", "eval_b true 0.5 true"}, names.names[:2]); diff != "" {
				t.Error(diff)
			}
			if got := step.Evaluations[1]; got != (trainer.Evaluation{Name: "eval_b", Rows: 2, BatchSize: 8}) {
				t.Errorf("StartEval got %+v", got)
			}
		})
	t.Run("without a metric the loss of the first decides", func(t *testing.T) {
		r, err := fitted(t, new(trainertest.Step), trainer.Options{}, 8, two)
		if err != nil || r.Best.Metric != "eval_a_loss" {
			t.Errorf("best %+v, %v; want eval_a_loss", r, err)
		}
	})
	t.Run("early stopping counts the set that decides", func(t *testing.T) {
		step := &trainertest.Step{EvalMetrics: byRows("accuracy", map[int][]float64{3: {1, 2, 3, 4, 5, 6},
			2: {5, 4, 3, 2, 1, 0}})}
		o := trainer.Options{Epochs: 6, MetricForBest: "b_accuracy",
			Callbacks: []any{&callback.EarlyStopping{Patience: 2}}}
		if r, err := fitted(t, step, o, 8, two); err != nil || r.GlobalStep != 3 {
			t.Errorf("stopped after %+v, %v; want update 3", r, err)
		}
	})
	for _, c := range []struct {
		claim, want string
		sets        data.Dataset[int]
	}{
		{"two of one name are refused", `two validation sets have the name "a"`, trainer.EvalSets[int]{two[0], two[0]}},
		{"one without a name is refused", "validation set 1 of 1 has no name",
			trainer.EvalSets[int]{{Set: trainertest.Samples(1)}}},
		{"an empty one is refused", `"b" is empty`, trainer.EvalSets[int]{two[0],
			{Name: "b", Set: trainertest.Samples(0)}}},
		{"one that is nil is refused", `"b" is empty`, trainer.EvalSets[int]{two[0], {Name: "b"}}},
		{"none is refused", "validation set is empty", trainer.EvalSets[int]{}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if _, err := fitted(t, new(trainertest.Step), trainer.Options{}, 8, c.sets); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	t.Run("together they are a data set", func(t *testing.T) {
		var all []int
		for i := range two.Len() {
			v, err := two.At(i)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		if _, err := two.At(5); !slices.Equal(all, []int{0, 1, 2, 0, 1}) || err == nil {
			t.Errorf("samples %v, error of a sixth %v", all, err)
		}
	})
}

// A run that is interrupted in its second validation set continues with that set and ends like an
// uninterrupted one.
func TestInterruptedInTheSecondValidationSet(t *testing.T) {
	run := func(interruptAt int) (*trainertest.Step, []trainer.Logs) {
		dir := memoryDir(t)
		o := trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 4, EvalBatchSize: 1, ResumeFrom: trainer.Latest,
			Progress: io.Discard}
		for {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			step := &trainertest.Step{Inject: func(op string, n int) error {
				if op == "eval" && n == interruptAt {
					cancel()
				}
				return nil
			}}
			tr, err := trainer.New(step, o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := tr.Fit(ctx, trainertest.Samples(8), two)
			if errors.Is(err, context.Canceled) && interruptAt > 0 {
				interruptAt = 0
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			return step, r.History
		}
	}
	whole, history := run(0)
	for at := 1; at <= 10; at++ {
		step, log := run(at)
		if step.Weights() != whole.Weights() || step.Generator() != whole.Generator() {
			t.Errorf("interrupted at evaluation batch %d: another state of the step", at)
		}
		if diff := cmp.Diff(history, log, ignoreTimes); diff != "" {
			t.Errorf("interrupted at evaluation batch %d: log (-whole +resumed):\n%s", at, diff)
		}
	}
}

func TestEvalDelay(t *testing.T) {
	for _, c := range []struct {
		claim string
		eval  trainer.Trigger
		delay float64
		want  []float64 // steps of the evaluations
	}{
		{"counts updates where Eval does", trainer.Every(2, trainer.Update), 3, []float64{4, 6, 7}},
		{"is reached by the update itself", trainer.Every(2, trainer.Update), 4, []float64{4, 6, 7}},
		{"holds for the last update too", trainer.Every(2, trainer.Update), 8, nil},
		{"counts epochs where Eval does", trainer.Every(1, trainer.Epoch), 1.5, []float64{6, 7}},
	} {
		var got []float64
		o := trainer.Options{MaxSteps: 7, BatchSize: 4, Eval: c.eval, EvalDelay: c.delay}
		r, err := fitted(t, new(trainertest.Step), o, 12, trainertest.Samples(2))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r.History {
			if _, ok := row["eval_loss"]; ok {
				got = append(got, row["step"])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: evaluated after %v, want %v", c.claim, got, c.want)
		}
	}
	if _, err := trainer.New(new(trainertest.Step), trainer.Options{EvalDelay: -1}); err == nil ||
		!strings.Contains(err.Error(), "EvalDelay") {
		t.Errorf("a negative delay: %v", err)
	}
}

// predictHook records the arguments of AfterPredict.
type predictHook struct{ metrics []trainer.Metrics }

func (p *predictHook) AfterPredict(r *trainer.Run, m trainer.Metrics) error {
	if r.Evaluation != "holdout" {
		return fmt.Errorf("the prediction is called %q", r.Evaluation)
	}
	p.metrics = append(p.metrics, m)
	return nil
}

func TestPredict(t *testing.T) {
	hook := new(predictHook)
	step := new(trainertest.Step)
	tr, err := trainer.New(step, trainer.Options{EvalBatchSize: 2, Callbacks: []any{hook}, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	p, err := tr.Predict(t.Context(), trainertest.Samples(5), "holdout")
	if err != nil {
		t.Fatal(err)
	}
	if got := step.Trace(); got != "eval(0,1) eval(2,3) eval(4) metrics" {
		t.Errorf("trace %s", got)
	}
	if e := step.Evaluations[0]; !e.Predict || e.Name != "holdout" || e.Rows != 5 {
		t.Errorf("StartEval got %+v", e)
	}
	if _, ok := p.Metrics["holdout_runtime"]; !ok || p.Samples != 5 ||
		p.Metrics["holdout_loss"] != hook.metrics[0]["loss"] || len(tr.History()) != 0 {
		t.Errorf("prediction %+v, hook %v, log %v", p, hook.metrics, tr.History())
	}
	if _, err := tr.Predict(t.Context(), two, ""); err == nil {
		t.Error("two sets at a time were accepted")
	}
	if _, err := tr.Predict(t.Context(), nil, ""); err == nil {
		t.Error("no set was accepted")
	}
}

func TestEvaluationsAroundARun(t *testing.T) {
	tr, err := trainer.New(new(trainertest.Step), trainer.Options{Epochs: 1, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Evaluate(t.Context(), trainertest.Samples(2)); err != nil || len(tr.History()) != 1 {
		t.Fatalf("before: %v, log %v", err, tr.History())
	}
	if _, err := tr.Fit(t.Context(), trainertest.Samples(16), nil); err != nil {
		t.Fatal(err)
	}
	before := tr.History()
	row, err := tr.EvaluateAs(t.Context(), two, "final")
	if err != nil {
		t.Fatal(err)
	}
	log := tr.History()
	if len(before) != 1 || len(log) != 3 || log[2]["step"] != 2 || log[2]["epoch"] != 1 ||
		log[2]["final_b_loss"] != row["final_b_loss"] || row["epoch"] != 1 {
		t.Errorf("log %v, then %v; returned %v", before, log, row)
	}
	if _, err := tr.EvaluateAs(t.Context(), two, ""); err == nil {
		t.Error("an empty prefix was accepted")
	}
	m, err := tr.Evaluate(t.Context(), two)
	if _, ok := m["b_loss"]; err != nil || !ok || len(m) != 2 {
		t.Errorf("bare names %v, %v", m, err)
	}
}

// A second Fit continues with the weights; everything that the trainer counts starts over.
func TestFitTwice(t *testing.T) {
	step := new(trainertest.Step)
	tr, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 4, LearningRate: 0.1, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	var weights []uint64
	for range 2 {
		step.Calls = nil
		r, err := tr.Fit(t.Context(), trainertest.Samples(8), nil)
		if err != nil || r.GlobalStep != 2 || len(r.History) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := step.Trace(); strings.Count(got, "update(0.1)") != 1 || strings.Count(got, "update(0.05)") != 1 {
			t.Errorf("trace %s, want the schedule from its beginning", got)
		}
		weights = append(weights, step.Weights())
	}
	if weights[0] == weights[1] {
		t.Error("the second Fit changed nothing")
	}
}
