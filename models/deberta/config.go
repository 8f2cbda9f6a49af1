package deberta

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers. The zero value is DebertaV2Config(),
// whose attention is not disentangled. deberta-v3-base has RelativeAttention, both of PosAttType,
// ShareAttKey, 256 PositionBuckets, NormRelEbd "layer_norm" and no PositionBiasedInput.
type Config struct {
	// The defaults are: VocabSize 128100, HiddenSize 1536, NumLayers and NumHeads 24,
	// IntermediateSize 6144, TypeVocabSize 0 and LayerNormEps 1e-7.
	transformer.Config

	RelativeAttention bool // attention depends on distances, as PosAttType says
	// c2p: scores of the query and the distance; p2c: of the distance and the key
	PosAttType posAttType
	// greater distances count as this one; below 1: MaxPositions
	MaxRelativePositions int64
	// number of classes of distances in each direction; below 1: each distance has its own
	PositionBuckets int64
	// embeddings of distances go through the layers of the tokens instead of their own
	ShareAttKey bool
	NormRelEbd  string // layer_norm: normalises the embeddings of distances; empty: nothing does

	PositionBiasedInput *bool // adds embeddings of positions to those of tokens; nil: true
	EmbeddingSize       int64 // of the token embedding; zero: HiddenSize

	ConvKernelSize int64  // of a convolution parallel to the first layer; zero: there is none
	ConvGroups     int64  // zero: 1
	ConvAct        string // zero: tanh

	PoolerDropout   float64  // before the pooler, which comes before the classifier of texts
	PoolerHiddenAct string   // of the pooler; zero: gelu
	ClsDropout      *float64 // before the classifier; nil: HiddenDropout

	Legacy *bool // masked words have BERT's head, as in the first versions of transformers; nil: true
}

var kind = transformer.Kind{Type: "deberta-v2", Architecture: "DebertaV2ForSequenceClassification", VocabSize: 128100,
	HiddenSize: 1536, NumHeads: 24, IntermediateSize: 6144}

// posAttType is a list or, in older files, a string such as "p2c|c2p".
type posAttType []string

func (p *posAttType) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err != nil {
		return json.Unmarshal(text, (*[]string)(p))
	}
	*p = parts(one)
	return nil
}

// parts splits a string such as "p2c|c2p".
func parts(text string) (list []string) {
	for part := range strings.SplitSeq(strings.ToLower(text), "|") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}

// fields returns optional settings of config.json, which also stay in Extra unchanged.
func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "relative_attention", Value: &c.RelativeAttention}, {Key: "pos_att_type", Value: &c.PosAttType},
		{Key: "max_relative_positions", Value: &c.MaxRelativePositions},
		{Key: "position_buckets", Value: &c.PositionBuckets}, {Key: "share_att_key", Value: &c.ShareAttKey},
		{Key: "norm_rel_ebd", Value: &c.NormRelEbd}, {Key: "position_biased_input", Value: &c.PositionBiasedInput},
		{Key: "embedding_size", Value: &c.EmbeddingSize}, {Key: "conv_kernel_size", Value: &c.ConvKernelSize},
		{Key: "conv_groups", Value: &c.ConvGroups}, {Key: "conv_act", Value: &c.ConvAct},
		{Key: "pooler_dropout", Value: &c.PoolerDropout}, {Key: "pooler_hidden_act", Value: &c.PoolerHiddenAct},
		{Key: "cls_dropout", Value: &c.ClsDropout}, {Key: "legacy", Value: &c.Legacy},
	}
}

func decode(d pretrained.Document) (c Config, err error) {
	if c.Config, err = transformer.DecodeConfig(d, kind); err != nil {
		return c, err
	}
	return c, maps.Clone(c.Extra).Decode(c.fields())
}

func (c Config) resolved() (_ Config, err error) {
	if c.Attention == transformer.SDPA {
		return c, fmt.Errorf("DeBERTa's scores are sums of several products, and it has the attention implementation %q "+
			"alone; leave it open", transformer.Eager)
	}
	c.Attention = transformer.Eager
	c.NumLayers, c.LayerNormEps = cmp.Or(c.NumLayers, 24), cmp.Or(c.LayerNormEps, 1e-7)
	types := c.TypeVocabSize // may be 0
	if types < 0 {
		return c, fmt.Errorf("TypeVocabSize is %d; want at least 0", types)
	}
	if c.Config, err = c.Resolved(kind); err != nil {
		return c, err
	}
	c.TypeVocabSize = types
	c.ConvAct, c.PoolerHiddenAct = cmp.Or(c.ConvAct, "tanh"), cmp.Or(c.PoolerHiddenAct, "gelu")
	if c.PositionBiasedInput == nil {
		c.PositionBiasedInput = new(true)
	}
	if c.Legacy == nil {
		c.Legacy = new(true)
	}
	if c.ClsDropout == nil {
		c.ClsDropout = c.HiddenDropout
	}
	if c.MaxRelativePositions < 1 {
		c.MaxRelativePositions = c.MaxPositions
	}
	if err := cmp.Or(
		transformer.Positive("EmbeddingSize", &c.EmbeddingSize, c.HiddenSize),
		transformer.Positive("ConvGroups", &c.ConvGroups, 1),
	); err != nil {
		return c, err
	}
	return c, cmp.Or(c.checkAttention(), c.checkRest())
}

