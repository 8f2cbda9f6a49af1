package transformer

import "github.com/gotrainer/gotrainer/torch"

// Rotary turns queries and keys by their positions, so that their product depends on how far apart
// they are. The zero value turns nothing.
//
// Source: Su and others, RoFormer, https://arxiv.org/abs/2104.09864; transformers' LlamaRotaryEmbedding.
type Rotary struct{ cos, sin torch.Tensor } // [L, 1, E]

// NewRotary is of n tokens, of which the first is at that position, for inverse frequencies [E/2],
// and for queries and keys of a model whose hidden states have that dtype.
func NewRotary(frequencies torch.Tensor, position, n int64, dtype torch.DType) Rotary {
	positions := torch.TensorOptions{Device: frequencies.Device()}.Arange(position, position+n, 1)
	angles := positions.ToDType(torch.Float32).Unsqueeze(1).Mul(frequencies.ToDType(torch.Float32))
	angles = torch.Cat([]torch.Tensor{angles, angles}, -1).Unsqueeze(1)
	return Rotary{angles.Cos().ToDType(dtype), angles.Sin().ToDType(dtype)}
}

// Turn maps queries or keys, [B, L, heads·E], to the same shape.
func (r Rotary) Turn(x torch.Tensor) torch.Tensor {
	shape := x.Shape()
	size := r.cos.Size(-1)
	x = x.View(shape[0], shape[1], -1, size)
	turned := x.Mul(r.cos)
	first, second := x.Narrow(-1, 0, size/2), x.Narrow(-1, size/2, size/2)
	return turned.Add(torch.Cat([]torch.Tensor{second.Neg(), first}, -1).Mul(r.sin)).View(shape...)
}
