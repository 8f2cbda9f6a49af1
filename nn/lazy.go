package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/torch"
)

// Lazy is a layer that takes its input size from its first input: torch.nn.LazyLinear and similar
// layers. Call Forward once, on a batch of any size, before the model's parameters are listed,
// loaded, moved or given to an optimizer. Until then the layer has no parameters, and listing them
// is an error: otherwise an optimizer or a file would silently miss them.
type Lazy[L Layer] struct {
	Layer L `module:",inline"` // without parameters until the first Forward

	name string
	make func(x torch.Tensor) // creates the parameters; nil once it was called
}

// Forward runs the layer. The first call makes its parameters to fit x. They are drawn at that
// time: in a model of lazy layers, the order of draws is the order of the first calls, as in
// PyTorch.
func (l *Lazy[L]) Forward(x torch.Tensor) torch.Tensor {
	if l.make != nil {
		if torch.IsInferenceModeEnabled() {
			panic(torch.Errorf("nn."+l.name, torch.ErrInvalid, "the first Forward makes the parameters, and in "+
				"InferenceMode "+
				"they could never be trained; call it outside, or in NoGrad"))
		}
		l.make(x)
		l.make = nil
	}
	return l.Layer.Forward(x)
}

// SetTraining switches the layer between training and evaluation, if it has a [Mode].
func (l *Lazy[L]) SetTraining(on bool) {
	if m, ok := any(l.Layer).(interface{ SetTraining(bool) }); ok {
		m.SetTraining(on)
	}
}

// Training reports whether the layer is in training mode. A layer without a [Mode] always is.
func (l *Lazy[L]) Training() bool {
	m, ok := any(l.Layer).(interface{ Training() bool })
	return !ok || m.Training()
}

func (l *Lazy[L]) setCalls(f func(in, out torch.Tensor)) {
	if t, ok := any(l.Layer).(interface {
		setCalls(func(in, out torch.Tensor))
	}); ok {
		t.setCalls(f)
	}
}

func (l *Lazy[L]) pending() string {
	if l.make == nil {
		return ""
	}
	return l.name
}

func (l *Lazy[L]) typeName() string { return "nn." + l.name }

// channelsOf returns the number of channels of x, which has dims dimensions after them and
// optionally a batch dimension before them.
func channelsOf(op string, x torch.Tensor, dims int) int64 {
	shape := x.Shape()
	if d := len(shape); d != dims+1 && d != dims+2 {
		panic(torch.Errorf("nn."+op, torch.ErrInvalid, "want %d dimensions, or %d with a batch, found %v", dims+1,
			dims+2, shape))
	}
	return shape[len(shape)-dims-1]
}

// NewLazyLinear makes a [Linear] from any number of features to out: torch.nn.LazyLinear.
func NewLazyLinear(out int64, o *LinearOptions) *Lazy[*Linear] {
	mustBePositive("NewLazyLinear", "out", out)
	opt, l := deref(o), &Linear{}
	return &Lazy[*Linear]{l, "LazyLinear", func(x torch.Tensor) {
		if x.Dim() == 0 {
			panic(torch.Errorf("nn.LazyLinear", torch.ErrInvalid, "want [..., in], found a number"))
		}
		made := NewLinear(x.Size(-1), out, &opt)
		l.Weight, l.Bias = made.Weight, made.Bias
	}}
}

// NewLazyConv1d makes a [Conv1d] to out channels: torch.nn.LazyConv1d.
func NewLazyConv1d(out int64, kernel Dims, o *ConvOptions) *Lazy[*Conv1d] {
	c := &Conv1d{}
	return &Lazy[*Conv1d]{c, "LazyConv1d",
		lazyConv("LazyConv1d", 1, out, kernel, deref(o), &c.Weight, &c.Bias, &c.Options, &c.border)}
}

// NewLazyConv2d makes a [Conv2d] to out channels: torch.nn.LazyConv2d.
func NewLazyConv2d(out int64, kernel Dims, o *ConvOptions) *Lazy[*Conv2d] {
	c := &Conv2d{}
	return &Lazy[*Conv2d]{c, "LazyConv2d",
		lazyConv("LazyConv2d", 2, out, kernel, deref(o), &c.Weight, &c.Bias, &c.Options, &c.border)}
}

