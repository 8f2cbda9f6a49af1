package transformer

import (
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
		out := kernel(split(query), split(key), split(value), p, dropout, math.Pow(float64(size), -0.5))
		return out.Reshape(-1, heads*size)
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

// cut splits x into groups of rows. The gradient of a split is a single concatenation, whereas that
// of slices would fill and add up a matrix for each slice.
func cut(x torch.Tensor, rows []int64) []torch.Tensor {
	return torch.Call("aten::split_with_sizes", x, rows, 0)
}

// packedAttention computes attention within the texts of query, key and value, [T, heads, E]; the
// result has the same shape.
type packedAttention func(q, k, v torch.Tensor, p *inputs.Packed, dropout, scale float64) torch.Tensor

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

func flash(q, k, v torch.Tensor, p *inputs.Packed, dropout, scale float64) torch.Tensor {
	longest := p.MaxLength()
	return torch.Call("aten::_flash_attention_forward", q, k, v, p.Offsets, p.Offsets, longest, longest, dropout, false,
		false, scale)[0]
}

func efficient(q, k, v torch.Tensor, p *inputs.Packed, dropout, scale float64) torch.Tensor {
	const noMask, keepForBackward = 0, true
	longest := p.MaxLength()
	row := func(x torch.Tensor) torch.Tensor { return x.Unsqueeze(0) }
	out := torch.CallAny("aten::_efficient_attention_forward", row(q), row(k), row(v), nil, p.Offsets, p.Offsets, longest,
		longest, dropout, noMask, keepForBackward, scale)
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
