package engine

import (
	"reflect"
	"unsafe"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/torch"
)

// Task ties a model to its data. S is a sample, B a batch.
//
// What a user of Hugging Face's Trainer would override is an interface that a task may implement
// besides: [Predictor] shows the model's outputs, [Observer] and [Evaluator] make metrics of them,
// [TrainingStepper] replaces the training step, [LossObserver] sees every loss, [TrainingLogger]
// logs more than the loss, [ItemCounter], [LabelCounter] and [TokenCounter] count, [Configurer]
// writes config.json, [Recycler] uses the memory of batches again.
type Task[S, B any] interface {
	// Model is a pointer to the struct that holds the parameters, as package nn finds them.
	Model() any

	// Collate makes a batch of samples, at least one. Loaders call it from several goroutines at
	// once; it must not call libtorch.
	Collate(samples []S) (B, error)

	// Loss runs the model on a batch. It is called inside a scope, under autocast where the
	// precision asks for it, with gradients recorded. Mistakes panic as package torch does.
	Loss(p ForwardPass, b B) Loss
}

// Evaluator is a [Task] that evaluates a batch by itself: prediction_step of Hugging Face's
// Trainer. Most tasks with metrics are better served by [Observer], which goes together with label
// smoothing, losses of your own and predictions.
type Evaluator[B any] interface {
	// Evaluate runs the model on a batch of the evaluation, without gradients and with the model in
	// evaluation mode, and gathers what Metrics needs.
	Evaluate(p ForwardPass, b B) Loss

	// Metrics returns the numbers of the evaluation by name, without "loss", and starts over.
	Metrics() map[string]float64
}

// TrainingStepper is a [Task] with a training step of its own: training_step of Hugging Face's
// Trainer.
type TrainingStepper[B any] interface {
	// TrainingStep runs forward and backward on one micro-batch, as often as it likes (gradients
	// add up), and returns the loss to report. The usual step is
	//
	//	return t.Backward(t.Loss(b))
	TrainingStep(t Training[B], b B) torch.Tensor
}

// Training is what a [TrainingStepper] works with. Forward passes of its own belong into Autocast.
type Training[B any] struct {
	ForwardPass

	// Loss is the usual forward pass, under autocast, with the loss that the options ask for:
	// compute_loss.
	Loss func(b B) Loss

	// Backward divides a loss as the accumulation window asks for, scales it if the precision needs
	// that, runs the backward pass and returns the divided loss, detached.
	Backward func(l Loss) torch.Tensor
}

// LossObserver is a [Task] that is shown the loss of every micro-batch of the training, as it was
// handed to backward: divided for the accumulation window, detached, and on the device. It lives
// until ObserveLoss returns; reading it waits for the device.
type LossObserver[B any] interface {
	ObserveLoss(b B, loss torch.Tensor)
}

// ItemCounter is a [Task] whose loss is averaged over the labelled items of a whole accumulation
// window, such as tokens: num_items_in_batch.
type ItemCounter[B any] interface {
	CountItems(b B) int64
}

// LabelCounter is a [Task] whose loss is the mean over labels that count, such as those of tokens,
// and not over samples. A batch that is trained in parts (DivideOnOutOfMemory of the trainer) then
// has the gradient of the whole one, and no part without such a label, whose mean is nan. Of an
// [ItemCounter] the items are taken.
type LabelCounter[B any] interface {
	CountLabels(b B) int64
}

// TokenCounter is a [Task] that can count its input: num_input_tokens_seen of Hugging Face, and the
// floating-point operations that follow.
type TokenCounter[B any] interface {
	// CountTokens returns the elements of the main input, padding among them, and the ones that are no
	// padding.
	CountTokens(b B) (all, nonPadding int64)
}

// GeneratorOwner is a [Task] that draws from generators of its own on the CPU, besides the default
// ones. A checkpoint holds their states, by their names, which are no names of devices.
type GeneratorOwner interface {
	Generators() map[string]*torch.Generator
}

// Recycler is a [Task] whose Collate makes batches in the memory of ones that were trained on:
// a [trainer.Recycler]. [data.Buffers] keeps that memory.
type Recycler[B any] interface {
	// Recycle takes a batch back that Collate has made and nobody uses any more. Collate may be
	// running beside it, and keeps nothing of its slice of samples. A task that embeds another, and
	// keeps what its Collate has made, overrides Recycle with a method that does nothing.
	Recycle(b B)
}

// is tells whether a task, or an optimizer, is a T besides.
func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// OptionsValidator is a [Task] that refuses options which have no meaning for it: [New] asks it
// before anything else.
type OptionsValidator interface {
	ValidateOptions(o Options) error
}

// Configurer is a [Task] that describes its model in files beside the weights, such as config.json.
type Configurer interface {
	WriteConfig(dir string) error
}

