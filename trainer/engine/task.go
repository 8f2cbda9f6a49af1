package engine

import (
	"reflect"
	"unsafe"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/torch"
)

// Task connects a model to its data. S is a sample and B a batch.
//
// What a user of Hugging Face's Trainer would override is an interface that a task may also
// implement: [Predictor] exposes the model's outputs, [Observer] and [Evaluator] compute metrics
// from them, [TrainingStepper] replaces the training step, [LossObserver] sees every loss,
// [TrainingLogger] logs more than the loss, [ItemCounter], [LabelCounter] and [TokenCounter]
// count, [StateOwner] keeps a state in checkpoints, [Configurer] writes config.json, and [Recycler]
// reuses the memory of batches.
type Task[S, B any] interface {
	// Model returns a pointer to the struct that holds the parameters, as package nn finds them.
	Model() any

	// Collate makes a batch of one or more samples. Loaders call it from several goroutines at
	// once, and it must not call libtorch.
	Collate(samples []S) (B, error)

	// Loss runs the model on a batch. It is called inside a scope, under autocast if the precision
	// requires it, with gradients recorded. Like package torch, it panics on misuse.
	Loss(p ForwardPass, b B) Loss
}

// Evaluator is a [Task] that evaluates a batch itself: prediction_step of Hugging Face's Trainer.
// For most tasks with metrics [Observer] is the better choice, since it works with label smoothing,
// custom losses and predictions.
type Evaluator[B any] interface {
	// Evaluate runs the model on a batch of the evaluation, without gradients and with the model in
	// evaluation mode, and gathers what Metrics needs.
	Evaluate(p ForwardPass, b B) Loss

	// Metrics returns the numbers of the evaluation by name, without "loss", and starts over.
	Metrics() map[string]float64
}

// TrainingStepper is a [Task] with its own training step: training_step of Hugging Face's Trainer.
type TrainingStepper[B any] interface {
	// TrainingStep runs the forward and the backward pass on one micro-batch, any number of times
	// (gradients add up), and returns the loss to report. The usual step is
	//
	//	return t.Backward(t.Loss(b))
	TrainingStep(t Training[B], b B) torch.Tensor
}

// Training is what a [TrainingStepper] works with. A TrainingStepper that runs forward passes
// directly must do so inside Autocast.
type Training[B any] struct {
	ForwardPass

	// Loss runs the usual forward pass, under autocast, and computes the loss that the options
	// select: compute_loss.
	Loss func(b B) Loss

	// Backward divides a loss as the accumulation window requires, scales it if the precision needs
	// that, runs the backward pass and returns the divided loss, detached.
	Backward func(l Loss) torch.Tensor
}

// LossObserver is a [Task] that sees the loss of every training micro-batch as it was passed to
// backward: divided for the accumulation window, detached, and on the device. The tensor is valid
// until ObserveLoss returns. Reading it waits for the device.
type LossObserver[B any] interface {
	ObserveLoss(b B, loss torch.Tensor)
}

// ItemCounter is a [Task] whose loss is averaged over the labelled items of a whole accumulation
// window, such as tokens: num_items_in_batch.
type ItemCounter[B any] interface {
	CountItems(b B) int64
}

// LabelCounter is a [Task] whose loss is the mean over the labels that count, such as those of
// tokens, and not over samples. When a batch is trained in parts (the trainer's
// DivideOnOutOfMemory), the gradient then equals that of the whole batch, and parts without such
// labels, whose mean would be NaN, are left out. If the task is an [ItemCounter], its items are
// used.
type LabelCounter[B any] interface {
	CountLabels(b B) int64
}

// TokenCounter is a [Task] that can count its input, for Hugging Face's num_input_tokens_seen and
// the floating-point operations derived from it.
type TokenCounter[B any] interface {
	// CountTokens returns the number of elements of the main input, including padding, and the
	// number of those that are not padding.
	CountTokens(b B) (all, nonPadding int64)
}

// GeneratorOwner is a [Task] that draws from its own generators on the CPU, besides the default
// ones. A checkpoint holds their states by their names, which must not be names of devices.
type GeneratorOwner interface {
	Generators() map[string]*torch.Generator
}

// DeviceSpecificSeeder is a [Task] that draws other random numbers on each process: the rank is
// added to the seed, as by set_seed(device_specific=True) of accelerate.
type DeviceSpecificSeeder interface {
	DeviceSpecificSeed()
}

// Seeder is a [Task] with generators of its own that begin with the seed of the run, as numpy's does
// in transformers (set_seed).
type Seeder interface {
	TakeSeed(seed uint64)
}

// StateOwner is a [Task] with a state of its own, beside weights and random numbers, that outlives
// a micro-batch. Checkpoints hold the state of each process, so a resumed run continues bit for
// bit. A run that continues on another number of processes (trainer.Options.GlobalBatch) gives all
// of them the state of the main one. Such a task does not support sharding.
type StateOwner interface {
	State() ([]byte, error)
	// LoadState checks a state that State returned and returns a function that restores it. At the
	// start of a run, state is nil, which means the initial state.
	LoadState(state []byte) (put func(), err error)
}

