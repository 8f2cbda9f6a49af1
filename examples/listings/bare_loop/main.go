// Command bare_loop is the Hugging Face course's full training without a Trainer: the data, the
// model, the training loop and the evaluation loop.
package main

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/progress"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
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
	trainLoader, err := data.NewLoader(data.Map(rawDatasets.Train, tokenize), task.Collate,
		data.LoaderOptions{BatchSize: 8, Order: data.Shuffled{}})
	if err != nil {
		return err
	}
	evalLoader, err := data.NewLoader(data.Map(rawDatasets.Validation, tokenize), task.Collate,
		data.LoaderOptions{BatchSize: 8})
	if err != nil {
		return err
	}

	device, err := torch.ParseDevice("auto")
	if err != nil {
		return err
	}
	on := engine.ForwardPass{Device: device}
	nn.To(model, torch.TensorOptions{Device: device})
	optimizer := optim.NewAdamW(nn.Params(model), optim.AdamW{WeightDecay: new(0.0)})
	numEpochs := 3
	numTrainingSteps := numEpochs * trainLoader.Len()
	rate := lr.Linear{}.Plan(5e-5, numTrainingSteps)
	fmt.Println(numTrainingSteps)

	progressBar := progress.New(numTrainingSteps, progress.Options{})
	defer progressBar.Close()
	nn.SetTraining(model, true)
	for epoch := range numEpochs {
		for batch, err := range trainLoader.Epoch(ctx, epoch, 0) {
			if err != nil {
				return err
			}
			if err := torch.Try(func() {
				torch.Scope(func() {
					loss := task.Loss(on, batch)
					loss.Value.Backward()
					optimizer.Step(rate(optimizer.Updates()))
					optimizer.ZeroGrad()
					progressBar.Update(1)
				})
			}); err != nil {
				return err
			}
		}
	}
	nn.SetTraining(model, false)
	return evaluate(ctx, task, evalLoader, on)
}

func evaluate(ctx context.Context, task *classify.Task, evalLoader *data.Loader[classify.Sample, classify.Batch],
	on engine.ForwardPass) error {
	scores, err := glue.Metrics("mrpc")
	if err != nil {
		return err
	}
	for batch, err := range evalLoader.Epoch(ctx, 0, 0) {
		if err != nil {
			return err
		}
		if err := torch.Try(func() {
			torch.Scope(func() {
				torch.NoGrad(func() {
					outputs := task.Predict(on, batch)
					predictions := torch.Values[int64](outputs.Logits[0].ArgMax(-1, false))
					for i, label := range batch.Labels {
						for _, metric := range scores.Labels {
							metric.Add(int(predictions[i]), int(label))
						}
					}
				})
			})
		}); err != nil {
			return err
		}
	}
	fmt.Println(engine.Results(scores.Labels))
	return nil
}
