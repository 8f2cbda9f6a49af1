package torch

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Operators that layers and losses are made of. Packages nn and nn/functional add their default
// arguments.

// ternary calls an operator of t and two tensors that may be undefined.
func (t Tensor) ternary(op string, a, b Tensor, f func(t, a, b cgotorch.Tensor,
	out *cgotorch.Tensor) cgotorch.Code) Tensor {
	out := new(handle)
	code := f(t.ptr(op), a.optional(op), b.optional(op), &out.c)
	if code < 0 && reclaim(code) {
		code = f(t.ptr(op), a.optional(op), b.optional(op), &out.c)
	}
	if code < 0 {
		fail(op, code, t, a, b)
	}
	runtime.KeepAlive(t.h)
	runtime.KeepAlive(a.h)
	runtime.KeepAlive(b.h)
	return out.given(code)
}

// ConvOptions are the options of convolutions. Nil lists mean stride 1, padding 0 and dilation 1.
// A list of one number applies to all dimensions. Zero Groups means 1.
type ConvOptions struct {
	Stride, Padding, Dilation []int64
	Groups                    int64
}

// orDefault returns a list of dims entries, all of them value, or the only entry of list. A list of
// any other length is left for libtorch to check.
func orDefault(list []int64, value int64, dims int) []int64 {
	if len(list) == 1 {
		value = list[0]
	} else if len(list) != 0 {
		return list
	}
	list = make([]int64, dims)
	for i := range list {
		list[i] = value
	}
	return list
}

// groups returns the number of groups, 1 by default. libtorch refuses negative ones.
func (o ConvOptions) groups() int64 {
	if o.Groups == 0 {
		return 1
	}
	return o.Groups
}

// Conv1d convolves t, [N, C, L], with weight, [out, C/groups, k]: torch.conv1d. bias may be
// undefined.
func (t Tensor) Conv1d(weight, bias Tensor, o ConvOptions) Tensor {
	return t.ternary("Conv1d", weight, bias, func(t, w, b cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Conv1d(t, w, b, orDefault(o.Stride, 1, 1), orDefault(o.Padding, 0, 1), orDefault(o.Dilation, 1,
			1), o.groups(), out)
	})
}

// Conv2d convolves t, [N, C, H, W], with weight, [out, C/groups, kh, kw]: torch.conv2d. bias may
// be undefined.
func (t Tensor) Conv2d(weight, bias Tensor, o ConvOptions) Tensor {
	return t.ternary("Conv2d", weight, bias, func(t, w, b cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Conv2d(t, w, b, orDefault(o.Stride, 1, 2), orDefault(o.Padding, 0, 2), orDefault(o.Dilation, 1,
			2), o.groups(), out)
	})
}

// PoolOptions are the options of the pooling operators. A nil Stride means the kernel size, a nil
// Padding 0 and a nil Dilation 1.
type PoolOptions struct {
	Kernel, Stride, Padding, Dilation []int64
	CeilMode                          bool
}

// MaxPool2d takes the maximum over windows of t, [N, C, H, W]: torch.max_pool2d.
func (t Tensor) MaxPool2d(o PoolOptions) Tensor {
	return t.unary("MaxPool2d", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.MaxPool2d(c, o.Kernel, o.Stride, orDefault(o.Padding, 0, 2), orDefault(o.Dilation, 1, 2),
			o.CeilMode, out)
	})
}

// AvgPool2d takes the mean over windows of t, [N, C, H, W], including the padding:
// torch.avg_pool2d. Dilation is ignored.
func (t Tensor) AvgPool2d(o PoolOptions) Tensor {
	return t.unary("AvgPool2d", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.AvgPool2d(c, o.Kernel, o.Stride, orDefault(o.Padding, 0, 2), o.CeilMode, true,
			cgotorch.OptionalInt{}, out)
	})
}

// BatchNorm normalises over all dimensions but the second: torch.batch_norm. While training, it
// uses the batch's own statistics and updates the running ones by momentum; otherwise it uses the
// running ones. Weights and statistics may be undefined, and are then left out.
func (t Tensor) BatchNorm(weight, bias, runningMean, runningVar Tensor, training bool, momentum, eps float64) Tensor {
	defer runtime.KeepAlive([2]Tensor{runningMean, runningVar})
	return t.ternary("BatchNorm", weight, bias, func(t, w, b cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.BatchNorm(t, w, b, runningMean.optional("BatchNorm"), runningVar.optional("BatchNorm"),
			training, momentum, eps, true, out)
	})
}

// LayerNorm normalises over the last dimensions, whose sizes are shape: torch.layer_norm.
func (t Tensor) LayerNorm(shape []int64, weight, bias Tensor, eps float64) Tensor {
	return t.ternary("LayerNorm", weight, bias, func(t, w, b cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.LayerNorm(t, shape, w, b, eps, out)
	})
}

// Dropout zeroes elements with probability p and scales the others by 1/(1-p) while training;
// otherwise it returns t's elements: torch.dropout.
func (t Tensor) Dropout(p float64, training bool) Tensor {
	return t.unary("Dropout", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Dropout(c, p, training, out)
	})
}

// Embedding returns the rows of weight, [words, dim], that t, integers of any shape, selects:
// torch.embedding. The row paddingIdx gets no gradient; -1 means none.
func (t Tensor) Embedding(weight Tensor, paddingIdx int64) Tensor {
	return t.ternary("Embedding", weight, Tensor{}, func(t, w, _ cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Embedding(w, t, paddingIdx, false, false, out)
	})
}

