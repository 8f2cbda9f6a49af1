package roberta

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Sample is a text as token ids with its label. Batch is a padded batch of Samples. Step is a model
// in training.
type (
	Sample = classify.Sample
	Batch  = classify.Batch
	Step   = classify.Step
)

// Classifier is RobertaForSequenceClassification.
type Classifier struct {
	Roberta    *Model `module:"roberta"`
	Classifier *Top   `module:"classifier"`
}

// Top is RobertaClassificationHead: a linear layer and an activation over the first token, and the
// classifier. ELECTRA and MPNet use it too.
type Top struct {
	Dense   *nn.Linear  `module:"dense"`
	Dropout *nn.Dropout `module:"dropout"`
	OutProj *nn.Linear  `module:"out_proj"`

	Activation transformer.Activation // nil: tanh
}

var (
	_ classify.Model     = (*Classifier)(nil)
	_ inputs.PackedModel = (*Classifier)(nil)
)

// NewClassifier makes a model with random weights, the same that transformers draws from the same
// seed.
func NewClassifier(c Config) (*Classifier, error) {
	c, err := resolved(c, kind)
	if err != nil {
		return nil, fmt.Errorf("roberta: Config: %w", err)
	}
	var m *Classifier
	if err := torch.Try(func() { m = newClassifier(c, transformer.Builder{}) }); err != nil {
		return nil, fmt.Errorf("roberta: %w", err)
	}
	return m, nil
}

func newClassifier(c Config, b transformer.Builder) *Classifier {
	m := &Classifier{
		Roberta: newModel(c, b),
		Classifier: &Top{Dense: b.Linear(c.HiddenSize, c.HiddenSize), Dropout: nn.NewDropout(c.HeadDropout()),
			OutProj: b.Linear(c.HiddenSize, c.NumLabels)},
	}
	if !b.Undrawn {
		transformer.InitWeights(m.Classifier, c.InitializerRange, nil)
	}
	return m
}

// LoadClassifier loads a model from dir: one with or without the classifier, or any other RoBERTa,
// whose other heads are skipped. Zero fields of head are taken from config.json. A new classifier
// is drawn as in transformers' from_pretrained. The report says what was missing in the files, what
// was not used, and what was drawn. A missing part of the encoder is an error.
func LoadClassifier(dir string, h Head) (*Classifier, *pretrained.Report, error) {
	return LoadClassifierWith(dir, LoadOptions{Head: h})
}

// LoadOptions configures [LoadClassifierWith].
type LoadOptions = transformer.LoadOptions

// LoadClassifierWith is [LoadClassifier] with more options.
func LoadClassifierWith(dir string, o LoadOptions) (*Classifier, *pretrained.Report, error) {
	c, err := pretrained.ReadConfigAs(dir, "roberta", func(d pretrained.Document) (Config, error) {
		return configOf(d, kind, o.Head, o.Attention)
	})
	if err != nil {
		return nil, nil, err
	}
	build := func(b transformer.Builder) *Classifier { return newClassifier(c, b) }
	return transformer.LoadClassifier(dir, o, build, "roberta.", c.InitializerRange, "classifier.dense.weight",
		"classifier.dense.bias", "classifier.out_proj.weight", "classifier.out_proj.bias")
}

// NewStep prepares a classifier for package trainer. Each batch is padded to its longest text;
// [classify.NewStep] has more options.
func NewStep(m *Classifier, o engine.Options) (*Step, error) {
	return classify.NewStep(m, classify.TaskOptions{}, o)
}

// Save writes config.json and model.safetensors into dir, for transformers and [LoadClassifier]. It
// creates dir if needed.
func (m *Classifier) Save(dir string) error {
	d, err := m.document()
	if err != nil {
		return err
	}
	return pretrained.SaveFolder(dir, m, d)
}

// WriteConfig writes config.json into dir.
func (m *Classifier) WriteConfig(dir string) error {
	d, err := m.document()
	if err != nil {
		return err
	}
	return d.Write(dir)
}

func (m *Classifier) document() (pretrained.Document, error) {
	d, err := m.Roberta.config.Document(kind, kind.Architecture)
	if err != nil {
		return nil, fmt.Errorf("roberta: %w", err)
	}
	return d, nil
}

// Config returns the model's configuration with all defaults filled in.
func (m *Classifier) Config() Config { return m.Roberta.config }

// Head returns the meaning of the logits.
func (m *Classifier) Head() Head { return m.Roberta.config.Head }

// Limits returns which inputs the model accepts.
func (m *Classifier) Limits() classify.Limits { return limits(m.Roberta.config) }

// InputEmbeddings returns the embedding of the tokens: get_input_embeddings.
func (m *Classifier) InputEmbeddings() *nn.Embedding { return m.Roberta.Embeddings.Word }

// SetGradientCheckpointing makes training keep only the inputs of each layer and recompute the rest
// in the backward pass: less memory, a third more time, the same bits. It is
// gradient_checkpointing_enable of transformers.
func (m *Classifier) SetGradientCheckpointing(on bool) {
	m.Roberta.Encoder.SetGradientCheckpointing(on)
}

// SetPaddingFree makes the tasks that train the model drop the padding of batches:
// [transformer.Encoder.SetPaddingFree].
func (m *Classifier) SetPaddingFree(on bool) { m.Roberta.Encoder.SetPaddingFree(on) }

// PaddingFree returns the setting of [Classifier.SetPaddingFree].
func (m *Classifier) PaddingFree() bool { return m.Roberta.Encoder.PaddingFree() }

// FuseQKVProjections makes each layer compute query, key and value as one matrix product, which may
// change the last bits: [transformer.Encoder.FuseQKVProjections].
func (m *Classifier) FuseQKVProjections(on bool) { m.Roberta.Encoder.FuseQKVProjections(on) }

// Forward maps token ids, [B, L], to logits, [B, labels]. Mask and types are those of
// [Model.Forward].
func (m *Classifier) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return m.Classifier.Forward(m.Roberta.Forward(ids, mask, types)) })
}

// ForwardPacked maps a packed batch to logits, [B, labels].
func (m *Classifier) ForwardPacked(p *inputs.Packed) torch.Tensor {
	return torch.Return(func() torch.Tensor { return m.Classifier.Forward(p.First(m.Roberta.ForwardPacked(p))) })
}

// Forward maps hidden states, [B, L, hidden], to logits, [B, labels].
func (t *Top) Forward(hidden torch.Tensor) torch.Tensor { return t.Each(hidden.Select(1, 0)) }

// Each maps hidden states, [..., hidden], each to its logits, [..., labels].
func (t *Top) Each(x torch.Tensor) torch.Tensor {
	activation := t.Activation
	if activation == nil {
		activation = torch.Tensor.Tanh
	}
	return t.OutProj.Forward(t.Dropout.Forward(activation(t.Dense.Forward(t.Dropout.Forward(x)))))
}