// NewLazyConv3d makes a [Conv3d] to out channels: torch.nn.LazyConv3d.
func NewLazyConv3d(out int64, kernel Dims, o *ConvOptions) *Lazy[*Conv3d] {
	c := &Conv3d{}
	return &Lazy[*Conv3d]{c, "LazyConv3d",
		lazyConv("LazyConv3d", 3, out, kernel, deref(o), &c.Weight, &c.Bias, &c.Options, &c.border)}
}

// lazyConv checks the arguments that do not depend on the input and returns the function that
// creates the weights.
func lazyConv(op string, dims int, out int64, kernel Dims, o ConvOptions, weight, bias *torch.Tensor,
	options *torch.ConvOptions, edge *border) func(x torch.Tensor) {
	kernel, *options, *edge = planConv("New"+op, dims, cmp.Or(o.Groups, 1), out, kernel, o)
	return func(x torch.Tensor) {
		in := channelsOf(op, x, dims)
		checkConv(op, dims, in, out, options.Groups, kernel)
		*weight, *bias = convWeights(o.Factory, o.NoBias, out, append([]int64{out, in / options.Groups}, kernel...))
	}
}

// NewLazyConvTranspose1d makes a [ConvTranspose1d] to out channels: torch.nn.LazyConvTranspose1d.
func NewLazyConvTranspose1d(out int64, kernel Dims, o *ConvTransposeOptions) *Lazy[*ConvTranspose1d] {
	c := &ConvTranspose1d{}
	return &Lazy[*ConvTranspose1d]{c, "LazyConvTranspose1d",
		lazyConvTranspose("LazyConvTranspose1d", 1, out, kernel, deref(o), &c.ConvTranspose)}
}

// NewLazyConvTranspose2d makes a [ConvTranspose2d] to out channels: torch.nn.LazyConvTranspose2d.
func NewLazyConvTranspose2d(out int64, kernel Dims, o *ConvTransposeOptions) *Lazy[*ConvTranspose2d] {
	c := &ConvTranspose2d{}
	return &Lazy[*ConvTranspose2d]{c, "LazyConvTranspose2d",
		lazyConvTranspose("LazyConvTranspose2d", 2, out, kernel, deref(o), &c.ConvTranspose)}
}

// NewLazyConvTranspose3d makes a [ConvTranspose3d] to out channels: torch.nn.LazyConvTranspose3d.
func NewLazyConvTranspose3d(out int64, kernel Dims, o *ConvTransposeOptions) *Lazy[*ConvTranspose3d] {
	c := &ConvTranspose3d{}
	return &Lazy[*ConvTranspose3d]{c, "LazyConvTranspose3d",
		lazyConvTranspose("LazyConvTranspose3d", 3, out, kernel, deref(o), &c.ConvTranspose)}
}

// lazyConvTranspose is like lazyConv for transposed convolutions.
func lazyConvTranspose(op string, dims int, out int64, kernel Dims, o ConvTransposeOptions,
	c *ConvTranspose) func(x torch.Tensor) {
	kernel, c.Options = planConvTranspose("New"+op, dims, cmp.Or(o.Groups, 1), out, kernel, o)
	return func(x torch.Tensor) {
		in := channelsOf(op, x, dims)
		checkConv(op, dims, in, out, c.Options.Groups, kernel)
		c.Weight, c.Bias = convWeights(o.Factory, o.NoBias, out, append([]int64{in, out / c.Options.Groups}, kernel...))
	}
}

// NewLazyBatchNorm1d makes a [BatchNorm1d]: torch.nn.LazyBatchNorm1d.
func NewLazyBatchNorm1d(o *BatchNormOptions) *Lazy[*BatchNorm1d] {
	b := &BatchNorm1d{}
	return &Lazy[*BatchNorm1d]{b, "LazyBatchNorm1d", lazyBatchNorm("LazyBatchNorm1d", 1, deref(o), &b.BatchNorm)}
}

