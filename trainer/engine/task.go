package engine

import (
	"github.com/gotrainer/gotrainer/torch"
)

// Task ties a model to its data. S is a sample, B a batch.
type Task[S, B any] interface {
	// Model is a pointer to the struct that holds the parameters, as package nn finds them.
	Model() any

	// Collate makes a batch of samples, at least one. Loaders call it from several goroutines at once; it must not call libtorch.
	Collate(samples []S) (B, error)

	// Loss runs the model on a batch. It is called inside a scope, under autocast where the precision asks for it, with gradients
	// recorded. Mistakes panic as package torch does.
	Loss(p Pass, b B) Loss
}

// Evaluator is a [Task] with more to say about an evaluation than its mean loss.
type Evaluator[B any] interface {
	// Evaluate runs the model on a batch of the evaluation, without gradients and with the model in evaluation mode, and
	// gathers what Metrics needs.
	Evaluate(p Pass, b B) Loss

	// Metrics returns the numbers of the evaluation by name, without "loss", and starts anew.
	Metrics() map[string]float64
}

// ItemCounter is a [Task] whose loss is averaged over the labelled items of a whole accumulation window, such as tokens.
type ItemCounter[B any] interface {
	CountItems(b B) int64
}

// Configurer is a [Task] that describes its model in files beside the weights, such as config.json.
type Configurer interface {
	WriteConfig(dir string) error
}

// Pass says under which circumstances a model runs.
type Pass struct {
	Device torch.Device
	Items  int64 // labelled items of the accumulation window, if the task counts them; else 0
}

// Input copies a slice into a tensor on the device of the pass.
func Input[T torch.Element](p Pass, data []T, shape ...int64) torch.Tensor {
	t := torch.From(data, shape...)
	if p.Device == torch.CPU {
		return t
	}
	return t.ToDevice(p.Device)
}

// Loss is what a model returns for a batch.
type Loss struct {
	Value torch.Tensor // one number
	Rows  int          // samples in the batch; an evaluation weighs its batches by them
	whole bool
}

// Mean is the mean loss of a batch of rows samples. It is divided by the number of batches in its accumulation window.
func Mean(value torch.Tensor, rows int) Loss { return Loss{Value: value, Rows: rows} }

// PerItem is the part of a batch in the loss of the whole window: its sum divided by [Pass].Items. It is not divided again.
func PerItem(value torch.Tensor, rows int) Loss { return Loss{Value: value, Rows: rows, whole: true} }

// TaskFunc makes a [Task] of a model and two functions.
func TaskFunc[S, B any](model any, collate func([]S) (B, error), loss func(Pass, B) Loss) Task[S, B] {
	return taskFunc[S, B]{model, collate, loss}
}

type taskFunc[S, B any] struct {
	model   any
	collate func([]S) (B, error)
	loss    func(Pass, B) Loss
}

func (t taskFunc[S, B]) Model() any                     { return t.model }
func (t taskFunc[S, B]) Collate(samples []S) (B, error) { return t.collate(samples) }
func (t taskFunc[S, B]) Loss(p Pass, b B) Loss          { return t.loss(p, b) }
