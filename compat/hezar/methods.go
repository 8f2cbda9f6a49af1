package hezar

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The methods of Hezar's Trainer that the loop calls and that overrides may call.

// Dataloader returns the batches of a pass.
type Dataloader[B any] struct {
	Len     int // batches of the pass
	Batches func(ctx context.Context) iter.Seq2[B, error]
}

// CreateTrainDataloader makes the loader of the current epoch, starting at State.EpochStep. Its
// order is that of Python's random.shuffle. With several processes, each has every n-th batch, and
// the end is filled up with the first samples.
func (t *Trainer[S, B]) CreateTrainDataloader() (*Dataloader[B], error) {
	g := t.options.Group
	return t.dataloader(t.train, t.Config.BatchSize, t.State.Epoch-1, t.State.EpochStep,
		data.Shard{Rank: g.Rank(), WorldSize: g.World()})
}

// CreateEvalDataloader makes the loader of an evaluation. Rules.SameOrder shuffles it, which
// changes only the order of the batches. With several processes, each evaluates the whole set.
func (t *Trainer[S, B]) CreateEvalDataloader(d data.Dataset[S]) (*Dataloader[B], error) {
	return t.dataloader(d, cmp.Or(t.Config.EvalBatchSize, t.Config.BatchSize), -1, 0, data.Shard{})
}

// dataloader makes the loader for one pass; epoch -1 means an evaluation.
func (t *Trainer[S, B]) dataloader(d data.Dataset[S], size, epoch, skip int, part data.Shard) (*Dataloader[B],
	error) {
	var order data.Order = data.Sequential{}
	switch {
	case !isTrue(t.Config.DataloaderShuffle):
	case t.options.Rules.SameOrder:
		order = data.PythonShuffled{Seed: t.seed()}
	case epoch >= 0:
		order = data.PythonShuffled{Seed: t.seed() + uint64(epoch)}
	}
	l, err := data.NewLoader(d, t.collate, data.LoaderOptions{BatchSize: size, Order: order,
		Workers: t.Config.NumDataloaderWorkers, Shard: part})
	if err != nil {
		return nil, err
	}
	return &Dataloader[B]{Len: l.Len() - skip, Batches: func(ctx context.Context) iter.Seq2[B, error] {
		return l.Epoch(ctx, max(0, epoch), skip)
	}}, nil
}

// PrepareInputBatch does nothing; it exists to be overridden.
func (t *Trainer[S, B]) PrepareInputBatch(b B) (B, error) { return b, nil }

// TrainingStep runs forward and backward on a batch and returns the loss, which is not divided.
func (t *Trainer[S, B]) TrainingStep(b B) (torch.Tensor, error) {
	_, loss, err := t.losses(b)
	if err != nil {
		return torch.Tensor{}, err
	}
	divided := loss.DivScalar(t.window.Divisor)
	if t.scaler != nil {
		divided = t.scaler.Scale(divided)
	}
	return loss.Detach(), t.Backward(divided)
}

// Backward runs the backward pass of a loss: accelerator.backward. In the last batch of a window
// it averages the gradients over the processes, so with several processes a TrainingStep must call
// it.
func (t *Trainer[S, B]) Backward(loss torch.Tensor) error {
	t.averaged = true
	if t.parallel == nil {
		loss.Backward()
		return nil
	}
	return t.parallel.Backward(context.Background(), loss.Backward, loss)
}

// losses corresponds to forward and compute_loss.
func (t *Trainer[S, B]) losses(b B) (o engine.Outputs, loss torch.Tensor, err error) {
	if o, err = t.call.Forward(t, b); err == nil {
		loss, err = t.call.ComputeLoss(t, o, b)
	}
	return o, loss, err
}

// Forward runs the model in the configured precision. Logits are returned in float32.
func (t *Trainer[S, B]) Forward(b B) (o engine.Outputs, err error) {
	if t.precision == amp.FP32 {
		o = t.model.Predict(t.pass(), b)
	} else {
		amp.Autocast(t.device, t.precision, func() { o = t.model.Predict(t.pass(), b) })
		for i := range o.Logits {
			o.Logits[i] = o.Logits[i].ToDType(torch.Float32)
		}
	}
	if len(o.Logits) == 0 || len(o.Labels) == 0 {
		return o, fmt.Errorf("hezar: Predict of %T has returned %d logits and %d labels; want at least one of each",
			t.model, len(o.Logits), len(o.Labels))
	}
	return o, nil
}

func (t *Trainer[S, B]) pass() engine.ForwardPass { return engine.ForwardPass{Device: t.device} }

// ComputeLoss returns the model's loss for the result of Forward.
func (t *Trainer[S, B]) ComputeLoss(o engine.Outputs, _ B) (torch.Tensor, error) {
	return t.model.LossOf(t.pass(), o).Value, nil
}

// endsWindow reports whether the current batch is the last of its accumulation window.
func (t *Trainer[S, B]) endsWindow() bool { return t.window.Index+1 == t.window.Len }

// OptimizationStep makes an update and removes the gradients, if the current batch ends a window.
func (t *Trainer[S, B]) OptimizationStep() error {
	if !t.endsWindow() {
		return nil
	}
	if t.foreign != "" {
		return fmt.Errorf("hezar: the checkpoint is one of %s, and the optimizer %q cannot continue from it", t.foreign,
			t.Config.Optimizer)
	}
	if err := t.scheduler.momentum.Set(t.scheduler.moves); err != nil {
		return err
	}
	if t.scaler == nil {
		t.optimizer.Step(t.LearningRate())
	} else if _, err := t.scaler.Step(t.optimizer, t.LearningRate()); err != nil {
		return err
	} else if err = t.scaler.Update(); err != nil {
		return err
	}
	if err := t.call.AfterUpdate(t); err != nil {
		return err
	}
	t.optimizer.ZeroGrad()
	return nil
}

// EvaluationStep runs the model on a batch of an evaluation.
func (t *Trainer[S, B]) EvaluationStep(b B) (EvalOutputs, error) {
	o, loss, err := t.losses(b)
	if err != nil {
		return EvalOutputs{}, err
	}
	out := EvalOutputs{Predictions: o.Logits[0], Labels: o.Labels[0], Loss: loss, Rows: o.Rows}
	if g, ok := t.model.(Generator[B]); ok && isTrue(t.Config.EvaluateWithGenerate) {
		out.Predictions = g.Generate(t.pass(), b, o)
	}
	return out, nil
}

// Log writes the numbers of an epoch to TensorBoard and training_logs.csv, and saves the state.
func (t *Trainer[S, B]) Log(logs Logs, step int) error {
	if err := t.call.WriteToTensorboard(t, logs, step); err != nil {
		return err
	}
	t.csv.Add(step, logs)
	if !t.options.Group.Main() {
		return nil
	}
	if err := t.csv.Save(filepath.Join(t.State.LogsDir, csvFile)); err != nil {
		return err
	}
	var text []string
	for _, v := range logs {
		text = append(text, fmt.Sprintf("%s %.4g", v.Name, v.Value))
	}
	t.say("step %d: %s\n", step, strings.Join(text, ", "))
	return t.saveState()
}

// WriteToTensorboard writes numbers under their names.
func (t *Trainer[S, B]) WriteToTensorboard(logs Logs, step int) error {
	if t.events == nil {
		return nil
	}
	for _, v := range logs {
		if err := t.events.AddScalar(v.Name, v.Value, step); err != nil {
			return err
		}
	}
	return t.events.Flush()
}
