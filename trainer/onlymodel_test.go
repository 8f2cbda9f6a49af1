package trainer_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// onlyModel makes a run of 6 updates with a checkpoint of the weights after the third, and returns
// its options and the folder of that checkpoint.
func onlyModel(t *testing.T) (o trainer.Options, from string) {
	t.Helper()
	o = trainer.Options{OutputDir: t.TempDir(), MaxSteps: 6, BatchSize: 2, SaveOnlyModel: true, Save: trainer.Every(3,
		trainer.Update), Log: trainer.Every(1, trainer.Update), Progress: io.Discard}
	ops := map[string]int{}
	step := &trainertest.Step{Inject: func(op string, _ int) error {
		ops[op]++
		return nil
	}}
	if _, err := runOnce(t.Context(), step, o); err != nil {
		t.Fatal(err)
	}
	if ops["saveweights"] != 2 || ops["save"] != 0 {
		t.Errorf("the step was asked for %v, want its weights alone, twice", ops)
	}
	return o, filepath.Join(o.OutputDir, "checkpoint-3")
}

func TestACheckpointOfTheWeightsIsNotResumed(t *testing.T) {
	o, from := onlyModel(t)
	o.ResumeFrom = from
	loads := 0
	step := &trainertest.Step{Inject: func(op string, _ int) error {
		if op == "load" || op == "loadweights" {
			loads++
		}
		return nil
	}}
	if _, err := runOnce(t.Context(), step, o); !errors.Is(err, trainer.ErrOnlyModel) || !strings.Contains(err.Error(),
		from) {
		t.Errorf("Fit = %v, want ErrOnlyModel with the checkpoint's name", err)
	}
	if loads > 0 {
		t.Error("the step was loaded before the refusal")
	}
}

// Under ResumeFromWeights the counts continue, while the learning rate starts at the beginning of
// the schedule.
func TestResumeFromWeights(t *testing.T) {
	o, from := onlyModel(t)
	o.ResumeFrom, o.Semantics.ResumeFromWeights = from, true
	step := new(trainertest.Step)
	tr, err := trainer.New[int, []int](step, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Fit(t.Context(), trainertest.Samples(13), trainertest.Samples(7))
	if err != nil {
		t.Fatal(err)
	}
	if r.GlobalStep != 6 || strings.Count(step.Trace(), "update(") != 3 {
		t.Errorf("ended at %d after %s, want 3 updates up to 6", r.GlobalStep, step.Trace())
	}
	var first trainer.Logs
	for _, row := range r.History {
		if _, ok := row["learning_rate"]; ok && row["step"] == 4 {
			first = row
		}
	}
	if first["learning_rate"] != 5e-5 {
		t.Errorf("the rate of the first update is %v, want the peak 5e-05", first["learning_rate"])
	}
	if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "holds only the weights") {
		t.Errorf("warnings %q, want one about what begins again", r.Warnings)
	}
	if _, err := os.Stat(filepath.Join(from, "trainer_state.json")); err != nil {
		t.Error(err)
	}
}

// Under DropLastInEvaluation a set with fewer rows than a batch is evaluated on no rows.
func TestAnEvaluationOfNoRow(t *testing.T) {
	o := trainer.Options{MaxSteps: 1, DropLast: true, EvalBatchSize: 9, BatchSize: 2, Eval: trainer.Every(1,
		trainer.Update), Progress: io.Discard}
	o.Semantics.DropLastInEvaluation = true
	step := new(trainertest.Step)
	if _, err := runOnce(t.Context(), step, o); err != nil {
		t.Fatal(err)
	}
	if trace := step.Trace(); strings.Contains(trace, "eval(") || strings.Count(trace, "metrics") != 1 {
		t.Errorf("the step did %s, want an evaluation without a batch", trace)
	}
}
