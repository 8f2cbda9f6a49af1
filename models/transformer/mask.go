package transformer

import (
	"github.com/gotrainer/gotrainer/torch"
)

// PaddingMask turns an attention mask, [B, L] with 0 where a token is padding, into what
// [Attention.Attend] adds or selects by. It is undefined, and attention takes a faster road, where
// nothing is masked. Telling so reads the mask back from its device; a caller who knows leaves the
// mask undefined. dtype is that of the hidden states.
func PaddingMask(mask torch.Tensor, dtype torch.DType, a Attention) torch.Tensor {
	if !mask.Defined() {
		return mask
	}
	return torch.Return(func() torch.Tensor {
		keep := mask.ToDType(torch.Bool)
		if keep.All().Item() != 0 {
			return torch.Tensor{}
		}
		shape := mask.Shape()
		keep = keep.Unsqueeze(1).Unsqueeze(1)
		if a != Eager {
			return keep.Expand(shape[0], 1, shape[1], shape[1])
		}
		o := torch.TensorOptions{DType: dtype, Device: mask.Device()}
		return torch.Where(keep, o.Zeros(), o.Full(lowest(dtype)))
	})
}

// lowest is torch.finfo(dtype).min.
func lowest(d torch.DType) float64 {
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
