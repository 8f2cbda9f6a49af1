package distilbert

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Head describes the classifier; zero fields are taken from config.json.
type Head = classify.Head

// Config describes a model with the settings of transformers. The zero value is
// distilbert-base-uncased with two labels.
type Config struct {
	VocabSize        int64   // zero: 30522
	Dim              int64   // of the hidden states; zero: 768
	NumLayers        int64   // zero: 6
	NumHeads         int64   // zero: 12
	HiddenDim        int64   // of the feed-forward part; zero: 3072
	MaxPositions     int64   // zero: 512
	Activation       string  // see [transformer.ActivationByName]; zero: gelu
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02

	Dropout           *float64 // nil: 0.1
	AttentionDropout  *float64 // nil: 0.1
	ClassifierDropout *float64 // seq_classif_dropout; nil: 0.2
	AnswerDropout     *float64 // qa_dropout; nil: 0.1

	PadTokenID *int64 // nil: 0; -1: there is none

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits mean

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

const (
	modelType    = "distilbert"
	architecture = "DistilBertForSequenceClassification"
	layerNormEps = 1e-12 // fixed in transformers
)

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) {
	return pretrained.ReadConfigAs(dir, "distilbert", decode)
}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := d.UseOwnNames(map[string]string{"hidden_size": "dim", "num_attention_heads": "n_heads",
		"num_hidden_layers": "n_layers"}); err != nil {
		return c, err
	}
	if c.Head, err = transformer.DecodeEncoder(d, modelType, c.fields(), &c.PadTokenID); err != nil {
		return c, err
	}
	c.Extra = d
	return c, d.Demand("sinusoidal_pos_embds", "false")
}

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "vocab_size", Value: &c.VocabSize}, {Key: "dim", Value: &c.Dim}, {Key: "n_layers", Value: &c.NumLayers},
		{Key: "n_heads", Value: &c.NumHeads},
		{Key: "hidden_dim", Value: &c.HiddenDim}, {Key: "max_position_embeddings", Value: &c.MaxPositions},
		{Key: "activation", Value: &c.Activation},
		{Key: "initializer_range", Value: &c.InitializerRange}, {Key: "dropout", Value: &c.Dropout},
		{Key: "attention_dropout", Value: &c.AttentionDropout},
		{Key: "seq_classif_dropout", Value: &c.ClassifierDropout}, {Key: "qa_dropout", Value: &c.AnswerDropout},
	}
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	pad := c.PadTokenID
	if *pad < 0 {
		pad = nil
	}
	err := d.EncodeModel(modelType, architecture, append(c.fields(), pretrained.Field{Key: "pad_token_id", Value: &pad}))
	if err == nil {
		err = c.Head.Encode(d)
	}
	if err != nil {
		return nil, fmt.Errorf("distilbert: %w", err)
	}
	return d, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := cmp.Or(
		transformer.Positive("VocabSize", &c.VocabSize, 30522),
		transformer.Positive("Dim", &c.Dim, 768),
		transformer.Positive("NumLayers", &c.NumLayers, 6),
		transformer.Positive("NumHeads", &c.NumHeads, 12),
		transformer.Positive("HiddenDim", &c.HiddenDim, 3072),
		transformer.Positive("MaxPositions", &c.MaxPositions, 512),
	); err != nil {
		return c, err
	}
	if err := transformer.Positive("InitializerRange", &c.InitializerRange, 0.02); err != nil {
		return c, err
	}
	if err := transformer.CheckLayers(c.NumLayers); err != nil {
		return c, err
	}
	for _, f := range []struct {
		name     string
		value    **float64
		fallback float64
	}{{"Dropout", &c.Dropout, 0.1}, {"AttentionDropout", &c.AttentionDropout, 0.1},
		{"ClassifierDropout", &c.ClassifierDropout, 0.2}, {"AnswerDropout", &c.AnswerDropout, 0.1}} {
		if *f.value == nil {
			*f.value = &f.fallback
		}
		if err := transformer.CheckProbability(f.name, *f.value); err != nil {
			return c, err
		}
	}
	if c.Activation == "" {
		c.Activation = "gelu"
	}
	if c.PadTokenID == nil {
		c.PadTokenID = new(int64(0))
	}
	switch pad := *c.PadTokenID; {
	case c.Dim%c.NumHeads != 0:
		return c, fmt.Errorf("%d heads do not divide Dim, %d", c.NumHeads, c.Dim)
	case pad < -1 || pad >= c.VocabSize:
		return c, fmt.Errorf("PadTokenID is %d; want an id below VocabSize, %d, or -1 for none", pad, c.VocabSize)
	}
	if _, err := transformer.ActivationByName(c.Activation); err != nil {
		return c, fmt.Errorf("field Activation: %w", err)
	}
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

// configOf returns the resolved config of a config.json. Zero fields of h are taken from the file.
func configOf(d pretrained.Document, h Head, a transformer.Attention) (Config, error) {
	c, err := decode(d)
	if err != nil {
		return c, err
	}
	c.Head, c.Attention = h.Over(c.Head), a
	return c.resolved()
}

// Blueprint returns the encoder described by a config.json, for the heads of package auto. Zero
// fields of the head are taken from the file.
func Blueprint(d pretrained.Document, h Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := configOf(d, h, a)
	if err != nil {
		return b, err
	}
	activation, err := transformer.ActivationByName(c.Activation)
	if err != nil {
		return b, err
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "DistilBert", Prefix: "distilbert", HiddenSize: c.Dim, EmbeddingSize: c.Dim,
		Activation: activation, LayerNormEps: layerNormEps, InitializerRange: c.InitializerRange, Dropout: *c.Dropout,
		ClassifierDropout: *c.ClassifierDropout, AnswerDropout: *c.AnswerDropout, Head: c.Head, Limits: limits(c),
		Document: c.document,
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder, activation)
			return transformer.Backbone{Module: m, InputEmbeddings: m.Embeddings.Word,
				Forward:                  func(ids, mask, _ torch.Tensor) torch.Tensor { return m.Forward(ids, mask) },
				ForwardPacked:            m.ForwardPacked,
				SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
				FuseQKVProjections:       m.Encoder.FuseQKVProjections}
		},
	}, nil
}

func limits(c Config) classify.Limits {
	return classify.Limits{VocabSize: c.VocabSize, MaxLength: c.MaxPositions, PadTokenID: max(0, *c.PadTokenID)}
}
