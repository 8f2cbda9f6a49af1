package transformer

import (
	"cmp"
	"math"
	"sync"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// attendPacked is [Attention.Attend] for a packed batch, [T, heads·E]. GPUs have kernels that find
// the texts by their offsets. Otherwise, texts of the same length are processed together.
func (a Attention) attendPacked(query, key, value torch.Tensor, p *inputs.Packed, heads int64,
	dropout float64) torch.Tensor {
	size := query.Size(1) / heads
	if kernel := packedKernel(a, query, size); kernel != nil {
		split := func(x torch.Tensor) torch.Tensor { return x.View(-1, heads, size) }
		scale := math.Pow(float64(size), -0.5)
		return kernel(split(query), split(key), split(value), p, false, dropout, scale).Reshape(-1, heads*size)
	}
	tokens := make([]int64, len(p.Groups))
	for i, g := range p.Groups {
		tokens[i] = g.Texts * g.Length
	}
	q, k, v := cut(query, tokens), cut(key, tokens), cut(value, tokens)
	parts := make([]torch.Tensor, len(p.Groups))
	for i, g := range p.Groups {
		texts := func(x torch.Tensor) torch.Tensor { return x.View(g.Texts, g.Length, heads*size) }
		parts[i] = a.Attend(texts(q[i]), texts(k[i]), texts(v[i]), Mask{}, heads, dropout).View(tokens[i], heads*size)
	}
	return torch.Cat(parts, 0)
}

// attendPackedHeads is [Attention.AttendHeads] for a packed batch in a decoder, with query, key and
// value of shape [1, heads, T, E].
func (a Attention) attendPackedHeads(q, k, v torch.Tensor, mask Mask, o AttendOptions) torch.Tensor {
	p, shape := mask.Packed, q.Shape()
	heads, total, size := shape[1], shape[2], shape[3]
	group := heads / k.Size(1)
	slides := mask.Window > 0 && p.MaxLength() >= mask.Window
	if kernel := packedKernel(a, q, size); kernel != nil && !slides {
		tokens := func(x torch.Tensor, group int64) torch.Tensor {
			return repeatHeads(x, group).SqueezeDim(0).Transpose(0, 1)
		}
		scale := cmp.Or(o.Scale, math.Pow(float64(size), -0.5))
		return kernel(tokens(q, 1), tokens(k, group), tokens(v, group), p, mask.Causal, o.Dropout, scale).
			Reshape(1, total, heads*size)
	}
	tokens := make([]int64, len(p.Groups))
	for i, g := range p.Groups {
		tokens[i] = g.Texts * g.Length
	}
	split := func(x torch.Tensor) []torch.Tensor { return torch.Call("aten::split_with_sizes", x, tokens, 2) }
	qs, ks, vs := split(q), split(k), split(v)
	parts := make([]torch.Tensor, len(p.Groups))
	for i, g := range p.Groups {
		texts := func(x torch.Tensor) torch.Tensor { // [texts, heads, L, E]
			return x.SqueezeDim(0).Unflatten(1, g.Texts, g.Length).Transpose(0, 1)
		}
		one := mask
		one.Packed = nil
		if x := texts(qs[i]).Select(1, 0); !mask.Causal {
			one.Padding = BidirectionalWindowMask(torch.Tensor{}, x, mask.Window, true, a).Padding
		} else if slides || a == Eager {
			one.Padding = WindowMask(torch.Tensor{}, x, mask.Window, a).Padding
		}
		part := a.attend(texts(qs[i]), texts(ks[i]), texts(vs[i]), one, o, []int64{g.Texts, heads, g.Length, size}, group)
		parts[i] = part.View(1, tokens[i], heads*size)
	}
	return torch.Cat(parts, 1)
}

// cut splits x into groups of rows. The gradient of a split is a single concatenation, whereas that
// of slices would fill and add up a matrix for each slice.
func cut(x torch.Tensor, rows []int64) []torch.Tensor {
	return torch.Call("aten::split_with_sizes", x, rows, 0)
}

// packedAttention computes attention within the texts of query, key and value, [T, heads, E]; the
// result has the same shape.
type packedAttention func(q, k, v torch.Tensor, p *inputs.Packed, causal bool, dropout, scale float64) torch.Tensor

// packedKernel returns the GPU kernel for heads of the given size, or nil if there is none. Only
// sizes that a kernel takes without padding are used.
func packedKernel(a Attention, query torch.Tensor, size int64) packedAttention {
	device, dtype := query.Device(), query.DType()
	half := dtype == torch.Float16 || dtype == torch.BFloat16
	switch {
	case a != SDPA || !device.IsCUDA():
		return nil
	case half && size%8 == 0 && size <= 256 && hasFlash(device):
		return flash
	case half && size%8 == 0 || dtype == torch.Float32 && size%4 == 0:
		return efficient
	}
	return nil
}

func flash(q, k, v torch.Tensor, p *inputs.Packed, causal bool, dropout, scale float64) torch.Tensor {
	longest := p.MaxLength()
	return torch.Call("aten::_flash_attention_forward", q, k, v, p.Offsets, p.Offsets, longest, longest, dropout, causal,
		false, scale)[0]
}

func efficient(q, k, v torch.Tensor, p *inputs.Packed, causal bool, dropout, scale float64) torch.Tensor {
	const keepForBackward = true
	mask := 0 // none
	if causal {
		mask = 1 // CausalFromTopLeft
	}
	longest := p.MaxLength()
	row := func(x torch.Tensor) torch.Tensor { return x.Unsqueeze(0) }
	out := torch.CallAny("aten::_efficient_attention_forward", row(q), row(k), row(v), nil, p.Offsets, p.Offsets, longest,
		longest, dropout, mask, keepForBackward, scale)
	return out[0].(torch.Tensor).Squeeze()
}

// hasFlash reports whether a GPU supports flash attention, which needs capability 8.0 or later.
func hasFlash(d torch.Device) bool {
	if known, ok := flashDevices.Load(d); ok {
		return known.(bool)
	}
	properties, err := cuda.DeviceProperties(d)
	can := err == nil && properties.Capability.Major >= 8
	flashDevices.Store(d, can)
	return can
}

var flashDevices sync.Map // torch.Device to bool
