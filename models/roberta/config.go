package roberta

import (
	"fmt"
	"path/filepath"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model. The zero value is transformers' RobertaConfig(); roberta-base has 514
// positions, one token type and an epsilon of 1e-5.
type Config = transformer.Config

// Head describes the classifier; the zero value takes what config.json says.
type Head = classify.Head

var kind = transformer.Kind{Type: "roberta", Architecture: "RobertaForSequenceClassification", VocabSize: 50265,
	PadTokenID: 1}

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) {
	d, err := pretrained.ReadConfig(dir)
	if err != nil {
		return Config{}, err
	}
	c, err := transformer.DecodeConfig(d, kind)
	if err != nil {
		return Config{}, fmt.Errorf("roberta: %s: %w", filepath.Join(dir, pretrained.ConfigName), err)
	}
	return c, nil
}

// xlm is XLM-RoBERTa: RoBERTa under another name, of another vocabulary.
var xlm = transformer.Kind{Type: "xlm-roberta", Architecture: "XLMRobertaForSequenceClassification", VocabSize: 30522,
	PadTokenID: 1}

// resolved fills in the defaults. Positions cannot be counted without a padding token.
func resolved(c Config, k transformer.Kind) (Config, error) {
	c, err := c.Resolved(k)
	if err == nil {
		err = c.CountedPositions()
	}
	return c, err
}

// Blueprint is the encoder that a config.json describes, of RoBERTa or XLM-RoBERTa, for the heads
// of package auto. What the head leaves open is what the file says.
func Blueprint(d pretrained.Document, h Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	k, class := kind, "Roberta"
	if string(d["model_type"]) == `"xlm-roberta"` {
		k, class = xlm, "XLMRoberta"
	}
	c, err := transformer.DecodeConfig(d, k)
	if err != nil {
		return b, err
	}
	c.Head, c.Attention = h.Over(c.Head), a
	if c, err = resolved(c, k); err != nil {
		return b, err
	}
	b = c.Blueprint(k, class, "roberta")
	b.Limits = limits(c)
	b.Build = func(builder transformer.Builder, _ bool) transformer.Backbone {
		m := newModel(c, builder)
		return transformer.Backbone{Module: m, Forward: m.Forward, InputEmbeddings: m.Embeddings.Word,
			SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing}
	}
	return b, nil
}

func limits(c Config) classify.Limits {
	return classify.Limits{VocabSize: c.VocabSize, TypeVocabSize: c.TypeVocabSize,
		MaxLength: c.MaxPositions - *c.PadTokenID - 1, PadTokenID: *c.PadTokenID}
}
