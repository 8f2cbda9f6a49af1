package distilbert

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

// Classifier is DistilBertForSequenceClassification.
type Classifier struct {
	DistilBERT    *Model      `module:"distilbert"`
	PreClassifier *nn.Linear  `module:"pre_classifier"`
	Classifier    *nn.Linear  `module:"classifier"`
	Dropout       *nn.Dropout `module:"dropout"`
}

var (
	_ classify.Model     = (*Classifier)(nil)
	_ inputs.PackedModel = (*Classifier)(nil)
)

// NewClassifier makes a model with random weights, the same that transformers draws from the same
// seed.
func NewClassifier(c Config) (*Classifier, error) {
	c, err := c.resolved()
	if err != nil {
		return nil, fmt.Errorf("distilbert: Config: %w", err)
	}
	var m *Classifier
	if err := torch.Try(func() { m = newClassifier(c, transformer.Builder{}) }); err != nil {
		return nil, fmt.Errorf("distilbert: %w", err)
	}
	return m, nil
}

func newClassifier(c Config, b transformer.Builder) *Classifier {
	activation, err := transformer.ActivationByName(c.Activation)
	if err != nil {
		panic(&torch.Error{Op: "distilbert.New", Code: torch.ErrValue, Msg: err.Error()})
	}
	m := &Classifier{
		DistilBERT:    newModel(c, b, activation),
		PreClassifier: b.Linear(c.Dim, c.Dim),
		Classifier:    b.Linear(c.Dim, c.NumLabels),
		Dropout:       nn.NewDropout(*c.ClassifierDropout),
	}
	if !b.Undrawn {
		transformer.InitWeights(m.PreClassifier, c.InitializerRange, nil)
		transformer.InitWeights(m.Classifier, c.InitializerRange, nil)
	}
	return m
}

// LoadClassifier loads a model from dir: one with or without the classifier, or any other
// DistilBERT, whose other heads are skipped. Zero fields of head are taken from config.json. A new
// classifier is drawn as in transformers' from_pretrained. The report says what was missing in the
// files, what was not used, and what was drawn. A missing part of the encoder is an error.
func LoadClassifier(dir string, h Head) (*Classifier, *pretrained.Report, error) {
	return LoadClassifierWith(dir, LoadOptions{Head: h})
}

// LoadOptions configures [LoadClassifierWith].
type LoadOptions = transformer.LoadOptions

// LoadClassifierWith is [LoadClassifier] with more options.
func LoadClassifierWith(dir string, o LoadOptions) (*Classifier, *pretrained.Report, error) {
	c, err := pretrained.ReadConfigAs(dir, "distilbert", func(d pretrained.Document) (Config, error) {
		return configOf(d, o.Head, o.Attention)
	})
	if err != nil {
		return nil, nil, err
	}
	build := func(b transformer.Builder) *Classifier { return newClassifier(c, b) }
	return transformer.LoadClassifier(dir, o, build, "distilbert.", c.InitializerRange, "pre_classifier.weight",
		"pre_classifier.bias", "classifier.weight", "classifier.bias")
}

// NewStep prepares a classifier for package trainer. Each batch is padded to its longest text;
// [classify.NewStep] has more options.
func NewStep(m *Classifier, o engine.Options) (*Step, error) {
	return classify.NewStep(m, classify.TaskOptions{}, o)
}

// Save writes config.json and model.safetensors into dir, for transformers and [LoadClassifier]. It
// creates dir if needed.
func (m *Classifier) Save(dir string) error {
	d, err := m.DistilBERT.config.document(architecture)
	if err != nil {
		return err
	}
	return pretrained.SaveFolder(dir, m, d)
}

// WriteConfig writes config.json into dir.
func (m *Classifier) WriteConfig(dir string) error {
	d, err := m.DistilBERT.config.document(architecture)
	if err != nil {
		return err
	}
	return d.Write(dir)
}

// Config returns the model's configuration with all defaults filled in.
func (m *Classifier) Config() Config { return m.DistilBERT.config }

// Head returns the meaning of the logits.
func (m *Classifier) Head() Head { return m.DistilBERT.config.Head }

// Limits returns which inputs the model accepts.
func (m *Classifier) Limits() classify.Limits { return limits(m.DistilBERT.config) }

// InputEmbeddings returns the embedding of the tokens: get_input_embeddings.
func (m *Classifier) InputEmbeddings() *nn.Embedding { return m.DistilBERT.Embeddings.Word }

// SetGradientCheckpointing makes training keep only the inputs of each layer and recompute the rest
// in the backward pass: less memory, a third more time, the same bits. It is
// gradient_checkpointing_enable of transformers.
func (m *Classifier) SetGradientCheckpointing(on bool) {
	m.DistilBERT.Encoder.SetGradientCheckpointing(on)
}

// SetPaddingFree makes the tasks that train the model drop the padding of batches:
// [transformer.Encoder.SetPaddingFree].
func (m *Classifier) SetPaddingFree(on bool) { m.DistilBERT.Encoder.SetPaddingFree(on) }

// PaddingFree returns the setting of [Classifier.SetPaddingFree].
func (m *Classifier) PaddingFree() bool { return m.DistilBERT.Encoder.PaddingFree() }

// FuseQKVProjections makes each layer compute query, key and value as one matrix product, which may
// change the last bits: [transformer.Encoder.FuseQKVProjections].
func (m *Classifier) FuseQKVProjections(on bool) { m.DistilBERT.Encoder.FuseQKVProjections(on) }

// Forward maps token ids, [B, L], to logits, [B, labels]. The mask is that of [Model.Forward]. The
// model has no token types, so the third argument is ignored.
func (m *Classifier) Forward(ids, mask, _ torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.classify(m.DistilBERT.Forward(ids, mask))
	})
}

// ForwardPacked maps a packed batch to logits, [B, labels].
func (m *Classifier) ForwardPacked(p *inputs.Packed) torch.Tensor {
	return torch.Return(func() torch.Tensor { return m.classify(p.First(m.DistilBERT.ForwardPacked(p))) })
}

// classify maps hidden states, [B, L, dim], to logits.
func (m *Classifier) classify(hidden torch.Tensor) torch.Tensor {
	x := m.PreClassifier.Forward(hidden.Select(1, 0)).ReLU()
	return m.Classifier.Forward(m.Dropout.Forward(x))
}
