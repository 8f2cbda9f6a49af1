package engine

import (
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/torch"
)

// Predictor is a [Task] in two halves: what the model computes, and the loss of that. It lets the
// engine replace the model's loss ([Options].Loss, [Options].LabelSmoothing), keep the predictions
// of an evaluation and compute metrics over all of them.
type Predictor[B any] interface {
	// Predict runs the model on a batch.
	Predict(p ForwardPass, b B) Outputs

	// LossOf returns the model's own loss for the result of Predict. In an evaluation without
	// labels it returns a Loss without Value.
	LossOf(p ForwardPass, o Outputs) Loss
}

// Observer is a [Predictor] that gathers metrics batch by batch from the model's outputs.
type Observer[B any] interface {
	Predictor[B]

	// Observe records a batch of the evaluation.
	Observe(b B, o Outputs)

	// Metrics returns the numbers of the evaluation by name, without "loss", and starts over.
	Metrics() map[string]float64
}

// Outputs are what a model returns for a batch, other than its loss, and what they are compared
// with. The first dimension of every tensor is that of the samples.
type Outputs struct {
	Logits []torch.Tensor // first the logits, then anything else for the predictions, such as hidden states
	// Labels are first the labels, then further ones (Hugging Face's label_names). Empty: a batch
	// without labels.
	Labels []torch.Tensor
	Inputs []torch.Tensor // inputs for metrics (include_for_metrics="inputs"); usually none
	Aux    torch.Tensor   // a part of the loss that does not depend on labels, a scalar; undefined: none
	Rows   int            // samples in the batch

	// Shifted says that position i of the logits predicts label i+1, as causal language models do.
	Shifted bool
}

// PredictFunc makes a [Task] that is a [Predictor], from a model and three functions.
func PredictFunc[S, B any](model any, collate func([]S) (B, error), predict func(ForwardPass, B) Outputs,
	loss func(ForwardPass, Outputs) Loss) Task[S, B] {
	whole := func(p ForwardPass, b B) Loss { return loss(p, predict(p, b)) }
	return predictFunc[S, B]{taskFunc[S, B]{model, collate, whole}, predict, loss}
}

type predictFunc[S, B any] struct {
	taskFunc[S, B]
	predict func(ForwardPass, B) Outputs
	lossOf  func(ForwardPass, Outputs) Loss
}

func (t predictFunc[S, B]) Predict(p ForwardPass, b B) Outputs   { return t.predict(p, b) }
func (t predictFunc[S, B]) LossOf(p ForwardPass, o Outputs) Loss { return t.lossOf(p, o) }

// asFloat32 converts outputs in the dtype of autocast to float32, as Accelerate does
// (convert_outputs_to_fp32).
func (o Outputs) asFloat32() Outputs {
	o.Logits = each(o.Logits, func(t torch.Tensor) torch.Tensor {
		if d := t.DType(); d == torch.BFloat16 || d == torch.Float16 {
			return t.ToDType(torch.Float32)
		}
		return t
	})
	return o
}

func each[T any](ts []T, f func(T) torch.Tensor) []torch.Tensor {
	if len(ts) == 0 {
		return nil
	}
	out := make([]torch.Tensor, len(ts))
	for i, t := range ts {
		out[i] = f(t)
	}
	return out
}

// ownLoss reports whether the options replace the model's loss.
func (o *Options) ownLoss() bool { return o.Loss != nil || o.LabelSmoothing != 0 }

// lossOf computes the loss of outputs under the options, as compute_loss of Hugging Face's Trainer
// does: Options.Loss and label smoothing get outputs in float32 and run outside of autocast; the
// model's own loss runs inside.
func (s *core) lossOf(p ForwardPass, o Outputs) (loss Loss, converted Outputs) {
	converted = o
	if p.precision != amp.FP32 {
		converted = o.asFloat32()
	}
	switch {
	case s.options.Loss != nil:
		loss = s.options.Loss(p, converted)
	case s.options.LabelSmoothing != 0 && len(o.Labels) > 0:
		loss = LabelSmoothing(p, converted, s.options.LabelSmoothing, IgnoreIndex)
	default:
		p.Autocast(func() { loss = s.task.LossOf(p, o) })
	}
	if loss.Rows == 0 {
		loss.Rows = o.Rows
	}
	return loss, converted
}