// Recycler is a [Task] whose Collate makes batches in the memory of earlier, already trained
// batches; see [trainer.Recycler]. [data.Buffers] keeps that memory.
type Recycler[B any] interface {
	// Recycle takes back a batch that Collate made and that nothing uses any more. Collate may run
	// concurrently and must not keep its slice of samples. A task that embeds another, and keeps
	// what the other's Collate has made, must override Recycle with a method that does nothing.
	Recycle(b B)
}

// OptionsValidator is a [Task] that refuses options which have no meaning for it. [New] calls it
// before anything else.
type OptionsValidator interface {
	ValidateOptions(o Options) error
}

// GroupValidator is a [Task] that cannot be trained by every number of processes. A run with a group
// calls it before anything else.
type GroupValidator interface {
	ValidateGroup(world int) error
}

// BatchSizeValidator is a [Task] that cannot be trained with every batch size, such as one whose
// loss compares the samples of a batch. A run calls it with the samples in a micro-batch of this process,
// before its first batch. The last batch of an epoch may be smaller.
type BatchSizeValidator interface {
	ValidateBatchSize(size int) error
}

// Configurer is a [Task] that describes its model in files saved next to the weights, such as
// config.json.
type Configurer interface {
	WriteConfig(dir string) error
}

// ForwardPass describes the circumstances under which a model runs.
type ForwardPass struct {
	Device torch.Device
	// Items is the number of labelled items of the accumulation window or, in an evaluation, of the
	// batch, if the task counts them; otherwise 0.
	Items int64
	// Part says that the batch is a part of one that did not fit into memory; see the trainer's
	// DivideOnOutOfMemory.
	Part bool
	// WindowLen is the number of micro-batches in the accumulation window; 0 in an evaluation.
	WindowLen int

	precision amp.Precision
	staged    *staged       // nil: inputs are sent immediately
	full      amp.Precision // precision of everything, including inputs: see Options.FullEval
	arrivals  *arrivals     // nil: none
	gathering *gathering    // nil: one process
}

// Autocast runs f in the precision of the run. All methods of a task other than TrainingStep are
// already called inside it.
func (p ForwardPass) Autocast(f func()) { amp.Autocast(p.Device, p.precision, f) }

// Input copies a slice to a tensor on the device of the pass. For a GPU it copies through
// page-locked memory, in the order of the current stream, and does not wait. The slice may be
// changed as soon as Input returns.
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

// onDevice returns data of a batch that is already on the device, if it is.
func onDevice[T torch.Element](p ForwardPass, data []T) (t torch.Tensor, ok bool) {
	if len(data) == 0 || p.arrivals == nil || len(*p.arrivals) == 0 {
		return t, false
	}
	return p.arrivals.take(slice{unsafe.Pointer(unsafe.SliceData(data)), len(data), reflect.TypeFor[T]()})
}

// InputTensor is [Input] for a tensor on the CPU, for tasks that compute some of their input there.
func InputTensor(p ForwardPass, t torch.Tensor) torch.Tensor {
	if p.staged != nil && p.staged.handing {
		return p.staged.give(p, t.DType(), t.Shape())
	}
	if isRemote(p.Device) {
		t = t.PinMemory()
	}
	return p.enter(t, false)
}

// enter takes an input that is on the host or already on the device. In an evaluation in low
// precision, floating-point inputs are converted too.
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

// Whether a device has its own memory, how data are sent there, and whether it has graphs. These
// are variables for tests, which must work without such a device.
var (
	isRemote  = torch.Device.IsCUDA
	send      = torch.Tensor.ToDeviceNonBlocking
	hasGraphs = torch.Device.IsCUDA
)

// Loss is what a model returns for a batch.
type Loss struct {
	Value torch.Tensor // a scalar; undefined in an evaluation without labels
	Rows  int          // samples in the batch; an evaluation weights its batches by them
	// Logged holds numbers of the batch for the training log, [n], if the task is a [TrainingLogger].
	// Evaluations ignore it.
	Logged torch.Tensor

	whole bool
}

// Mean is the mean loss of a batch of rows samples. It is divided by the number of batches in the
// accumulation window.
func Mean(value torch.Tensor, rows int) Loss { return Loss{Value: value, Rows: rows} }

// PerItem is the share of a batch in the loss of the whole window: its sum divided by
// [ForwardPass].Items. It is not divided again. If the task counts no items, it is a mean that is
// summed over the window.
func PerItem(value torch.Tensor, rows int) Loss { return Loss{Value: value, Rows: rows, whole: true} }

// TaskFunc makes a [Task] from a model and two functions.
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
