package sentence

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Transformer makes embeddings of texts: SentenceTransformer. It also has what the encoder has,
// such as SetPaddingFree, SetGradientCheckpointing and Tokenizer.
type Transformer struct {
	*auto.EncoderModel

	// Pooling and the Modules after it, in their order, are set by [New]. Only ExcludePrompt may be
	// changed later.
	Pooling Pooling
	Modules []Module `module:"-"` // OwnModules has them

	// MaxSeqLength is the most tokens of a text, special tokens included; longer texts are cut.
	// Zero: as many as the encoder takes.
	MaxSeqLength int
	// Prompts are texts that are put before what is encoded, by name, such as query and document.
	Prompts map[string]string
	// DefaultPromptName is the prompt of Encode if the caller names none. Training uses no prompt.
	DefaultPromptName string
	// SimilarityFn compares embeddings of this model: similarity_fn_name. Zero: Cosine.
	SimilarityFn SimilarityFunction
	// TruncateDim is how many numbers of an embedding Encode keeps; zero: all. Train with
	// [MatryoshkaLoss] to make embeddings that can be truncated.
	TruncateDim int

	lowerCase bool // do_lower_case
	dimension int64
}

var (
	_ nn.ModuleLister = (*Transformer)(nil)
	_ engine.Adapted  = (*Transformer)(nil)
)

// New puts a pooling and modules after an encoder. The zero value of Pooling takes the mean.
func New(encoder *auto.EncoderModel, p Pooling, modules ...Module) (*Transformer, error) {
	if encoder == nil {
		return nil, errors.New("sentence: the encoder is nil; want one of auto.Encoder")
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	m := &Transformer{EncoderModel: encoder, Pooling: p, Modules: modules, SimilarityFn: Cosine,
		Prompts: map[string]string{}}
	m.dimension = encoder.HiddenSize() * int64(len(p.modes()))
	for i, module := range modules {
		var err error
		if m.dimension, err = module.size(m.dimension); err != nil {
			return nil, fmt.Errorf("sentence: module %d: %w", i+firstModule, err)
		}
	}
	return m, nil
}

// firstModule is the index in a folder of the first of Modules: the encoder is 0 and the pooling 1.
const firstModule = 2

// EmbeddingDimension is how many numbers an embedding has before it is truncated.
func (m *Transformer) EmbeddingDimension() int { return int(m.dimension) }

// OwnModules are the encoder's modules, and the ones after it by their numbers.
func (m *Transformer) OwnModules() []nn.Named {
	list := m.EncoderModel.OwnModules()
	for i, module := range m.Modules {
		if _, ok := module.(*Dense); ok {
			list = append(list, nn.Named{Name: strconv.Itoa(i + firstModule), Module: module})
		}
	}
	return list
}

// AddLoRA is [auto.Model.AddLoRA]. A model with Dense layers is refused, since peft's files have no
// place for them.
func (m *Transformer) AddLoRA(c lora.Config) error {
	if err := m.adaptable(); err != nil {
		return err
	}
	return m.EncoderModel.AddLoRA(c)
}

// adaptable returns an error if the model has layers that the checkpoints of an adapter would not
// contain.
func (m *Transformer) adaptable() error {
	for i, module := range m.Modules {
		if _, ok := module.(*Dense); ok {
			return fmt.Errorf("sentence: module %d is a Dense layer, which the files of an adapter have no place for; train "+
				"without the adapter (AddLoRA, MergeLoRA)", i+firstModule)
		}
	}
	return nil
}

// Texts is a batch of texts that go through the model together, padded to the same length.
type Texts struct {
	inputs.Batch
	PromptLengths []int // how many tokens of each text are its prompt; nil: none
}

// Embed maps texts to embeddings, [B, D], as a part of a forward pass.
func (m *Transformer) Embed(p engine.ForwardPass, t Texts) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		hidden := t.Forward(p, m.EncoderModel)
		x := m.Pooling.pool(hidden, m.Pooling.places(p, t))
		for _, module := range m.Modules {
			x = module.Forward(x)
		}
		return x
	})
}

// Text is a text as token ids.
type Text struct {
	inputs.Text
	PromptLength int // how many of the tokens are its prompt, including the token that begins every text
}

// Text tokenizes a prompt, which may be empty, followed by a text.
func (m *Transformer) Text(prompt, s string) (t Text, err error) {
	if t.PromptLength, err = m.promptLength(prompt); err != nil {
		return t, err
	}
	t.Text, err = m.tokens(prompt + s)
	return t, err
}

func (m *Transformer) tokens(s string) (inputs.Text, error) {
	if m.MaxSeqLength < 0 {
		return inputs.Text{}, fmt.Errorf("sentence: MaxSeqLength is %d; want the most tokens of a text, or 0", m.MaxSeqLength)
	}
	return m.EncoderModel.Encode(text.Single(s), m.MaxSeqLength)
}

// promptLength returns the number of tokens of a prompt when tokenized alone, without the special
// token at its end.
func (m *Transformer) promptLength(prompt string) (int, error) {
	if prompt == "" {
		return 0, nil
	}
	t, err := m.tokens(prompt)
	n := len(t.InputIDs)
	if err != nil || n == 0 {
		return 0, err
	}
	for _, a := range m.Tokenizer.Config().AddedTokens {
		if a.Special && a.ID == t.InputIDs[n-1] {
			return n - 1, nil
		}
	}
	return n, nil
}
