package transformer

import "github.com/gotrainer/gotrainer/torch"

// Rotary turns queries and keys by their positions, so that their product depends on how far apart
// they are. The zero value turns nothing.
//
// Source: Su and others, RoFormer, https://arxiv.org/abs/2104.09864; transformers' LlamaRotaryEmbedding.
type Rotary struct{ cos, sin torch.Tensor } // [L, E], or [B, 1, L, E]

// NewRotary returns the rotation of tokens at the given positions, [L], or [B, L] if they differ
// between texts, for inverse frequencies [E/2]. dtype is that of the model's hidden states.
// Queries and keys are also multiplied by scale.
func NewRotary(frequencies, positions torch.Tensor, scale float64, dtype torch.DType) Rotary {
	if positions.Dim() == 2 {
		positions = positions.Unsqueeze(1)
	}
	cos, sin := RotaryAngles(frequencies, positions)
	if scale != 1 {
		cos, sin = cos.MulScalar(scale), sin.MulScalar(scale)
	}
	return Rotary{cos.ToDType(dtype), sin.ToDType(dtype)}
}

// RotaryAngles returns the cosines and sines of the angles by which positions, [...], rotate the
// two numbers of each pair, [..., E], for inverse frequencies [E/2], in float32.
func RotaryAngles(frequencies, positions torch.Tensor) (cos, sin torch.Tensor) {
	angles := positions.ToDType(torch.Float32).Unsqueeze(-1).Mul(frequencies.ToDType(torch.Float32))
	angles = torch.Cat([]torch.Tensor{angles, angles}, -1)
	return angles.Cos(), angles.Sin()
}

// RotaryFrequencies returns how far a position rotates each of size/2 pairs, for wavelengths with
// the given base. factors, one for each pair, multiply the wavelengths; nil means 1.
func RotaryFrequencies(theta float64, size int64, factors []float64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		o := torch.TensorOptions{DType: torch.Float32}
		lengths := o.Full(theta).Pow(o.Arange(0, size, 2).DivScalar(size))
		if factors != nil {
			lengths = torch.From(factors, int64(len(factors))).ToDType(torch.Float32).Mul(lengths)
		}
		return lengths.Reciprocal()
	})
}

// Turn rotates queries or keys, [B, heads, L, size], and returns the same shape. The first E
// numbers of each are rotated.
func (r Rotary) Turn(x torch.Tensor) torch.Tensor {
	if !r.cos.Defined() {
		return x
	}
	size, part := x.Size(-1), r.cos.Size(-1)
	if part == size {
		return r.rotate(x)
	}
	return torch.Cat([]torch.Tensor{r.rotate(x.Narrow(-1, 0, part)), x.Narrow(-1, part, size-part)}, -1)
}

// rotate applies the rotation to x, [B, heads, L, E].
func (r Rotary) rotate(x torch.Tensor) torch.Tensor {
	half := x.Size(-1) / 2
	rotated := x.Mul(r.cos) // first, as in Python: the order determines how gradients are summed
	first, second := x.Narrow(-1, 0, half), x.Narrow(-1, half, half)
	return rotated.Add(torch.Cat([]torch.Tensor{second.Neg(), first}, -1).Mul(r.sin))
}
