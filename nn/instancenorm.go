package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// InstanceNormOptions configures [NewInstanceNorm1d], [NewInstanceNorm2d] and [NewInstanceNorm3d].
// Nil and the zero value mean PyTorch's defaults: neither parameters nor running statistics.
type InstanceNormOptions struct {
	Eps          float64             // added to the variance; zero means 1e-5
	Momentum     float64             // weight of a batch in the running statistics; zero means 0.1
	Affine       bool                // with weight and bias
	RunningStats bool                // keep running statistics and use them in evaluation: track_running_stats
	Factory      torch.TensorOptions // dtype and device of parameters and buffers
}

// InstanceNorm normalises each channel of each example by its own mean and variance. It is the
// common part of [InstanceNorm1d], [InstanceNorm2d] and [InstanceNorm3d].
type InstanceNorm struct {
	Mode

	Weight      torch.Tensor `param:"weight"`        // [channels]
	Bias        torch.Tensor `param:"bias"`          // [channels]
	RunningMean torch.Tensor `buffer:"running_mean"` // [channels]
	RunningVar  torch.Tensor `buffer:"running_var"`  // [channels]
	// int64 without dimensions; not counted, as in PyTorch
	NumBatchesTracked torch.Tensor `buffer:"num_batches_tracked,optional"`

	Eps      float64
	Momentum float64

	channels int64
	dims     int // the number of dimensions after the channels

	traced
}

func newInstanceNorm(op string, channels int64, dims int, o InstanceNormOptions) InstanceNorm {
	mustBePositive(op, "channels", channels)
	n := InstanceNorm{Eps: cmp.Or(o.Eps, 1e-5), Momentum: cmp.Or(o.Momentum, 0.1), channels: channels, dims: dims}
	if o.Affine {
		n.Weight, n.Bias = Parameter(o.Factory.Ones(channels)), Parameter(o.Factory.Zeros(channels))
	}
	if o.RunningStats {
		n.RunningMean, n.RunningVar = Buffer(o.Factory.Zeros(channels)), Buffer(o.Factory.Ones(channels))
		n.NumBatchesTracked = Buffer(torch.TensorOptions{DType: torch.Int64,
			Device: o.Factory.Device}.Zeros([]int64{}...))
	}
	return n
}

// Forward normalises [N, channels, ...] or, without a batch, [channels, ...].
func (n *InstanceNorm) Forward(x torch.Tensor) torch.Tensor {
	shape := x.Shape()
	if d := len(shape); d != n.dims+1 && d != n.dims+2 || shape[d-n.dims-1] != n.channels {
		panic(torch.Errorf("nn.InstanceNorm", torch.ErrInvalid, "want %d channels and %d dimensions behind them, "+
			"found %v",
			n.channels, n.dims, shape))
	}
	if len(shape) == n.dims+2 {
		return n.trace(x, n.normalise(x))
	}
	return n.trace(x, torch.Return(func() torch.Tensor { return n.normalise(x.Unsqueeze(0)).SqueezeDim(0) }))
}

func (n *InstanceNorm) normalise(x torch.Tensor) torch.Tensor {
	return functional.InstanceNorm(x, functional.InstanceNormOptions{
		RunningMean: n.RunningMean, RunningVar: n.RunningVar, Weight: n.Weight, Bias: n.Bias,
		UseRunningStats: !n.Training() && n.RunningMean.Defined(), Momentum: n.Momentum, Eps: n.Eps,
	})
}

// InstanceNorm1d is [InstanceNorm] for sequences, [N, channels, L]: torch.nn.InstanceNorm1d.
type InstanceNorm1d struct{ InstanceNorm }

// NewInstanceNorm1d makes an InstanceNorm1d with the given number of channels.
func NewInstanceNorm1d(channels int64, o *InstanceNormOptions) *InstanceNorm1d {
	return &InstanceNorm1d{newInstanceNorm("NewInstanceNorm1d", channels, 1, deref(o))}
}

// InstanceNorm2d is [InstanceNorm] for images, [N, channels, H, W]: torch.nn.InstanceNorm2d.
type InstanceNorm2d struct{ InstanceNorm }

// NewInstanceNorm2d makes an InstanceNorm2d with the given number of channels.
func NewInstanceNorm2d(channels int64, o *InstanceNormOptions) *InstanceNorm2d {
	return &InstanceNorm2d{newInstanceNorm("NewInstanceNorm2d", channels, 2, deref(o))}
}

// InstanceNorm3d is [InstanceNorm] for volumes, [N, channels, D, H, W]: torch.nn.InstanceNorm3d.
type InstanceNorm3d struct{ InstanceNorm }

// NewInstanceNorm3d makes an InstanceNorm3d with the given number of channels.
func NewInstanceNorm3d(channels int64, o *InstanceNormOptions) *InstanceNorm3d {
	return &InstanceNorm3d{newInstanceNorm("NewInstanceNorm3d", channels, 3, deref(o))}
}
