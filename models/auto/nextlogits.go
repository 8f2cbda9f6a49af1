package auto

import (
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// NextLogits maps texts, [B, L] token ids padded on the right, to the logits of the token that
// follows each text, [B, vocabulary]. The output layer computes only these (logits_to_keep=1). The
// attention mask, [B, L], is that of [Model.Forward]: 0 for padding; undefined means none.
func (m *CausalLanguageModel) NextLogits(ids, mask torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		hidden := m.backbone.Forward(ids, mask, torch.Tensor{})
		if !mask.Defined() {
			return m.head.forward(m.backbone, hidden.Narrow(1, hidden.Size(1)-1, 1)).Select(1, 0)
		}
		// The last token that the mask does not leave out; in a text of padding alone, the first.
		width := mask.Size(1)
		places := torch.TensorOptions{Device: mask.Device(), DType: torch.Int32}.Arange(0, width, 1)
		last := mask.NeScalar(0).ToDType(torch.Int32).Mul(places).ArgMax(-1, false)
		return m.head.forward(m.backbone, transformer.TokensAt(hidden, last))
	})
}

// NextLogitsPacked is [CausalLanguageModel.NextLogits] of a packed batch.
func (m *CausalLanguageModel) NextLogitsPacked(p *inputs.Packed) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.head.forward(m.backbone, p.Last(m.backbone.ForwardPacked(p)))
	})
}