func (c Config) checkAttention() error {
	strange := func(kind string) bool { return kind != "c2p" && kind != "p2c" }
	middle := c.PositionBuckets / 2
	switch {
	case slices.ContainsFunc(c.PosAttType, strange):
		return fmt.Errorf(`pos_att_type is %q; want "c2p" and "p2c"`, []string(c.PosAttType))
	case c.RelativeAttention && len(c.PosAttType) == 0:
		return fmt.Errorf(`relative_attention is true without a pos_att_type; want "c2p", "p2c" or both`)
	case c.PositionBuckets == 1 || c.PositionBuckets > 1 && c.MaxRelativePositions-1 <= middle:
		return fmt.Errorf("position_buckets is %d for distances up to %d; want at least 2, whose half is less than the "+
			"largest distance", c.PositionBuckets, c.MaxRelativePositions-1)
	}
	for _, part := range parts(cmp.Or(c.NormRelEbd, "none")) {
		if part != "none" && part != "layer_norm" {
			return fmt.Errorf(`norm_rel_ebd is %q; want "none" or "layer_norm"`, c.NormRelEbd)
		}
	}
	return nil
}

func (c Config) checkRest() error {
	for name, p := range map[string]*float64{"pooler_dropout": &c.PoolerDropout, "cls_dropout": c.ClsDropout} {
		if err := transformer.CheckProbability(name, p); err != nil {
			return err
		}
	}
	for name, act := range map[string]string{"conv_act": c.ConvAct, "pooler_hidden_act": c.PoolerHiddenAct} {
		if _, err := transformer.ActivationByName(act); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for key, want := range map[string]int64{"attention_head_size": c.HiddenSize / c.NumHeads,
		"pooler_hidden_size": c.HiddenSize} {
		if err := c.Extra.Demand(key, "null", fmt.Sprint(want)); err != nil {
			return err
		}
	}
	switch k := c.ConvKernelSize; {
	case k < 0 || k > 0 && k%2 == 0:
		return fmt.Errorf("conv_kernel_size is %d; want an odd number, or 0 for no convolution", k)
	case c.HiddenSize%c.ConvGroups != 0:
		return fmt.Errorf("conv_groups is %d, which do not divide hidden_size, %d", c.ConvGroups, c.HiddenSize)
	case !*c.Legacy && c.EmbeddingSize != c.HiddenSize:
		return fmt.Errorf("embedding_size is %d and hidden_size %d; a model without legacy wants them to be equal",
			c.EmbeddingSize, c.HiddenSize)
	}
	return nil
}

// normalised reports whether the embeddings of relative positions go through a layer norm.
func (c Config) normalised() bool { return slices.Contains(parts(c.NormRelEbd), "layer_norm") }

// span returns the number of relative position embeddings for each direction.
func (c Config) span() int64 {
	if c.PositionBuckets > 0 {
		return c.PositionBuckets
	}
	return c.MaxRelativePositions
}

func (c Config) document(architecture string) (pretrained.Document, error) {
	d, err := c.Document(kind, architecture)
	delete(d, "classifier_dropout") // DeBERTa has cls_dropout instead
	return d, err
}

// Blueprint returns the encoder described by a config.json, for package auto. Zero fields of the
// head are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Head, c.Attention, c.ClassifierDropout = h.Over(c.Head), a, nil
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	b = c.Blueprint(kind, "DebertaV2", "deberta")
	b.EmbeddingSize = c.EmbeddingSize
	b.Limits = inputs.Limits{VocabSize: c.VocabSize, TypeVocabSize: c.TypeVocabSize, MaxLength: c.MaxPositions,
		PadTokenID: max(0, *c.PadTokenID)}
	b.Heads = map[string]func(transformer.Builder) transformer.Head{
		"ForSequenceClassification": func(b transformer.Builder) transformer.Head { return newClassifier(c, b) },
		"ForMultipleChoice":         func(b transformer.Builder) transformer.Head { return newChooser(c, b) },
	}
	if !*c.Legacy {
		b.Heads["ForMaskedLM"] = func(b transformer.Builder) transformer.Head { return newMasked(c, b) }
	}
	b.Document = c.document
	b.Build = func(builder transformer.Builder, _ bool) transformer.Backbone {
		m := newModel(c, builder)
		return transformer.Backbone{Module: m, Forward: m.Forward, InputEmbeddings: m.Embeddings.Word,
			SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing}
	}
	return b, nil
}

// activation returns an activation whose name has been checked.
func activation(name string) transformer.Activation {
	a, err := transformer.ActivationByName(name)
	if err != nil {
		panic(torch.Errorf("deberta.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	return a
}
