package t5

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model with the settings of transformers' T5Config and MT5Config. A zero field
// means its default, which is that of t5-small or, if Type is mt5, of mt5-small.
type Config struct {
	// Type is model_type: "t5" or "mt5". Zero: t5. The two differ in their defaults, and mt5 never
	// scales its outputs.
	Type string

	VocabSize        int64 // zero: 32128; of mt5 250112
	HiddenSize       int64 // d_model; zero: 512
	KeyValueSize     int64 // d_kv, of a head; zero: 64
	FeedForwardSize  int64 // d_ff; zero: 2048; of mt5 1024
	NumLayers        int64 // of the encoder; zero: 6; of mt5 8
	NumDecoderLayers int64 // zero: NumLayers
	NumHeads         int64 // zero: 8; of mt5 6

	// RelativeAttentionNumBuckets is the number of classes of distances between tokens; distances
	// from RelativeAttentionMaxDistance on are in the last class. Zero: 32 and 128.
	RelativeAttentionNumBuckets, RelativeAttentionMaxDistance int64

	Dropout           *float64 // dropout_rate; nil: 0.1
	LayerNormEps      float64  // layer_norm_epsilon; zero: 1e-6
	InitializerFactor float64  // factor of the standard deviations of the initial weights; zero: 1
	// FeedForward is feed_forward_proj: "relu", or "gated-gelu", whose output is multiplied by a
	// gate. Empty: relu; of mt5 gated-gelu.
	FeedForward string
	// UnscaledOutputs does not divide the last hidden states by the square root of HiddenSize, as
	// in T5 1.1, whose files have tie_word_embeddings: false, and always in mt5.
	UnscaledOutputs bool

	PadTokenID          *int64  // fills up batches; nil: 0
	DecoderStartTokenID *int64  // first token of every generated text; nil: PadTokenID
	EOSTokenIDs         []int64 // end a text; nil: 1

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// longest is the maximum number of tokens of a text; T5's positions are relative and impose no
// limit.
const longest = 1 << 20

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) { return pretrained.ReadConfigAs(dir, "t5", decode) }

// defaults are those of a model_type.
type defaults struct {
	class                                           string
	vocabSize, feedForwardSize, numLayers, numHeads int64
	feedForward                                     string
}

var defaultsOf = map[string]defaults{
	"t5":  {"T5", 32128, 2048, 6, 8, "relu"},
	"mt5": {"MT5", 250112, 1024, 8, 6, "gated-gelu"},
}

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "model_type", Value: &c.Type}, {Key: "vocab_size", Value: &c.VocabSize}, {Key: "d_model", Value: &c.HiddenSize},
		{Key: "d_kv", Value: &c.KeyValueSize}, {Key: "d_ff", Value: &c.FeedForwardSize},
		{Key: "num_layers", Value: &c.NumLayers}, {Key: "num_decoder_layers", Value: &c.NumDecoderLayers},
		{Key: "num_heads", Value: &c.NumHeads}, {Key: "dropout_rate", Value: &c.Dropout},
		{Key: "relative_attention_num_buckets", Value: &c.RelativeAttentionNumBuckets},
		{Key: "relative_attention_max_distance", Value: &c.RelativeAttentionMaxDistance},
		{Key: "layer_norm_epsilon", Value: &c.LayerNormEps},
		{Key: "initializer_factor", Value: (*pretrained.Float)(&c.InitializerFactor)},
		{Key: "feed_forward_proj", Value: &c.FeedForward}, {Key: "pad_token_id", Value: &c.PadTokenID},
		{Key: "decoder_start_token_id", Value: &c.DecoderStartTokenID},
		{Key: "eos_token_id", Value: (*pretrained.TokenIDs)(&c.EOSTokenIDs)},
	}
}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	for key, wanted := range map[string]string{"is_decoder": "false", "is_encoder_decoder": "true",
		"quantization_config": "null"} {
		if err := d.Demand(key, wanted); err != nil {
			return c, err
		}
	}
	if err := d.UseOwnNames(map[string]string{"hidden_size": "d_model", "num_attention_heads": "num_heads",
		"num_hidden_layers": "num_layers", "head_dim": "d_kv"}); err != nil {
		return c, err
	}
	tied, scaled := true, true
	if err := d.Decode(append(c.fields(), pretrained.Field{Key: "tie_word_embeddings", Value: &tied},
		pretrained.Field{Key: "scale_decoder_outputs", Value: &scaled})); err != nil {
		return c, err
	}
	c.UnscaledOutputs = c.Type == "mt5" || !tied || !scaled
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	c.Type = cmp.Or(c.Type, "t5")
	usual, ok := defaultsOf[c.Type]
	if !ok {
		return c, fmt.Errorf("model_type is %q; want one of %q", c.Type, slices.Sorted(maps.Keys(defaultsOf)))
	}
	c.UnscaledOutputs = c.UnscaledOutputs || c.Type == "mt5"
	if err := cmp.Or(
		transformer.Positive("VocabSize", &c.VocabSize, usual.vocabSize),
		transformer.Positive("HiddenSize", &c.HiddenSize, 512),
		transformer.Positive("KeyValueSize", &c.KeyValueSize, 64),
		transformer.Positive("FeedForwardSize", &c.FeedForwardSize, usual.feedForwardSize),
		transformer.Positive("NumLayers", &c.NumLayers, usual.numLayers),
		transformer.Positive("NumHeads", &c.NumHeads, usual.numHeads),
		transformer.Positive("RelativeAttentionNumBuckets", &c.RelativeAttentionNumBuckets, 32),
		transformer.Positive("RelativeAttentionMaxDistance", &c.RelativeAttentionMaxDistance, 128),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("NumDecoderLayers", &c.NumDecoderLayers, c.NumLayers),
		transformer.Positive("LayerNormEps", &c.LayerNormEps, 1e-6),
		transformer.Positive("InitializerFactor", &c.InitializerFactor, 1),
		transformer.CheckLayers(c.NumLayers), transformer.CheckLayers(c.NumDecoderLayers),
	); err != nil {
		return c, err
	}
	if c.Dropout == nil {
		c.Dropout = new(0.1)
	}
	if err := transformer.CheckProbability("Dropout", c.Dropout); err != nil {
		return c, err
	}
	if c.PadTokenID == nil {
		c.PadTokenID = new(int64(0))
	}
	if c.DecoderStartTokenID == nil {
		c.DecoderStartTokenID = c.PadTokenID
	}
	if c.EOSTokenIDs == nil {
		c.EOSTokenIDs = []int64{1}
	}
	outside := func(id int64) bool { return id < 0 || id >= c.VocabSize }
	switch {
	case outside(*c.PadTokenID) || outside(*c.DecoderStartTokenID) || slices.ContainsFunc(c.EOSTokenIDs, outside):
		return c, fmt.Errorf("PadTokenID, DecoderStartTokenID and EOSTokenIDs are %d, %d and %d; want ids below "+
			"VocabSize, %d", *c.PadTokenID, *c.DecoderStartTokenID, c.EOSTokenIDs, c.VocabSize)
	case c.RelativeAttentionNumBuckets%4 != 0 || c.RelativeAttentionMaxDistance <= c.RelativeAttentionNumBuckets/2:
		return c, fmt.Errorf("RelativeAttentionNumBuckets is %d and RelativeAttentionMaxDistance %d; want a multiple of 4, "+
			"and more than half of it", c.RelativeAttentionNumBuckets, c.RelativeAttentionMaxDistance)
	}
	c.FeedForward = cmp.Or(c.FeedForward, usual.feedForward)
	if _, _, err := c.activation(); err != nil {
		return c, fmt.Errorf("FeedForward: %w", err)
	}
	c.Attention, err = c.Attention.Resolved()
	return c, err
}

