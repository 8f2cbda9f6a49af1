package trainer_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// everyEvent prints each event under Hugging Face's name, with the updates and the epoch that a
// hook sees.
type everyEvent struct{}

func say(event string, r *trainer.Run) error {
	fmt.Printf("%-21s %d  %.4g\n", event, r.GlobalStep, r.Epoch)
	return nil
}

func (everyEvent) InitEnd(r *trainer.Run) error      { return say("on_init_end", r) }
func (everyEvent) TrainBegin(r *trainer.Run) error   { return say("on_train_begin", r) }
func (everyEvent) EpochBegin(r *trainer.Run) error   { return say("on_epoch_begin", r) }
func (everyEvent) StepBegin(r *trainer.Run) error    { return say("on_step_begin", r) }
func (everyEvent) SubstepEnd(r *trainer.Run) error   { return say("on_substep_end", r) }
func (everyEvent) BeforeUpdate(r *trainer.Run) error { return say("on_pre_optimizer_step", r) }
func (everyEvent) AfterUpdate(r *trainer.Run) error  { return say("on_optimizer_step", r) }
func (everyEvent) StepEnd(r *trainer.Run) error      { return say("on_step_end", r) }
func (everyEvent) EvalStep(r *trainer.Run) error     { return say("on_prediction_step", r) }
func (everyEvent) EpochEnd(r *trainer.Run) error     { return say("on_epoch_end", r) }
func (everyEvent) TrainEnd(r *trainer.Run) error     { return say("on_train_end", r) }
func (everyEvent) PushBegin(r *trainer.Run) error    { return say("on_push_begin", r) }
func (everyEvent) AfterLog(r *trainer.Run, _ trainer.Logs) error {
	return say("on_log", r)
}
func (everyEvent) AfterEval(r *trainer.Run, _ trainer.Metrics) error {
	return say("on_evaluate "+r.Evaluation, r)
}
func (everyEvent) AfterPredict(r *trainer.Run, _ trainer.Metrics) error {
	return say("on_predict "+r.Evaluation, r)
}
func (everyEvent) AfterSave(r *trainer.Run, checkpoint string) error {
	return say("on_save "+filepath.Base(checkpoint), r)
}

type nowhere struct{}

func (nowhere) Push(context.Context, checkpoint.Upload) error { return nil }

// Every event of a run in Hugging Face's order: one epoch of three batches with accumulation over
// two, so the last window is short; log after every update, evaluation and a checkpoint that is
// uploaded after the epoch; then a prediction.
func Example_events() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	t, err := trainer.New(new(trainertest.Step), trainer.Options{
		OutputDir: dir, Epochs: 1, BatchSize: 1, Accumulate: 2, Log: trainer.Every(1, trainer.Update),
		Eval: trainer.Every(1, trainer.Epoch),
		Save: trainer.Every(1, trainer.Epoch), Semantics: semantics.HuggingFace, Callbacks: []any{everyEvent{}},
		Pusher: nowhere{}, Progress: io.Discard,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := t.Fit(context.Background(), trainertest.Samples(3), trainertest.Samples(2)); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := t.Predict(context.Background(), trainertest.Samples(1), ""); err != nil {
		fmt.Println(err)
	}
	// Output:
	// on_init_end           0  0
	// on_train_begin        0  0
	// on_epoch_begin        0  0
	// on_step_begin         0  0
	// on_substep_end        0  0
	// on_pre_optimizer_step 0  0
	// on_optimizer_step     0  0
	// on_step_end           1  0.6667
	// on_log                1  0.6667
	// on_step_begin         1  0.6667
	// on_pre_optimizer_step 1  0.6667
	// on_optimizer_step     1  0.6667
	// on_step_end           2  1
	// on_log                2  1
	// on_epoch_end          2  1
	// on_prediction_step    2  1
	// on_log                2  1
	// on_evaluate eval      2  1
	// on_push_begin         2  1
	// on_save checkpoint-2  2  1
	// on_log                2  1
	// on_train_end          2  1
	// on_prediction_step    2  1
	// on_predict test       2  1
}

// evaluateEarly asks for evaluations of its own, beside the ones that are due.
type evaluateEarly struct{ until int }

func (e evaluateEarly) StepEnd(r *trainer.Run) error {
	if r.GlobalStep <= e.until {
		r.Control.ShouldEvaluate = true
	}
	return nil
}

// A callback decides by setting or clearing Control: here the first two updates are evaluated too.
func ExampleControl() {
	t, err := trainer.New(new(trainertest.Step), trainer.Options{Epochs: 1, BatchSize: 2,
		Callbacks: []any{evaluateEarly{until: 2}}, Progress: io.Discard})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := t.Fit(context.Background(), trainertest.Samples(8), trainertest.Samples(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range r.History {
		if _, ok := row["eval_loss"]; ok {
			fmt.Println("evaluated after update", row["step"])
		}
	}
	// Output:
	// evaluated after update 1
	// evaluated after update 2
	// evaluated after update 4
}

// Two validation sets: their numbers have their names, and one of them decides which evaluation is
// the best.
func ExampleEvalSets() {
	step := &trainertest.Step{EvalMetrics: func(_ int, rows []int) trainer.Metrics {
		return trainer.Metrics{"accuracy": float64(len(rows)) / 10}
	}}
	t, err := trainer.New(step, trainer.Options{Epochs: 1, MetricForBest: "mismatched_accuracy", Progress: io.Discard})
	if err != nil {
		fmt.Println(err)
		return
	}
	valid := trainer.EvalSets[int]{{Name: "matched", Set: trainertest.Samples(4)},
		{Name: "mismatched", Set: trainertest.Samples(5)}}
	r, err := t.Fit(context.Background(), trainertest.Samples(8), valid)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Best.Metric, r.Best.Value, r.Best.Metrics["eval_matched_accuracy"])
	// Output: eval_mismatched_accuracy 0.5 0.4
}
