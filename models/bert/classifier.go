package bert

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Classifier is BertForSequenceClassification.
type Classifier struct {
	BERT       *Model      `module:"bert"`
	Dropout    *nn.Dropout `module:"dropout"`
	Classifier *nn.Linear  `module:"classifier"`

	ignoreTypes bool
}

var (
	_ classify.Model     = (*Classifier)(nil)
	_ inputs.PackedModel = (*Classifier)(nil)
)

// NewClassifier makes a model with random weights, the same that transformers draws from the same
// seed.
func NewClassifier(c Config) (*Classifier, error) {
	c, err := c.Resolved(kind)
	if err != nil {
		return nil, fmt.Errorf("bert: Config: %w", err)
	}
	var m *Classifier
	if err := torch.Try(func() { m = newClassifier(c, transformer.Builder{}) }); err != nil {
		return nil, fmt.Errorf("bert: %w", err)
	}
	return m, nil
}

func newClassifier(c Config, b transformer.Builder) *Classifier {
	m := &Classifier{
		BERT: newModel(c, b), Dropout: nn.NewDropout(c.HeadDropout()), Classifier: b.Linear(c.HiddenSize, c.NumLabels),
		ignoreTypes: string(c.Extra["name"]) == hezarType,
	}
	if !b.Undrawn {
		transformer.InitWeights(m.Classifier, c.InitializerRange, nil)
	}
	return m
}

// LoadClassifier loads a model from dir: one with or without the classifier, or any other BERT,
// whose other heads are skipped. Zero fields of head are taken from config.json. A new classifier
// is drawn as in transformers' from_pretrained. The report says what was missing in the files,
// what was not used, and what was drawn. A missing part of the encoder is an error.
func LoadClassifier(dir string, h Head) (*Classifier, *pretrained.Report, error) {
	return LoadClassifierWith(dir, LoadOptions{Head: h})
}

// LoadOptions configures [LoadClassifierWith].
type LoadOptions = transformer.LoadOptions

// LoadClassifierWith is [LoadClassifier] with more options.
func LoadClassifierWith(dir string, o LoadOptions) (*Classifier, *pretrained.Report, error) {
	c, err := pretrained.ReadConfigAs(dir, "bert", func(d pretrained.Document) (Config, error) {
		return configOf(d, o.Head, o.Attention)
	})
	if err != nil {
		return nil, nil, err
	}
	build := func(b transformer.Builder) *Classifier { return newClassifier(c, b) }
	return transformer.LoadClassifier(dir, o, build, "bert.", c.InitializerRange, "classifier.weight",
		"classifier.bias", "bert.pooler.dense.weight", "bert.pooler.dense.bias")
}

// Save writes config.json and model.safetensors into dir, for transformers and [LoadClassifier].
// It creates dir if needed.
func (m *Classifier) Save(dir string) error { return save(dir, m, m.BERT.config, kind.Architecture) }

// WriteConfig writes config.json into dir.
func (m *Classifier) WriteConfig(dir string) error {
	d, err := document(m.BERT.config, kind.Architecture)
	if err != nil {
		return err
	}
	return d.Write(dir)
}

// Config returns the model's configuration with all defaults filled in.
func (m *Classifier) Config() Config { return m.BERT.config }

// Head returns the meaning of the logits.
func (m *Classifier) Head() Head { return m.BERT.config.Head }

// Limits returns which inputs the model accepts.
func (m *Classifier) Limits() classify.Limits { return limits(m.BERT.config) }

// InputEmbeddings returns the embedding of the tokens: get_input_embeddings.
func (m *Classifier) InputEmbeddings() *nn.Embedding { return m.BERT.InputEmbeddings() }

// SetGradientCheckpointing makes training keep only the inputs of each layer and recompute the
// rest in the backward pass: less memory, a third more time, the same bits. It is
// gradient_checkpointing_enable of transformers.
func (m *Classifier) SetGradientCheckpointing(on bool) { m.BERT.SetGradientCheckpointing(on) }

// SetPaddingFree makes the tasks that train the model drop the padding of batches:
// [transformer.Encoder.SetPaddingFree].
func (m *Classifier) SetPaddingFree(on bool) { m.BERT.Encoder.SetPaddingFree(on) }

// PaddingFree returns the setting of [Classifier.SetPaddingFree].
func (m *Classifier) PaddingFree() bool { return m.BERT.Encoder.PaddingFree() }

// FuseQKVProjections makes each layer compute query, key and value as one matrix product, which
// may change the last bits: [transformer.Encoder.FuseQKVProjections].
func (m *Classifier) FuseQKVProjections(on bool) { m.BERT.Encoder.FuseQKVProjections(on) }

// IgnoreTokenTypes makes the model treat every token as one of the first text, as Hezar's
// BertTextClassification always does. A model described by Hezar's configuration does so from the
// start.
func (m *Classifier) IgnoreTokenTypes(on bool) { m.ignoreTypes = on }

// Forward maps token ids, [B, L], to logits, [B, labels]. Mask and types are those of
// [Model.Forward].
func (m *Classifier) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	if m.ignoreTypes {
		types = torch.Tensor{}
	}
	return torch.Return(func() torch.Tensor {
		return m.classify(m.BERT.Hidden(ids, mask, types))
	})
}

// ForwardPacked maps a packed batch to logits, [B, labels].
func (m *Classifier) ForwardPacked(p *inputs.Packed) torch.Tensor {
	if m.ignoreTypes {
		untyped := *p
		untyped.Types = torch.Tensor{}
		p = &untyped
	}
	return torch.Return(func() torch.Tensor { return m.classify(p.First(m.BERT.HiddenPacked(p))) })
}

// classify maps hidden states, [B, L, hidden], to logits.
func (m *Classifier) classify(hidden torch.Tensor) torch.Tensor {
	return m.Classifier.Forward(m.Dropout.Forward(m.BERT.Pooler.Forward(hidden)))
}
