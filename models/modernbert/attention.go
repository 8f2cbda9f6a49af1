package modernbert

import (
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Attention is ModernBertAttention, with query, key and value in one layer.
type Attention struct {
	nn.Mode
	Wqkv    *nn.Linear  `module:"Wqkv"`
	Wo      *nn.Linear  `module:"Wo"`
	OutDrop *nn.Dropout `module:"out_drop"`

	heads   int64
	window  int64 // how far tokens attend to either side; -1 means without a limit
	kind    transformer.Attention
	dropout float64 // dropout of the attention weights
	std     deviations
}

func newAttention(c Config, b transformer.Builder, kind string) *Attention {
	a := &Attention{Wqkv: b.LinearWith(c.HiddenSize, 3*c.HiddenSize, c.AttentionBias),
		Wo: b.LinearWith(c.HiddenSize, c.HiddenSize, c.AttentionBias), OutDrop: nn.NewDropout(c.AttentionDropout),
		heads: c.NumHeads, window: -1, kind: c.Attention, dropout: c.AttentionDropout, std: c.deviations()}
	if kind == sliding {
		a.window = c.LocalAttention / 2
	}
	return a
}

// Forward maps hidden states, [B, L, hidden], to the same shape.
func (a *Attention) Forward(x, mask torch.Tensor, t turn, p *inputs.Packed) torch.Tensor {
	shape := x.Shape()
	parts := a.Wqkv.Forward(x).View(shape[0], shape[1], 3, a.heads, -1).Unbind(2) // [B, L, heads, E]
	flat := func(x torch.Tensor) torch.Tensor { return x.View(shape...) }
	q, k, v := flat(t.of(parts[0])), flat(t.of(parts[1])), flat(parts[2])
	dropout := 0.0
	if a.Training() {
		dropout = a.dropout
	}
	if p != nil {
		x = a.packed(q.SqueezeDim(0), k.SqueezeDim(0), v.SqueezeDim(0), p, dropout).Unsqueeze(0)
	} else {
		x = a.kind.Attend(q, k, v, transformer.Mask{Padding: mask, WideSoftmax: true}, a.heads, dropout)
	}
	return a.OutDrop.Forward(a.Wo.Forward(x))
}

// packed computes attention within the texts of a packed batch, [T, hidden]. If some texts are
// longer than the window, texts of the same length are processed together.
func (a *Attention) packed(q, k, v torch.Tensor, p *inputs.Packed, dropout float64) torch.Tensor {
	if a.window < 0 || p.MaxLength() <= a.window+1 {
		return a.kind.Attend(q, k, v, transformer.Mask{Packed: p, WideSoftmax: true}, a.heads, dropout)
	}
	tokens := make([]int64, len(p.Groups))
	for i, g := range p.Groups {
		tokens[i] = g.Texts * g.Length
	}
	cut := func(x torch.Tensor) []torch.Tensor { return torch.Call("aten::split_with_sizes", x, tokens, 0) }
	queries, keys, values := cut(q), cut(k), cut(v)
	parts := make([]torch.Tensor, len(p.Groups))
	for i, g := range p.Groups {
		texts := func(x torch.Tensor) torch.Tensor { return x.View(g.Texts, g.Length, -1) }
		mask := transformer.Mask{WideSoftmax: true}
		if g.Length > a.window+1 {
			near := neighbourhood(g.Length, a.window, q.Device()).Expand(g.Texts, 1, g.Length, g.Length)
			mask.Padding = a.kind.Mask(near, q.DType())
		}
		parts[i] = a.kind.Attend(texts(queries[i]), texts(keys[i]), texts(values[i]), mask, a.heads, dropout).
			View(tokens[i], -1)
	}
	return torch.Cat(parts, 0)
}

// masks returns the masks of [Attention.Forward] for the layers of each type, for hidden states x,
// [B, L, hidden]. They are undefined if nothing is masked. As in transformers, the window's mask is
// left out only if the texts are shorter than its half.
func (m *Model) masks(mask, x torch.Tensor) map[string]torch.Tensor {
	kind, shape, window := m.config.Attention, x.Shape(), m.config.LocalAttention/2
	padding := transformer.PaddingMask(mask, x.DType(), transformer.SDPA) // [B, 1, L, L], bool
	masks := map[string]torch.Tensor{full: kind.Mask(padding, x.DType())}
	if !padding.Defined() && shape[1] < window || !slices.Contains(m.config.LayerTypes, sliding) {
		return masks
	}
	masks[sliding] = torch.Return(func() torch.Tensor {
		near := neighbourhood(shape[1], window, x.Device())
		if padding.Defined() {
			near = near.LogicalAnd(padding)
		}
		return kind.Mask(near.Expand(shape[0], 1, shape[1], shape[1]), x.DType())
	})
	return masks
}

// neighbourhood returns which of n tokens are at most window positions apart, [n, n].
func neighbourhood(n, window int64, d torch.Device) torch.Tensor {
	at := torch.TensorOptions{Device: d}.Arange(0, n, 1)
	return at.Unsqueeze(1).Sub(at).Abs().LeScalar(window)
}

// turn is the rotary embedding of queries and keys: apply_rotary_pos_emb, which is computed in
// float32 whatever the dtype of the model.
type turn struct{ cos, sin torch.Tensor } // [L, 1, E]

// newTurn returns the rotary embedding for tokens at the given positions, [L]. dtype is the dtype
// of the model's hidden states.
func newTurn(frequencies, positions torch.Tensor, dtype torch.DType) turn {
	var t turn
	torch.NoGrad(func() {
		cos, sin := transformer.RotaryAngles(frequencies, positions.Unsqueeze(1))
		t = turn{cos.ToDType(dtype), sin.ToDType(dtype)}
	})
	return t
}

// of rotates queries or keys, [B, L, heads, E].
func (t turn) of(x torch.Tensor) torch.Tensor {
	// Converted separately for each use, since the gradients are rounded separately.
	wide := func() torch.Tensor { return x.ToDType(torch.Float32) }
	turned := wide().Mul(t.cos)
	y, half := wide(), x.Size(-1)/2
	first, second := y.Narrow(-1, 0, half), y.Narrow(-1, half, half)
	return turned.Add(torch.Cat([]torch.Tensor{second.Neg(), first}, -1).Mul(t.sin)).ToDType(x.DType())
}