// activation returns the activation function of the feed-forward layers, and whether they are
// gated.
func (c Config) activation() (f transformer.Activation, gated bool, err error) {
	name, gated := strings.CutPrefix(c.FeedForward, "gated-")
	if gated && name == "gelu" { // transformers does the same for old config files
		name = "gelu_new"
	}
	f, err = transformer.ActivationByName(name)
	return f, gated, err
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	scaled := !c.UnscaledOutputs
	fields := append(c.fields(), pretrained.Field{Key: "tie_word_embeddings", Value: &scaled},
		pretrained.Field{Key: "is_encoder_decoder", Value: new(true)})
	if c.Type == "t5" {
		fields = append(fields, pretrained.Field{Key: "scale_decoder_outputs", Value: &scaled})
	}
	if err := d.EncodeModel(c.Type, architecture, fields); err != nil {
		return nil, fmt.Errorf("t5: %w", err)
	}
	return d, nil
}

// Blueprint returns the model described by a config.json, for package auto.
func Blueprint(d pretrained.Document, _ classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Attention = a
	return c.Blueprint()
}

// Blueprint returns the model described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	class, scale := defaultsOf[c.Type].class, 1.0
	if !c.UnscaledOutputs {
		scale = 1 / sqrt(c.HiddenSize)
	}
	return transformer.Blueprint{
		ModelType: c.Type, Class: class, LanguageModel: class + "ForConditionalGeneration", HiddenSize: c.HiddenSize,
		EmbeddingSize: c.HiddenSize, InitializerRange: initializerRange, EOSTokenIDs: c.EOSTokenIDs,
		NoWeights: []string{"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"},
		Pair:      true, NoFloat16: true, DecoderStartTokenID: *c.DecoderStartTokenID, OutputScale: scale,
		Limits:   inputs.Limits{VocabSize: c.VocabSize, MaxLength: longest, PadTokenID: *c.PadTokenID},
		Document: c.document,
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, InputEmbeddings: m.Shared, Encode: m.Encode, ForwardPair: m.Forward,
				DecodePair: m.Decode, InitWeights: m.initWeights,
				SetGradientCheckpointing: func(on bool) { m.Encoder.checkpointing, m.Decoder.checkpointing = on, on }}
		},
	}, nil
}
