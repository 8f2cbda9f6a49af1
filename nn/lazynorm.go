package nn

import "github.com/gotrainer/gotrainer/torch"

// lazyBatchNorm sets what is known without the input and returns how the rest is made of it.
func lazyBatchNorm(op string, dims int, o BatchNormOptions, b *BatchNorm) lazy {
	b.Eps, b.Momentum, b.Cumulative = or(o.Eps, 1e-5), or(o.Momentum, 0.1), o.Cumulative
	return lazy{op, func(x torch.Tensor) {
		if d := x.Dim(); d != dims+2 && !(dims == 1 && d == 2) {
			panic(mistake(op, torch.ErrInvalid, "want [N, channels] and %d dimensions behind them, found %v", dims,
				x.Shape()))
		}
		made := newBatchNorm(op, x.Size(1), o)
		b.Weight, b.Bias, b.RunningMean, b.RunningVar, b.NumBatchesTracked = made.Weight, made.Bias, made.RunningMean,
			made.RunningVar, made.NumBatchesTracked
	}}
}

// lazyInstanceNorm is lazyBatchNorm for instance norms.
func lazyInstanceNorm(op string, dims int, o InstanceNormOptions, n *InstanceNorm) lazy {
	n.Eps, n.Momentum, n.dims = or(o.Eps, 1e-5), or(o.Momentum, 0.1), dims
	return lazy{op, func(x torch.Tensor) {
		made := newInstanceNorm(op, channelsOf(op, x, dims), dims, o)
		n.Weight, n.Bias, n.RunningMean, n.RunningVar, n.NumBatchesTracked = made.Weight, made.Bias, made.RunningMean,
			made.RunningVar, made.NumBatchesTracked
		n.channels = made.channels
	}}
}

// LazyBatchNorm1d is a [BatchNorm1d] whose first input tells how many channels there are:
// torch.nn.LazyBatchNorm1d. See [LazyLinear].
type LazyBatchNorm1d struct {
	BatchNorm1d
	lazy
}

// NewLazyBatchNorm1d makes a LazyBatchNorm1d.
func NewLazyBatchNorm1d(o *BatchNormOptions) *LazyBatchNorm1d {
	b := &LazyBatchNorm1d{}
	b.lazy = lazyBatchNorm("LazyBatchNorm1d", 1, deref(o), &b.BatchNorm)
	return b
}

// Forward normalises [N, channels] or [N, channels, L].
func (b *LazyBatchNorm1d) Forward(x torch.Tensor) torch.Tensor {
	b.materialise(x)
	return b.BatchNorm1d.Forward(x)
}

// LazyBatchNorm2d is a [BatchNorm2d] whose first input tells how many channels there are:
// torch.nn.LazyBatchNorm2d. See [LazyLinear].
type LazyBatchNorm2d struct {
	BatchNorm2d
	lazy
}

// NewLazyBatchNorm2d makes a LazyBatchNorm2d.
func NewLazyBatchNorm2d(o *BatchNormOptions) *LazyBatchNorm2d {
	b := &LazyBatchNorm2d{}
	b.lazy = lazyBatchNorm("LazyBatchNorm2d", 2, deref(o), &b.BatchNorm)
	return b
}

// Forward normalises [N, channels, H, W].
func (b *LazyBatchNorm2d) Forward(x torch.Tensor) torch.Tensor {
	b.materialise(x)
	return b.BatchNorm2d.Forward(x)
}

// LazyBatchNorm3d is a [BatchNorm3d] whose first input tells how many channels there are:
// torch.nn.LazyBatchNorm3d. See [LazyLinear].
type LazyBatchNorm3d struct {
	BatchNorm3d
	lazy
}

// NewLazyBatchNorm3d makes a LazyBatchNorm3d.
func NewLazyBatchNorm3d(o *BatchNormOptions) *LazyBatchNorm3d {
	b := &LazyBatchNorm3d{}
	b.lazy = lazyBatchNorm("LazyBatchNorm3d", 3, deref(o), &b.BatchNorm)
	return b
}

// Forward normalises [N, channels, D, H, W].
func (b *LazyBatchNorm3d) Forward(x torch.Tensor) torch.Tensor {
	b.materialise(x)
	return b.BatchNorm3d.Forward(x)
}

// LazyInstanceNorm1d is an [InstanceNorm1d] whose first input tells how many channels there are:
// torch.nn.LazyInstanceNorm1d. See [LazyLinear]. The options mean what they mean for the others:
// neither parameters nor running statistics by default. PyTorch's lazy forms, unlike its others,
// have both; set Affine and RunningStats for the same.
type LazyInstanceNorm1d struct {
	InstanceNorm1d
	lazy
}

// NewLazyInstanceNorm1d makes a LazyInstanceNorm1d.
func NewLazyInstanceNorm1d(o *InstanceNormOptions) *LazyInstanceNorm1d {
	n := &LazyInstanceNorm1d{}
	n.lazy = lazyInstanceNorm("LazyInstanceNorm1d", 1, deref(o), &n.InstanceNorm)
	return n
}

// Forward normalises [N, channels, L] or, without a batch, [channels, L].
func (n *LazyInstanceNorm1d) Forward(x torch.Tensor) torch.Tensor {
	n.materialise(x)
	return n.InstanceNorm1d.Forward(x)
}

// LazyInstanceNorm2d is an [InstanceNorm2d] whose first input tells how many channels there are:
// torch.nn.LazyInstanceNorm2d. See [LazyInstanceNorm1d].
type LazyInstanceNorm2d struct {
	InstanceNorm2d
	lazy
}

// NewLazyInstanceNorm2d makes a LazyInstanceNorm2d.
func NewLazyInstanceNorm2d(o *InstanceNormOptions) *LazyInstanceNorm2d {
	n := &LazyInstanceNorm2d{}
	n.lazy = lazyInstanceNorm("LazyInstanceNorm2d", 2, deref(o), &n.InstanceNorm)
	return n
}

// Forward normalises [N, channels, H, W] or, without a batch, [channels, H, W].
func (n *LazyInstanceNorm2d) Forward(x torch.Tensor) torch.Tensor {
	n.materialise(x)
	return n.InstanceNorm2d.Forward(x)
}

// LazyInstanceNorm3d is an [InstanceNorm3d] whose first input tells how many channels there are:
// torch.nn.LazyInstanceNorm3d. See [LazyInstanceNorm1d].
type LazyInstanceNorm3d struct {
	InstanceNorm3d
	lazy
}

// NewLazyInstanceNorm3d makes a LazyInstanceNorm3d.
func NewLazyInstanceNorm3d(o *InstanceNormOptions) *LazyInstanceNorm3d {
	n := &LazyInstanceNorm3d{}
	n.lazy = lazyInstanceNorm("LazyInstanceNorm3d", 3, deref(o), &n.InstanceNorm)
	return n
}

// Forward normalises [N, channels, D, H, W] or, without a batch, [channels, D, H, W].
func (n *LazyInstanceNorm3d) Forward(x torch.Tensor) torch.Tensor {
	n.materialise(x)
	return n.InstanceNorm3d.Forward(x)
}