// NewLazyBatchNorm2d makes a [BatchNorm2d]: torch.nn.LazyBatchNorm2d.
func NewLazyBatchNorm2d(o *BatchNormOptions) *Lazy[*BatchNorm2d] {
	b := &BatchNorm2d{}
	return &Lazy[*BatchNorm2d]{b, "LazyBatchNorm2d", lazyBatchNorm("LazyBatchNorm2d", 2, deref(o), &b.BatchNorm)}
}

// NewLazyBatchNorm3d makes a [BatchNorm3d]: torch.nn.LazyBatchNorm3d.
func NewLazyBatchNorm3d(o *BatchNormOptions) *Lazy[*BatchNorm3d] {
	b := &BatchNorm3d{}
	return &Lazy[*BatchNorm3d]{b, "LazyBatchNorm3d", lazyBatchNorm("LazyBatchNorm3d", 3, deref(o), &b.BatchNorm)}
}

// lazyBatchNorm sets the fields that do not depend on the input and returns the function that
// creates the others.
func lazyBatchNorm(op string, dims int, o BatchNormOptions, b *BatchNorm) func(x torch.Tensor) {
	b.Eps, b.Momentum, b.Cumulative = cmp.Or(o.Eps, 1e-5), cmp.Or(o.Momentum, 0.1), o.Cumulative
	return func(x torch.Tensor) {
		if d := x.Dim(); d != dims+2 && !(dims == 1 && d == 2) {
			panic(torch.Errorf("nn."+op, torch.ErrInvalid, "want [N, channels] and %d dimensions behind them, found %v",
				dims,
				x.Shape()))
		}
		made := newBatchNorm(op, x.Size(1), o)
		b.Weight, b.Bias, b.RunningMean, b.RunningVar, b.NumBatchesTracked = made.Weight, made.Bias, made.RunningMean,
			made.RunningVar, made.NumBatchesTracked
	}
}

// NewLazyInstanceNorm1d makes an [InstanceNorm1d]: torch.nn.LazyInstanceNorm1d. As in
// [NewInstanceNorm1d], there are neither parameters nor running statistics by default. PyTorch's
// lazy forms, unlike its others, have both; set Affine and RunningStats to get the same.
func NewLazyInstanceNorm1d(o *InstanceNormOptions) *Lazy[*InstanceNorm1d] {
	n := &InstanceNorm1d{}
	return &Lazy[*InstanceNorm1d]{n, "LazyInstanceNorm1d",
		lazyInstanceNorm("LazyInstanceNorm1d", 1, deref(o), &n.InstanceNorm)}
}

// NewLazyInstanceNorm2d makes an [InstanceNorm2d]: torch.nn.LazyInstanceNorm2d. See
// [NewLazyInstanceNorm1d].
func NewLazyInstanceNorm2d(o *InstanceNormOptions) *Lazy[*InstanceNorm2d] {
	n := &InstanceNorm2d{}
	return &Lazy[*InstanceNorm2d]{n, "LazyInstanceNorm2d",
		lazyInstanceNorm("LazyInstanceNorm2d", 2, deref(o), &n.InstanceNorm)}
}

// NewLazyInstanceNorm3d makes an [InstanceNorm3d]: torch.nn.LazyInstanceNorm3d. See
// [NewLazyInstanceNorm1d].
func NewLazyInstanceNorm3d(o *InstanceNormOptions) *Lazy[*InstanceNorm3d] {
	n := &InstanceNorm3d{}
	return &Lazy[*InstanceNorm3d]{n, "LazyInstanceNorm3d",
		lazyInstanceNorm("LazyInstanceNorm3d", 3, deref(o), &n.InstanceNorm)}
}

// lazyInstanceNorm is like lazyBatchNorm for instance norms.
func lazyInstanceNorm(op string, dims int, o InstanceNormOptions, n *InstanceNorm) func(x torch.Tensor) {
	n.Eps, n.Momentum, n.dims = cmp.Or(o.Eps, 1e-5), cmp.Or(o.Momentum, 0.1), dims
	return func(x torch.Tensor) {
		made := newInstanceNorm(op, channelsOf(op, x, dims), dims, o)
		n.Weight, n.Bias, n.RunningMean, n.RunningVar, n.NumBatchesTracked = made.Weight, made.Bias, made.RunningMean,
			made.RunningVar, made.NumBatchesTracked
		n.channels = made.channels
	}
}
