package hezar

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The loop calls these: the override, or the method.

func (t *Trainer[S, B]) createTrainDataloader() (*Dataloader[B], error) {
	if f := t.options.Overrides.CreateTrainDataloader; f != nil {
		return f(t)
	}
	return t.CreateTrainDataloader()
}

func (t *Trainer[S, B]) createEvalDataloader(d data.Dataset[S]) (*Dataloader[B], error) {
	if f := t.options.Overrides.CreateEvalDataloader; f != nil {
		return f(t, d)
	}
	return t.CreateEvalDataloader(d)
}

func (t *Trainer[S, B]) prepareInputBatch(b B) (B, error) {
	if f := t.options.Overrides.PrepareInputBatch; f != nil {
		return f(t, b)
	}
	return t.PrepareInputBatch(b)
}

func (t *Trainer[S, B]) forward(b B) (engine.Outputs, error) {
	if f := t.options.Overrides.Forward; f != nil {
		return f(t, b)
	}
	return t.Forward(b)
}

func (t *Trainer[S, B]) computeLoss(o engine.Outputs, b B) (torch.Tensor, error) {
	if f := t.options.Overrides.ComputeLoss; f != nil {
		return f(t, o, b)
	}
	return t.ComputeLoss(o, b)
}

func (t *Trainer[S, B]) trainingStep(b B) (torch.Tensor, error) {
	if f := t.options.Overrides.TrainingStep; f != nil {
		return f(t, b)
	}
	return t.TrainingStep(b)
}

func (t *Trainer[S, B]) optimizationStep() error {
	if f := t.options.Overrides.OptimizationStep; f != nil {
		return f(t)
	}
	return t.OptimizationStep()
}

func (t *Trainer[S, B]) evaluationStep(b B) (EvalOutputs, error) {
	if f := t.options.Overrides.EvaluationStep; f != nil {
		return f(t, b)
	}
	return t.EvaluationStep(b)
}

func (t *Trainer[S, B]) innerTrainingLoop(ctx context.Context, epoch int) (float64, error) {
	if f := t.options.Overrides.InnerTrainingLoop; f != nil {
		return f(t, ctx, epoch)
	}
	return t.InnerTrainingLoop(ctx, epoch)
}

func (t *Trainer[S, B]) evaluate(ctx context.Context, d data.Dataset[S]) (Logs, error) {
	if f := t.options.Overrides.Evaluate; f != nil {
		return f(t, ctx, d)
	}
	return t.Evaluate(ctx, d)
}

func (t *Trainer[S, B]) log(logs Logs, step int) error {
	if f := t.options.Overrides.Log; f != nil {
		return f(t, logs, step)
	}
	return t.Log(logs, step)
}

func (t *Trainer[S, B]) save(path string) error {
	t.lastSaved = t.State.GlobalStep
	if f := t.options.Overrides.Save; f != nil {
		return f(t, path)
	}
	return t.Save(path)
}

func (t *Trainer[S, B]) writeToTensorboard(logs Logs, step int) error {
	if f := t.options.Overrides.WriteToTensorboard; f != nil {
		return f(t, logs, step)
	}
	return t.WriteToTensorboard(logs, step)
}
