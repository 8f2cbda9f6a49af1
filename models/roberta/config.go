package roberta

import (
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model. The zero value is transformers' RobertaConfig(); roberta-base has 514
// positions, one token type and an epsilon of 1e-5.
type Config = transformer.Config

// Head describes the classifier; zero fields are taken from config.json.
type Head = classify.Head

var kind = transformer.Kind{Type: "roberta", Architecture: "RobertaForSequenceClassification", VocabSize: 50265,
	PadTokenID: 1}

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) {
	return pretrained.ReadConfigAs(dir, "roberta", func(d pretrained.Document) (Config, error) {
		return transformer.DecodeConfig(d, kind)
	})
}

// xlm is XLM-RoBERTa: RoBERTa with another name and vocabulary.
var xlm = transformer.Kind{Type: "xlm-roberta", Architecture: "XLMRobertaForSequenceClassification", VocabSize: 30522,
	PadTokenID: 1}

// resolved fills in the defaults. Positions are counted from the padding token, so there must be
// one.
func resolved(c Config, k transformer.Kind) (Config, error) {
	c, err := c.Resolved(k)
	if err == nil {
		err = c.CountedPositions()
	}
	return c, err
}

// configOf returns the resolved config of a config.json. Zero fields of h are taken from the file.
func configOf(d pretrained.Document, k transformer.Kind, h Head, a transformer.Attention) (Config, error) {
	c, err := transformer.DecodeConfig(d, k)
	if err != nil {
		return c, err
	}
	c.Head, c.Attention = h.Over(c.Head), a
	return resolved(c, k)
}

// Blueprint returns the encoder described by a config.json, RoBERTa or XLM-RoBERTa, for the heads
// of package auto. Zero fields of the head are taken from the file.
func Blueprint(d pretrained.Document, h Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	k, class := kind, "Roberta"
	if string(d["model_type"]) == `"xlm-roberta"` {
		k, class = xlm, "XLMRoberta"
	}
	c, err := configOf(d, k, h, a)
	if err != nil {
		return b, err
	}
	b = c.Blueprint(k, class, "roberta")
	b.Limits = limits(c)
	b.Build = func(builder transformer.Builder, _ bool) transformer.Backbone {
		m := newModel(c, builder)
		return transformer.Backbone{Module: m, Forward: m.Forward, ForwardPacked: m.ForwardPacked,
			Pool: m.Pooler.Forward, InputEmbeddings: m.Embeddings.Word,
			SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
			FuseQKVProjections:       m.Encoder.FuseQKVProjections}
	}
	return b, nil
}

func limits(c Config) classify.Limits {
	return classify.Limits{VocabSize: c.VocabSize, TypeVocabSize: c.TypeVocabSize,
		MaxLength: c.MaxPositions - *c.PadTokenID - 1, PadTokenID: *c.PadTokenID, CountedPositions: true}
}
