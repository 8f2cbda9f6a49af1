// Command trainer_guide is the first listing of Hugging Face's Trainer guide: a model, a data set
// and the options of a run that pushes its checkpoints to the Hub. The guide does not say which
// model and data set; here they are the course's.
package main

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

var trainingArgs = trainer.Options{
	OutputDir:     "your-model",
	LearningRate:  2e-5,
	BatchSize:     16,
	EvalBatchSize: 16,
	Epochs:        2,
	Eval:          trainer.Every(1, trainer.Epoch),
	Save:          trainer.Every(1, trainer.Epoch),
	LoadBestAtEnd: true,
	Pusher:        new(hub.Pusher),
}

func main() { run.Main(train) }

func train(ctx context.Context) error {
	dataset, err := glue.Load(ctx, "mrpc")
	if err != nil {
		return err
	}
	metrics, err := glue.Metrics("mrpc")
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
	device, err := torch.ParseDevice("auto")
	if err != nil {
		return err
	}
	step, err := classify.NewStep(model, classify.TaskOptions{Metrics: metrics.Labels},
		engine.Options{Optimizer: optim.AdamW{WeightDecay: new(0.01)}, Device: device})
	if err != nil {
		return err
	}
	t, err := trainer.New(step, trainingArgs)
	if err != nil {
		return err
	}
	_, err = t.Fit(ctx, data.Map(dataset.Train, tokenize), data.Map(dataset.Validation, tokenize))
	return err
}