// ScaledDotProductAttention is softmax(t·keyᵀ·scale + mask)·value for the query t, [..., L, E]:
// torch.nn.functional.scaled_dot_product_attention. The mask may be undefined; a bool mask keeps
// the positions where it is true. Scale 0 means 1/sqrt(E).
func (t Tensor) ScaledDotProductAttention(key, value, mask Tensor, dropout float64, causal bool, scale float64) Tensor {
	defer runtime.KeepAlive(mask)
	return t.ternary("ScaledDotProductAttention", key, value, func(t, k, v cgotorch.Tensor,
		out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.SDPA(t, k, v, mask.optional("ScaledDotProductAttention"), dropout, causal,
			cgotorch.OptionalDouble{Value: scale, Present: scale != 0}, false, out)
	})
}

// Reduction says how a loss combines the losses of the elements.
type Reduction int64

// The reductions, as in at::Reduction.
const (
	ReductionNone Reduction = 0
	ReductionMean Reduction = 1
	ReductionSum  Reduction = 2
)

// code returns libtorch's number of the reduction. It panics for unknown ones, which libtorch does
// not check; it may treat them as "none".
func (r Reduction) code(op string) int64 {
	if r < ReductionNone || r > ReductionSum {
		panic(&Error{Op: op, Code: ErrValue, Msg: fmt.Sprintf("there is no reduction number %d; want ReductionNone, "+
			"ReductionMean or ReductionSum", r)})
	}
	return int64(r)
}

// CrossEntropyLoss compares logits t, [N, C] or [N, C, ...], with class indices or probabilities:
// torch.nn.functional.cross_entropy. Targets equal to ignoreIndex are ignored. weight may be
// undefined.
func (t Tensor) CrossEntropyLoss(target, weight Tensor, reduction Reduction, ignoreIndex int64,
	labelSmoothing float64) Tensor {
	return t.ternary("CrossEntropyLoss", target, weight, func(t, y, w cgotorch.Tensor,
		out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.CrossEntropyLoss(t, y, w, reduction.code("CrossEntropyLoss"), ignoreIndex, labelSmoothing, out)
	})
}

// NLLLoss compares log-probabilities t, [N, C], with class indices: torch.nn.functional.nll_loss.
func (t Tensor) NLLLoss(target, weight Tensor, reduction Reduction, ignoreIndex int64) Tensor {
	return t.ternary("NLLLoss", target, weight, func(t, y, w cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.NLLLoss(t, y, w, reduction.code("NLLLoss"), ignoreIndex, out)
	})
}

// MSELoss is the squared difference of t and target: torch.nn.functional.mse_loss.
func (t Tensor) MSELoss(target Tensor, reduction Reduction) Tensor {
	return t.ternary("MSELoss", target, Tensor{}, func(t, y, _ cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.MSELoss(t, y, reduction.code("MSELoss"), out)
	})
}

// L1Loss is the absolute difference of t and target: torch.nn.functional.l1_loss.
func (t Tensor) L1Loss(target Tensor, reduction Reduction) Tensor {
	return t.ternary("L1Loss", target, Tensor{}, func(t, y, _ cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.L1Loss(t, y, reduction.code("L1Loss"), out)
	})
}

// BinaryCrossEntropyWithLogits compares logits t with probabilities of the same shape:
// torch.nn.functional.binary_cross_entropy_with_logits. The weights may be undefined.
func (t Tensor) BinaryCrossEntropyWithLogits(target, weight, posWeight Tensor, reduction Reduction) Tensor {
	defer runtime.KeepAlive(posWeight)
	return t.ternary("BinaryCrossEntropyWithLogits", target, weight, func(t, y, w cgotorch.Tensor,
		out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.BCEWithLogits(t, y, w, posWeight.optional("BinaryCrossEntropyWithLogits"),
			reduction.code("BinaryCrossEntropyWithLogits"), out)
	})
}

// CTCLoss is the connectionist temporal classification loss of log-probabilities t, [T, N, C],
// against targets, [N, S] or concatenated, with int64 lengths of inputs and targets, [N]:
// torch.nn.functional.ctc_loss.
func (t Tensor) CTCLoss(targets, inputLengths, targetLengths Tensor, blank int64, reduction Reduction,
	zeroInfinity bool) Tensor {
	defer runtime.KeepAlive(targets)
	target := targets.ptr("CTCLoss")
	t.checkTargets("CTCLoss", targets, targetLengths)
	return t.ternary("CTCLoss", inputLengths, targetLengths, func(t, il, tl cgotorch.Tensor,
		out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.CTCLoss(t, target, il, tl, blank, reduction.code("CTCLoss"), zeroInfinity, out)
	})
}

// checkTargets panics if targets on the CPU are not valid classes of the log-probabilities t: the
// CTC kernel would read outside its memory. Padding after a target may have any value, because the
// kernel does not read it.
func (t Tensor) checkTargets(op string, targets, lengths Tensor) {
	if t.Dim() == 0 || t.Device() != CPU || targets.Device() != CPU {
		return
	}
	Scope(func() {
		classes := t.Size(-1)
		low, high := targets.bounds()
		if (low < 0 || high >= classes) && targets.Dim() == 2 && lengths.Device() == CPU &&
			slices.Equal(lengths.Shape(), targets.Shape()[:1]) {
			low, high = targets.MaskedSelect(Arange(targets.Size(1)).Unsqueeze(0).Lt(lengths.Unsqueeze(1))).bounds()
		}
		if low < 0 || high >= classes {
			panic(&Error{Op: op, Args: []string{t.describe(), targets.describe()}, Code: ErrIndex,
				Msg: fmt.Sprintf("targets are %d to %d, but there are %d classes: 0 to %d", low, high, classes,
					classes-1)})
		}
	})
}

// bounds returns the smallest and the largest element, or 0, 0 if there are none.
func (t Tensor) bounds() (low, high int64) {
	if t.Numel() == 0 {
		return 0, 0
	}
	return int64(t.Min().Item()), int64(t.Max().Item())
}
