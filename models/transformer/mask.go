package transformer

import (
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
)

// Mask says which tokens attend to which, and how far apart they are. With the zero value, each
// token attends to all tokens of its row.
type Mask struct {
	Padding torch.Tensor   // for hidden states [B, L, hidden]: the result of [PaddingMask] or [CausalMask]
	Packed  *inputs.Packed // for hidden states [T, hidden], or [1, T, hidden] in a decoder: where the texts are
	Causal  bool           // no token attends to later ones; Padding, if defined, already says so
	// Window is how many tokens each attends to, including itself, in front of it and, unless Causal is
	// set, also behind it; 0: all. Padding, if defined, already says so.
	Window int64
	Rotary Rotary // positions, for models that rotate queries and keys by them

	// Router, if not nil, is given the logits of each router of a mixture of experts, [tokens,
	// experts].
	Router func(logits torch.Tensor)

	WideSoftmax bool // eager attention computes its weights in float32, whatever the dtype of the model
}

// PaddingMask turns an attention mask, [B, L] with 0 for padding, into the mask that
// [Attention.Attend] adds or selects by. If nothing is masked, the result is undefined and
// attention is faster. For a mask of numbers this is found out by reading it back from its device,
// as in transformers, which waits for a GPU. A mask of booleans is assumed to contain padding; it
// should be left undefined if there is none, as package inputs does. dtype is the dtype of the
// hidden states.
func PaddingMask(mask torch.Tensor, dtype torch.DType, a Attention) torch.Tensor {
	if !mask.Defined() {
		return mask
	}
	return torch.Return(func() torch.Tensor {
		keep := mask
		if mask.DType() != torch.Bool {
			if keep = mask.ToDType(torch.Bool); keep.All().Item() != 0 {
				return torch.Tensor{}
			}
		}
		shape := mask.Shape()
		keep = keep.Unsqueeze(1).Unsqueeze(1)
		if a != Eager {
			return keep.Expand(shape[0], 1, shape[1], shape[1])
		}
		return Additive(keep, dtype)
	})
}

// KeyMask returns where tokens of a text may be attended to, [B, 1, 1, L], for an attention mask as
// in [PaddingMask]. The undefined tensor means everywhere.
func KeyMask(mask torch.Tensor) torch.Tensor {
	keep := PaddingMask(mask, torch.Float32, SDPA)
	if keep.Defined() {
		keep = keep.Narrow(2, 0, 1)
	}
	return keep
}

// CausalMask returns the [Mask] of a decoder, in which tokens attend to themselves and those
// before them, for hidden states x, [B, L, hidden], and an attention mask as in [PaddingMask].
func CausalMask(mask, x torch.Tensor, a Attention) Mask { return WindowMask(mask, x, 0, a) }

// WindowMask is like [CausalMask], but tokens attend to at most the given number of tokens,
// including themselves; 0: all. If texts are shorter than the window, it costs as much as
// CausalMask. For hidden states that continue a text, the attention mask is that of all its tokens
// so far, [B, seen+L].
func WindowMask(mask, x torch.Tensor, window int64, a Attention) Mask {
	if mask.Defined() && mask.Size(1) > x.Size(1) {
		return lastMask(mask, x, window, a)
	}
	// This is >= as in transformers, although the mask makes no difference at exactly the window
	// size.
	slides := window > 0 && x.Size(1) >= window
	padding := PaddingMask(mask, x.DType(), SDPA) // [B, 1, L, L], bool
	if !padding.Defined() && a != Eager && !slides {
		return Mask{Causal: true, Window: window}
	}
	return Mask{Causal: true, Window: window, Padding: torch.Return(func() torch.Tensor {
		n := torch.TensorOptions{Device: x.Device()}.Arange(0, x.Size(1), 1)
		keep := n.Unsqueeze(1).Ge(n)
		if slides {
			keep = n.Gt(n.Unsqueeze(1).SubScalar(window)).LogicalAnd(keep)
		}
		if padding.Defined() {
			keep = padding.LogicalAnd(keep)
		}
		return a.Mask(keep, x.DType())
	})}
}

