package auto

import (
	"context"
	"strings"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// EncoderModel is an encoder or a decoder without a head: AutoModel. Its Forward maps token ids, [B,
// L], to hidden states, [B, L, hidden]; those of a decoder are the ones after its last
// normalisation. Package sentence uses it to make embeddings of texts.
type EncoderModel struct{ *Model }

// Encoder loads an encoder or a decoder from a folder or the Hub, and ignores any head it has there.
// A pooler, which AutoModel has, is loaded and saved but computes nothing.
//
// The tokens of a decoder attend only to earlier ones, unless config.json has is_causal false or,
// for gemma3_text, use_bidirectional_attention true. Batches are padded on the right, whatever
// padding_side of the tokenizer says.
func Encoder(ctx context.Context, model string, o Options) (*EncoderModel, error) {
	m, err := load(ctx, model, encoderAlone, o)
	if err != nil {
		return nil, err
	}
	return &EncoderModel{m}, nil
}

// HiddenSize is the size of the hidden states: hidden_size.
func (m *EncoderModel) HiddenSize() int64 { return m.blueprint.HiddenSize }

// FromLanguageModel reports whether the files are those of a language model, by the architectures of
// config.json (Qwen3ForCausalLM), in which tokens attend only to earlier ones: only the last token of
// a text has seen all of it.
func (m *EncoderModel) FromLanguageModel() bool {
	return len(m.architectures) > 0 && strings.HasSuffix(m.architectures[0], causalLM.class) && !m.blueprint.Bidirectional
}

// Encode is [Model.EncodeText].
func (m *EncoderModel) Encode(in text.Input, maxLength int) (inputs.Text, error) {
	return m.EncodeText(in, maxLength)
}

// noHead leaves hidden states as they are.
type noHead struct{}

func newNoHead(transformer.Blueprint, transformer.Builder) head { return &noHead{} }

func (*noHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor { return hidden }
