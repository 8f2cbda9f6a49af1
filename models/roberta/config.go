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

// resolved fills in the defaults. Positions cannot be counted without a padding token.
func resolved(c Config) (Config, error) {
	c, err := c.Resolved(kind)
	if err != nil {
		return c, err
	}
	if *c.PadTokenID < 0 {
		return c, fmt.Errorf("PadTokenID is -1, none; want one, from which positions are counted")
	}
	if c.MaxPositions <= *c.PadTokenID+1 {
		return c, fmt.Errorf("MaxPositions is %d; the first %d are not used, so want more", c.MaxPositions,
			*c.PadTokenID+1)
	}
	return c, nil
}
