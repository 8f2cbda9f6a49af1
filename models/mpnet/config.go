package mpnet

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers. The zero value is MPNetConfig();
// mpnet-base has 514 positions and an epsilon of 1e-5.
type Config struct {
	transformer.Config
	Buckets int64 // relative_attention_num_buckets, at least 32; zero: 32
}

// paddingIdx is the padding token, whatever the config says, as in transformers.
const paddingIdx = int64(1)

var kind = transformer.Kind{Type: "mpnet", Architecture: "MPNetForSequenceClassification", VocabSize: 30527,
	PadTokenID: paddingIdx}

func (c *Config) field() []pretrained.Field {
	return []pretrained.Field{{Key: "relative_attention_num_buckets", Value: &c.Buckets}}
}

func decode(d pretrained.Document) (c Config, err error) {
	if c.Config, err = transformer.DecodeConfig(d, kind); err != nil {
		return c, err
	}
	return c, c.Extra.Decode(c.field())
}

func (c Config) resolved() (_ Config, err error) {
	if c.Attention == transformer.SDPA {
		return c, fmt.Errorf("MPNet adds numbers for distances to its scores and has the attention implementation %q "+
			"alone; leave it open", transformer.Eager)
	}
	c.Attention = transformer.Eager
	if c.Config, err = c.Resolved(kind); err != nil {
		return c, err
	}
	if c.Buckets == 0 {
		c.Buckets = 32
	}
	switch {
	case c.Buckets < 32:
		return c, fmt.Errorf("relative_attention_num_buckets is %d; want at least 32, the classes of distances that "+
			"there are", c.Buckets)
	case *c.PadTokenID != paddingIdx:
		return c, fmt.Errorf("pad_token_id is %d; MPNet's is %d", *c.PadTokenID, paddingIdx)
	}
	return c, c.CountedPositions()
}

func (c Config) document(architecture string) (pretrained.Document, error) {
	d, err := c.Document(kind, architecture)
	if err != nil {
		return nil, err
	}
	delete(d, "type_vocab_size") // MPNet has neither setting
	delete(d, "classifier_dropout")
	return d, d.Encode(c.field())
}

// Blueprint returns the encoder described by a config.json, for the heads of package auto. Zero
// fields of the head are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Head, c.Attention, c.ClassifierDropout = h.Over(c.Head), a, nil
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	b = c.Blueprint(kind, "MPNet", "mpnet")
	b.Limits = inputs.Limits{VocabSize: c.VocabSize, MaxLength: c.MaxPositions - paddingIdx - 1, PadTokenID: paddingIdx,
		CountedPositions: true}
	b.Document = c.document
	b.Build = func(builder transformer.Builder, _ bool) transformer.Backbone {
		m := newModel(c, builder)
		return transformer.Backbone{Module: m, InputEmbeddings: m.Embeddings.Word, Pool: m.Pooler.Forward,
			Forward:                  func(ids, mask, _ torch.Tensor) torch.Tensor { return m.Forward(ids, mask) },
			SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing}
	}
	return b, nil
}
