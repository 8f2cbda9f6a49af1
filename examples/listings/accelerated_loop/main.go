// Command accelerated_loop is the complete training loop of the Hugging Face course with
// Accelerate: started on its own it is one process; "gotrainer launch -n 2 ./accelerated_loop"
// trains with two.
package main

import (
	"context"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/progress"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func main() { run.Main(train) }

func train(ctx context.Context) error {
	rawDatasets, err := glue.Load(ctx, "mrpc")
	if err != nil {
		return err
	}
	model, err := auto.SequenceClassification(ctx, "bert-base-uncased", auto.Options{})
	if err != nil {
		return err
	}
	tokenize := func(e glue.Example) (classify.Sample, error) {
		return model.Encode(text.Pair(e.A, e.B), int64(e.Label))
	}
	task := model.Task()

	options, err := accelerate.Environment(false)
	if err != nil {
		return err
	}
	if options.Group, err = dist.Init(ctx, dist.Options{}); err != nil {
		return err
	}
	defer options.Group.Close() //nolint:errcheck // the run is over
	accelerator, err := accelerate.New(options)
	if err != nil {
		return err
	}
	if err := accelerator.PrepareModel(model); err != nil {
		return err
	}
	trainDL, err := accelerate.PrepareLoader(accelerator, data.Map(rawDatasets.Train, tokenize), task.Collate,
		accelerate.LoaderOptions{BatchSize: 8, Shuffle: true})
	if err != nil {
		return err
	}
	optimizer := accelerator.PrepareOptimizer(
		optim.NewAdamW(nn.Params(model), optim.AdamW{WeightDecay: new(0.0)}), 3e-5)
	numEpochs := 3
	numTrainingSteps := numEpochs * trainDL.Len()
	scheduler, err := accelerator.PrepareSchedule(optimizer, lr.Linear{}, numTrainingSteps*accelerator.NumProcesses())
	if err != nil {
		return err
	}

	progressBar := progress.New(numTrainingSteps, progress.Options{})
	defer progressBar.Close()
	nn.SetTraining(model, true)
	for range numEpochs {
		for batch, err := range trainDL.Batches(ctx) {
			if err != nil {
				return err
			}
			if err := accelerator.Accumulate(func() error {
				loss := task.Loss(engine.ForwardPass{Device: accelerator.Device()}, batch)
				accelerator.Backward(loss.Value)
				if err := optimizer.Step(); err != nil {
					return err
				}
				if err := scheduler.Step(); err != nil {
					return err
				}
				optimizer.ZeroGrad()
				progressBar.Update(1)
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return accelerator.WaitForEveryone()
}
