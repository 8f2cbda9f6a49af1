package auto

import (
	"context"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// EncoderModel is an encoder without a head: AutoModel. Its Forward maps token ids, [B, L], to
// hidden states, [B, L, hidden]. Package sentence uses it to make embeddings of texts.
type EncoderModel struct{ *Model }

// Encoder loads an encoder from a folder or the Hub, and ignores any head it has there. A pooler,
// which AutoModel has, is loaded and saved but computes nothing.
func Encoder(ctx context.Context, model string, o Options) (*EncoderModel, error) {
	m, err := load(ctx, model, encoderAlone, o)
	if err != nil {
		return nil, err
	}
	return &EncoderModel{m}, nil
}

// HiddenSize is the size of the hidden states: hidden_size.
func (m *EncoderModel) HiddenSize() int64 { return m.blueprint.HiddenSize }

// Encode is [Model.EncodeText].
func (m *EncoderModel) Encode(in text.Input, maxLength int) (inputs.Text, error) {
	return m.EncodeText(in, maxLength)
}

// noHead leaves hidden states as they are.
type noHead struct{}

func newNoHead(transformer.Blueprint, transformer.Builder) head { return &noHead{} }

func (*noHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor { return hidden }
