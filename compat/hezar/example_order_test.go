package hezar_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
)

// The order of a run: two epochs of three batches in windows of two, so that each epoch ends with a
// short window. Hezar has no events; these are its methods, which a program may override. The
// checkpoint precedes the evaluation.
func Example_order() {
	dir, err := os.MkdirTemp("", "plates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	type (
		Trainer = hezar.Trainer[crnn.Sample, crnn.Batch]
		Batch   = crnn.Batch
	)
	updates := 0
	trainer := plateTrainer(dir, func(c *hezar.TrainerConfig, o *hezar.Options[crnn.Sample, crnn.Batch]) {
		c.NumEpochs, c.GradientAccumulationSteps, c.LRScheduler = 2, 2, "linear"
		o.Overrides = hezar.Overrides[crnn.Sample, crnn.Batch]{
			InnerTrainingLoop: func(t *Trainer, ctx context.Context, epoch int) (float64, error) {
				fmt.Printf("\ninner_training_loop %d", epoch)
				return t.InnerTrainingLoop(ctx, epoch) // super().inner_training_loop(epoch)
			},
			PrepareInputBatch: func(t *Trainer, b Batch) (Batch, error) {
				fmt.Print("\n  prepare_input_batch")
				return t.PrepareInputBatch(b)
			},
			TrainingStep: func(t *Trainer, b Batch) (torch.Tensor, error) {
				fmt.Print(", training_step")
				return t.TrainingStep(b)
			},
			OptimizationStep: func(t *Trainer) error {
				fmt.Print(", optimization_step")
				return t.OptimizationStep()
			},
			AfterUpdate: func(*Trainer) error {
				updates++
				fmt.Print(", optimizer.step ", updates)
				return nil
			},
			AfterSchedule: func(*Trainer, *float64) error {
				fmt.Print(", lr_scheduler.step")
				return nil
			},
			Save: func(t *Trainer, path string) error {
				fmt.Print("\nsave ", filepath.Base(path))
				return t.Save(path)
			},
			Evaluate: func(t *Trainer, ctx context.Context, d data.Dataset[crnn.Sample]) (hezar.Logs, error) {
				fmt.Print("\nevaluate")
				return t.Evaluate(ctx, d)
			},
			EvaluationStep: func(t *Trainer, b Batch) (hezar.EvalOutputs, error) {
				fmt.Print(", evaluation_step")
				return t.EvaluationStep(b)
			},
			Log: func(t *Trainer, logs hezar.Logs, step int) error {
				fmt.Print("\nlog")
				for _, number := range logs {
					fmt.Print(" ", number.Name)
				}
				return t.Log(logs, step)
			},
		}
	})
	if err := trainer.Train(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// inner_training_loop 1
	//   prepare_input_batch, training_step, optimization_step
	//   prepare_input_batch, training_step, optimization_step, optimizer.step 1
	//   prepare_input_batch, training_step, optimization_step, optimizer.step 2, lr_scheduler.step
	// save 3
	// evaluate
	//   prepare_input_batch, evaluation_step
	// log train.loss evaluation.cer evaluation.wer evaluation.loss
	// inner_training_loop 2
	//   prepare_input_batch, training_step, optimization_step
	//   prepare_input_batch, training_step, optimization_step, optimizer.step 3
	//   prepare_input_batch, training_step, optimization_step, optimizer.step 4, lr_scheduler.step
	// save 6
	// evaluate
	//   prepare_input_batch, evaluation_step
	// log train.loss evaluation.cer evaluation.wer evaluation.loss
}