// ForwardPass says under which circumstances a model runs.
type ForwardPass struct {
	Device torch.Device
	// labelled items of the accumulation window, in an evaluation those of the batch, if the task
	// counts them; else 0
	Items int64
	// Part says that the batch is a part of one that did not fit into memory: see
	// DivideOnOutOfMemory of the trainer
	Part bool

	precision amp.Precision
	staged    *staged       // nil: inputs are sent at once
	full      amp.Precision // everything is in it, inputs too: see Options.FullEval
	arrivals  *arrivals     // nil: none
}

// Autocast runs f in the precision of the run. The methods of a task but TrainingStep are called
// inside of it.
func (p ForwardPass) Autocast(f func()) { amp.Autocast(p.Device, p.precision, f) }

// Input copies a slice into a tensor on the device of the pass. To a GPU it goes through page-locked
// memory, in the order of the current stream, and nothing waits; the slice may be changed at once.
func Input[T torch.Element](p ForwardPass, data []T, shape ...int64) torch.Tensor {
	if shape == nil {
		shape = []int64{int64(len(data))}
	}
	if p.staged != nil && p.staged.handing {
		return p.staged.give(p, torch.DTypeOf[T](), shape)
	}
	if there, ok := onDevice(p, data); ok {
		return p.enter(there.View(shape...), true)
	}
	if !isRemote(p.Device) {
		return p.enter(torch.From(data, shape...), false)
	}
	return p.enter(torch.FromPinned(data, shape...), false)
}

// onDevice is what of a batch the device has already, if it has it.
func onDevice[T torch.Element](p ForwardPass, data []T) (t torch.Tensor, ok bool) {
	if len(data) == 0 || p.arrivals == nil || len(*p.arrivals) == 0 {
		return t, false
	}
	return p.arrivals.take(slice{unsafe.Pointer(unsafe.SliceData(data)), len(data), reflect.TypeFor[T]()})
}

// InputTensor is [Input] of a tensor on the CPU, for tasks that compute some of their input there.
func InputTensor(p ForwardPass, t torch.Tensor) torch.Tensor {
	if p.staged != nil && p.staged.handing {
		return p.staged.give(p, t.DType(), t.Shape())
	}
	if isRemote(p.Device) {
		t = t.PinMemory()
	}
	return p.enter(t, false)
}

// enter takes input that is on the host or on the device already. An evaluation that is wholly in a
// low precision has its input in it too.
func (p ForwardPass) enter(t torch.Tensor, there bool) torch.Tensor {
	if p.staged != nil {
		return p.staged.list(t, there)
	}
	if !there {
		t = toDevice(p, t)
	}
	if p.full != amp.FP32 && t.DType().IsFloatingPoint() {
		t = t.ToDType(p.full.DType())
	}
	return t
}

func toDevice(p ForwardPass, t torch.Tensor) torch.Tensor {
	if !isRemote(p.Device) {
		return t
	}
	return send(t, p.Device)
}

// Whether a device has memory of its own, the way there, and whether it has graphs: variables for the
// tests, which must do without such a device.
var (
	isRemote  = torch.Device.IsCUDA
	send      = torch.Tensor.ToDeviceNonBlocking
	hasGraphs = torch.Device.IsCUDA
)

// Loss is what a model returns for a batch.
type Loss struct {
	Value torch.Tensor // one number; undefined in an evaluation without labels
	Rows  int          // samples in the batch; an evaluation weighs its batches by them
	// Logged are numbers of the batch for the log of the training, [n], of a [TrainingLogger]; undefined:
	// there are none. An evaluation does not look at them.
	Logged torch.Tensor

	whole bool
}

// Mean is the mean loss of a batch of rows samples. It is divided by the number of batches in its
// accumulation window.
func Mean(value torch.Tensor, rows int) Loss { return Loss{Value: value, Rows: rows} }

// PerItem is the part of a batch in the loss of the whole window: its sum divided by
// [ForwardPass].Items. It is not divided again. Of a task that counts no items, it is a mean that
// is added up over the window.
func PerItem(value torch.Tensor, rows int) Loss { return Loss{Value: value, Rows: rows, whole: true} }

// TaskFunc makes a [Task] of a model and two functions.
func TaskFunc[S, B any](model any, collate func([]S) (B, error), loss func(ForwardPass, B) Loss) Task[S, B] {
	return taskFunc[S, B]{model, collate, loss}
}

type taskFunc[S, B any] struct {
	model   any
	collate func([]S) (B, error)
	loss    func(ForwardPass, B) Loss
}

func (t taskFunc[S, B]) Model() any                     { return t.model }
func (t taskFunc[S, B]) Collate(samples []S) (B, error) { return t.collate(samples) }
func (t taskFunc[S, B]) Loss(p ForwardPass, b B) Loss   { return t.loss(p, b) }
