package bert

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model; the zero value is bert-base-uncased with two labels.
type Config = transformer.Config

// Head describes the classifier; zero fields are taken from config.json.
type Head = classify.Head

var kind = transformer.Kind{Type: "bert", Architecture: "BertForSequenceClassification", VocabSize: 30522,
	PadTokenID: 0}

// hezarType is the name of the model in Hezar's config files, which have no model_type.
const hezarType = `"bert_text_classification"`

// ReadConfig reads config.json from dir, or Hezar's model_config.yaml, and refuses settings that
// the model does not support.
func ReadConfig(dir string) (Config, error) {
	return pretrained.ReadConfigAs(dir, "bert", decode)
}

func decode(d pretrained.Document) (Config, error) {
	if _, ok := d["model_type"]; !ok && string(d["name"]) == hezarType {
		d["model_type"] = []byte(`"bert"`)
	}
	return transformer.DecodeConfig(d, kind)
}

// baseArchitecture is transformers' class without a head.
const baseArchitecture = "BertModel"

// document returns the config.json of a resolved config.
func document(c Config, architecture string) (pretrained.Document, error) {
	d, err := c.Document(kind, architecture)
	if err != nil {
		return nil, fmt.Errorf("bert: %w", err)
	}
	return d, nil
}

// save writes a folder that transformers reads.
func save(dir string, model any, c Config, architecture string) error {
	d, err := document(c, architecture)
	if err != nil {
		return err
	}
	return pretrained.SaveFolder(dir, model, d)
}

// configOf returns the resolved config of a config.json. Zero fields of h are taken from the file.
func configOf(d pretrained.Document, h Head, a transformer.Attention) (Config, error) {
	c, err := decode(d)
	if err != nil {
		return c, err
	}
	c.Head, c.Attention = h.Over(c.Head), a
	return c.Resolved(kind)
}

// Blueprint returns the encoder described by a config.json, for the heads of package auto. Zero
// fields of head are taken from the file.
func Blueprint(d pretrained.Document, h Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := configOf(d, h, a)
	if err != nil {
		return b, err
	}
	b = c.Blueprint(kind, "Bert", "bert")
	b.Limits = limits(c)
	b.Build = func(builder transformer.Builder, pooler bool) transformer.Backbone {
		m := newEncoder(c, builder, pooler)
		return transformer.Backbone{Module: m, Forward: m.Hidden, ForwardPacked: m.HiddenPacked,
			Pool: m.Pooler.Forward, InputEmbeddings: m.Embeddings.Word,
			SetGradientCheckpointing: m.SetGradientCheckpointing, FuseQKVProjections: m.Encoder.FuseQKVProjections}
	}
	return b, nil
}

func limits(c Config) classify.Limits {
	return classify.Limits{VocabSize: c.VocabSize, TypeVocabSize: c.TypeVocabSize, MaxLength: c.MaxPositions,
		PadTokenID: max(0, *c.PadTokenID)}
}