// BidirectionalWindowMask is like [WindowMask], but tokens also attend to later ones: to fewer than
// the given number of tokens in front of them and behind them; 0: to all. skips says that there is
// no mask if it would be true everywhere, which gives the same numbers in fewer steps.
func BidirectionalWindowMask(mask, x torch.Tensor, window int64, skips bool, a Attention) Mask {
	// As transformers' condition in create_bidirectional_sliding_window_mask, although the mask makes
	// no difference yet in texts this short.
	slides := window > 0 && x.Size(1) >= window-1
	padding := PaddingMask(mask, x.DType(), SDPA) // [B, 1, L, L], bool
	if !padding.Defined() && !slides && skips {
		return Mask{Window: window}
	}
	return Mask{Window: window, Padding: torch.Return(func() torch.Tensor {
		n := torch.TensorOptions{Device: x.Device()}.Arange(0, x.Size(1), 1)
		keep := padding
		if slides || !padding.Defined() {
			apart := n.Unsqueeze(1).Sub(n).Abs()
			if keep = apart.GeScalar(0); slides {
				keep = apart.LtScalar(window)
			}
			if padding.Defined() {
				keep = padding.LogicalAnd(keep)
			}
		}
		return a.Mask(keep, x.DType())
	})}
}

// lastMask is the mask for a single token after all others, which attends only to tokens within the
// window.
func lastMask(mask, x torch.Tensor, window int64, a Attention) Mask {
	if seen := mask.Size(1); window > 0 && seen > window {
		mask = mask.Narrow(1, seen-window, window)
	}
	keep := mask.Unsqueeze(1).Unsqueeze(1) // [B, 1, 1, keys]
	return Mask{Causal: true, Window: window, Padding: a.Mask(keep, x.DType())}
}

// Mask turns booleans, true where a token attends to another, into the form that the
// implementation of attention needs: numbers of the given dtype to add, or the booleans
// themselves. Undefined stays undefined.
func (a Attention) Mask(keep torch.Tensor, dtype torch.DType) torch.Tensor {
	if a == Eager && keep.Defined() {
		return Additive(keep, dtype)
	}
	return keep
}

// Additive returns what eager attention adds to its weights: 0 where keep is true, otherwise the
// lowest number.
func Additive(keep torch.Tensor, dtype torch.DType) torch.Tensor {
	o := torch.TensorOptions{DType: dtype, Device: keep.Device()}
	return torch.Where(keep, o.Zeros(), o.Full(Lowest(dtype)))
}

// CountedPositions numbers the tokens of ids, [B, L], that are not padding, starting with
// padding+1. Padding has the position padding.
func CountedPositions(ids torch.Tensor, padding int64) torch.Tensor {
	mask := ids.NeScalar(padding).ToDType(torch.Int64)
	return mask.CumSum(1, torch.DefaultDType).Mul(mask).AddScalar(padding)
}

// TokenTypes returns the types of ids, in their shape. If undefined, all are 0.
func TokenTypes(ids, types torch.Tensor) torch.Tensor {
	if types.Defined() {
		return types
	}
	shape := ids.Shape()
	one := make([]int64, len(shape))
	for i := range one {
		one[i] = 1
	}
	return torch.TensorOptions{DType: torch.Int64, Device: ids.Device()}.Zeros(one...).Expand(shape...)
}

// Lowest returns torch.finfo(dtype).min.
func Lowest(d torch.DType) float64 {
	switch d {
	case torch.Float16:
		return -65504
	case torch.BFloat16:
		return -0x1.fep127
	case torch.Float32:
		return -0x1.fffffep127
	case torch.Float64:
		return -0x1.fffffffffffffp1023
	}
	panic(torch.Errorf("transformer.PaddingMask", torch.ErrType, "hidden states have dtype %s; want one of "+
		"floating-point numbers", d))
}
