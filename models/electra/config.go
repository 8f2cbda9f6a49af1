package electra

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model with the settings of transformers. The zero value is electra-small.
type Config struct {
	transformer.Config
	EmbeddingSize int64 // zero: 128
	// SummaryLastDropout is before the layer that chooses among texts; nil: 0.1.
	SummaryLastDropout *float64
}

var kind = transformer.Kind{Type: "electra", Architecture: "ElectraForSequenceClassification", VocabSize: 30522,
	PadTokenID: 0, HiddenSize: 256, NumHeads: 4, IntermediateSize: 1024}

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{{Key: "embedding_size", Value: &c.EmbeddingSize},
		{Key: "summary_last_dropout", Value: &c.SummaryLastDropout}}
}

func decode(d pretrained.Document) (c Config, err error) {
	if c.Config, err = transformer.DecodeConfig(d, kind); err != nil {
		return c, err
	}
	return c, c.Extra.Decode(c.fields())
}

func (c Config) resolved() (_ Config, err error) {
	if c.Config, err = c.Resolved(kind); err != nil {
		return c, err
	}
	if c.EmbeddingSize == 0 {
		c.EmbeddingSize = 128
	}
	if c.EmbeddingSize < 1 {
		return c, fmt.Errorf("EmbeddingSize is %d; want a positive number", c.EmbeddingSize)
	}
	if c.SummaryLastDropout == nil {
		c.SummaryLastDropout = new(0.1)
	}
	if p := *c.SummaryLastDropout; !(p >= 0 && p < 1) {
		return c, fmt.Errorf("SummaryLastDropout is %g; want 0 <= SummaryLastDropout < 1", p)
	}
	return c, nil
}

func (c Config) document(architecture string) (pretrained.Document, error) {
	d, err := c.Document(kind, architecture)
	if err != nil {
		return nil, err
	}
	return d, d.Encode(c.fields())
}

// Blueprint returns the encoder described by a config.json, for the heads of package auto. Zero
// fields of the head are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Head, c.Attention = h.Over(c.Head), a
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	b = c.Blueprint(kind, "Electra", "electra")
	b.EmbeddingSize = c.EmbeddingSize
	b.Limits = inputs.Limits{VocabSize: c.VocabSize, TypeVocabSize: c.TypeVocabSize, MaxLength: c.MaxPositions,
		PadTokenID: max(0, *c.PadTokenID)}
	b.Document = c.document
	b.Heads = map[string]func(transformer.Builder) transformer.Head{
		"ForMultipleChoice": func(b transformer.Builder) transformer.Head { return newChooser(c, b) },
	}
	b.Build = func(builder transformer.Builder, _ bool) transformer.Backbone {
		m := newModel(c, builder)
		return transformer.Backbone{Module: m, Forward: m.Forward, ForwardPacked: m.ForwardPacked,
			InputEmbeddings: m.Embeddings.Word, SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
			FuseQKVProjections: m.Encoder.FuseQKVProjections}
	}
	return b, nil
}
