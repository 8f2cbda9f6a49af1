package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// BatchNormOptions configures [NewBatchNorm1d], [NewBatchNorm2d] and [NewBatchNorm3d]. Nil and the
// zero value mean PyTorch's defaults.
type BatchNormOptions struct {
	Eps float64 // added to the variance; zero means 1e-5
	// weight of a batch in the running statistics; zero means 0.1; to get a momentum of zero, set
	// the field of the layer
	Momentum float64
	// running statistics are the plain mean over all batches: PyTorch's momentum=None
	Cumulative     bool
	NoAffine       bool                // omit weight and bias
	NoRunningStats bool                // always use the batch's own statistics: track_running_stats=False
	Factory        torch.TensorOptions // dtype and device of parameters and buffers
}

// BatchNorm normalises channels by their mean and variance over a batch or, in evaluation, over
// all batches so far. It is the common part of [BatchNorm1d], [BatchNorm2d] and [BatchNorm3d].
type BatchNorm struct {
	Mode

	Weight      torch.Tensor `param:"weight"`        // [channels]
	Bias        torch.Tensor `param:"bias"`          // [channels]
	RunningMean torch.Tensor `buffer:"running_mean"` // [channels]
	RunningVar  torch.Tensor `buffer:"running_var"`  // [channels]
	// int64 without dimensions; old files have none
	NumBatchesTracked torch.Tensor `buffer:"num_batches_tracked,optional"`

	Eps        float64
	Momentum   float64
	Cumulative bool

	// Sync takes the mean and the variance over the batches of all processes, once package
	// dist/ddp has set the layer's process group: [SyncBatchNorm], [ConvertSyncBatchNorm].
	Sync  bool
	group *torch.ProcessGroup

	traced
}

func newBatchNorm(op string, channels int64, o BatchNormOptions) BatchNorm {
	mustBePositive(op, "channels", channels)
	b := BatchNorm{Eps: cmp.Or(o.Eps, 1e-5), Momentum: cmp.Or(o.Momentum, 0.1), Cumulative: o.Cumulative}
	if !o.NoAffine {
		b.Weight, b.Bias = Parameter(o.Factory.Ones(channels)), Parameter(o.Factory.Zeros(channels))
	}
	if !o.NoRunningStats {
		b.RunningMean, b.RunningVar = Buffer(o.Factory.Zeros(channels)), Buffer(o.Factory.Ones(channels))
		b.NumBatchesTracked = Buffer(torch.TensorOptions{DType: torch.Int64,
			Device: o.Factory.Device}.Zeros([]int64{}...))
	}
	return b
}

func (b *BatchNorm) normalise(x torch.Tensor) torch.Tensor {
	momentum := b.Momentum
	if b.Cumulative {
		momentum = 0
	}
	if b.Training() && b.NumBatchesTracked.Defined() {
		b.NumBatchesTracked.AddScalar_(1)
		if b.Cumulative {
			momentum = 1 / b.NumBatchesTracked.Item()
		}
	}
	if b.Sync && b.group != nil && b.Training() {
		return b.trace(x, b.synchronised(x, momentum))
	}
	return b.trace(x, functional.BatchNorm(x, functional.BatchNormOptions{
		RunningMean: b.RunningMean, RunningVar: b.RunningVar, Weight: b.Weight, Bias: b.Bias,
		Training: b.Training() || !b.RunningMean.Defined(), Momentum: &momentum, Eps: b.Eps,
	}))
}

// BatchNorm1d is [BatchNorm] for features or sequences: torch.nn.BatchNorm1d.
type BatchNorm1d struct{ BatchNorm }

// NewBatchNorm1d makes a BatchNorm1d with the given number of channels.
func NewBatchNorm1d(channels int64, o *BatchNormOptions) *BatchNorm1d {
	return &BatchNorm1d{newBatchNorm("NewBatchNorm1d", channels, deref(o))}
}

// Forward normalises [N, channels] or [N, channels, L].
func (b *BatchNorm1d) Forward(x torch.Tensor) torch.Tensor {
	if d := x.Dim(); d != 2 && d != 3 {
		panic(torch.Errorf("nn.BatchNorm1d", torch.ErrInvalid, "want [N, channels] or [N, channels, L], found %v",
			x.Shape()))
	}
	return b.normalise(x)
}

// BatchNorm2d is [BatchNorm] for images: torch.nn.BatchNorm2d.
type BatchNorm2d struct{ BatchNorm }

// NewBatchNorm2d makes a BatchNorm2d with the given number of channels.
func NewBatchNorm2d(channels int64, o *BatchNormOptions) *BatchNorm2d {
	return &BatchNorm2d{newBatchNorm("NewBatchNorm2d", channels, deref(o))}
}

// Forward normalises [N, channels, H, W].
func (b *BatchNorm2d) Forward(x torch.Tensor) torch.Tensor {
	if x.Dim() != 4 {
		panic(torch.Errorf("nn.BatchNorm2d", torch.ErrInvalid, "want [N, channels, H, W], found %v", x.Shape()))
	}
	return b.normalise(x)
}

// BatchNorm3d is [BatchNorm] for volumes: torch.nn.BatchNorm3d.
type BatchNorm3d struct{ BatchNorm }

// NewBatchNorm3d makes a BatchNorm3d with the given number of channels.
func NewBatchNorm3d(channels int64, o *BatchNormOptions) *BatchNorm3d {
	return &BatchNorm3d{newBatchNorm("NewBatchNorm3d", channels, deref(o))}
}

// Forward normalises [N, channels, D, H, W].
func (b *BatchNorm3d) Forward(x torch.Tensor) torch.Tensor {
	if x.Dim() != 5 {
		panic(torch.Errorf("nn.BatchNorm3d", torch.ErrInvalid, "want [N, channels, D, H, W], found %v", x.Shape()))
	}
	return b.normalise(x)
}
