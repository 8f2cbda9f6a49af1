package bart

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model with the settings of transformers' BartConfig and MBartConfig. A zero
// field means its default, which is that of bart-large.
type Config struct {
	// Type is model_type: "bart" or "mbart". Zero: bart.
	Type string

	VocabSize    int64 // zero: 50265
	HiddenSize   int64 // d_model; zero: 1024
	MaxPositions int64 // max_position_embeddings, the largest number of tokens of a text; zero: 1024

	EncoderLayers, DecoderLayers                 int64 // zero: 12
	EncoderAttentionHeads, DecoderAttentionHeads int64 // zero: 16
	EncoderFFNDim, DecoderFFNDim                 int64 // of the feed-forward parts; zero: 4096

	ActivationFunction string  // see [transformer.ActivationByName]; zero: gelu
	InitStd            float64 // standard deviation of the initial weights; zero: 0.02
	// ScaleEmbedding multiplies the token embeddings by the square root of HiddenSize.
	ScaleEmbedding bool

	Dropout           *float64 // nil: 0.1
	AttentionDropout  float64  // of the attention weights
	ActivationDropout float64  // after the activation function
	ClassifierDropout float64  // classifier_dropout, in the head of a classifier
	// EncoderLayerdrop and DecoderLayerdrop are the probabilities with which a layer is left out of
	// a pass in training.
	EncoderLayerdrop, DecoderLayerdrop float64

	PadTokenID  *int64  // fills up batches; its embedding starts as zero and is not trained; nil: 1
	BOSTokenID  *int64  // nil: 0
	EOSTokenIDs []int64 // end a text; nil: 2
	// DecoderStartTokenID is the first token of every generated text; nil: 2, or in mbart
	// BOSTokenID. In training, a target text of mbart starts with its own last token instead.
	DecoderStartTokenID *int64
	// ForcedEOSTokenIDs are tokens of which one ends a generated text when it reaches its largest
	// length, unless generation_config.json says otherwise; nil: EOSTokenIDs; empty: none.
	ForcedEOSTokenIDs []int64

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// classes are the prefixes of transformers' class names by model_type.
var classes = map[string]string{"bart": "Bart", "mbart": "MBart"}

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) { return pretrained.ReadConfigAs(dir, "bart", decode) }

func (c *Config) fields() []pretrained.Field {
	float := func(f *float64) any { return (*pretrained.Float)(f) }
	return []pretrained.Field{
		{Key: "model_type", Value: &c.Type}, {Key: "vocab_size", Value: &c.VocabSize}, {Key: "d_model", Value: &c.HiddenSize},
		{Key: "max_position_embeddings", Value: &c.MaxPositions},
		{Key: "encoder_layers", Value: &c.EncoderLayers}, {Key: "decoder_layers", Value: &c.DecoderLayers},
		{Key: "encoder_attention_heads", Value: &c.EncoderAttentionHeads},
		{Key: "decoder_attention_heads", Value: &c.DecoderAttentionHeads},
		{Key: "encoder_ffn_dim", Value: &c.EncoderFFNDim}, {Key: "decoder_ffn_dim", Value: &c.DecoderFFNDim},
		{Key: "activation_function", Value: &c.ActivationFunction}, {Key: "init_std", Value: float(&c.InitStd)},
		{Key: "scale_embedding", Value: &c.ScaleEmbedding}, {Key: "dropout", Value: &c.Dropout},
		{Key: "attention_dropout", Value: float(&c.AttentionDropout)},
		{Key: "activation_dropout", Value: float(&c.ActivationDropout)},
		{Key: "classifier_dropout", Value: float(&c.ClassifierDropout)},
		{Key: "encoder_layerdrop", Value: float(&c.EncoderLayerdrop)},
		{Key: "decoder_layerdrop", Value: float(&c.DecoderLayerdrop)},
		{Key: "pad_token_id", Value: &c.PadTokenID}, {Key: "bos_token_id", Value: &c.BOSTokenID},
		{Key: "eos_token_id", Value: (*pretrained.TokenIDs)(&c.EOSTokenIDs)},
		{Key: "decoder_start_token_id", Value: &c.DecoderStartTokenID},
		{Key: "forced_eos_token_id", Value: (*pretrained.TokenIDs)(&c.ForcedEOSTokenIDs)},
	}
}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	for key, wanted := range map[string]string{"is_decoder": "false", "is_encoder_decoder": "true",
		"tie_word_embeddings": "true", "tie_encoder_decoder": "false", "quantization_config": "null"} {
		if err := d.Demand(key, wanted); err != nil {
			return c, err
		}
	}
	if err := d.UseOwnNames(map[string]string{"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
		"num_hidden_layers": "encoder_layers"}); err != nil {
		return c, err
	}
	c.ForcedEOSTokenIDs = []int64{} // files without the setting mean none
	if err := d.Decode(c.fields()); err != nil {
		return c, err
	}
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	c.Type = cmp.Or(c.Type, "bart")
	if classes[c.Type] == "" {
		return c, fmt.Errorf("model_type is %q; want one of %q", c.Type, slices.Sorted(maps.Keys(classes)))
	}
	for _, n := range []struct {
		name  string
		value *int64
		usual int64
	}{
		{"VocabSize", &c.VocabSize, 50265}, {"HiddenSize", &c.HiddenSize, 1024}, {"MaxPositions", &c.MaxPositions, 1024},
		{"EncoderLayers", &c.EncoderLayers, 12}, {"DecoderLayers", &c.DecoderLayers, 12},
		{"EncoderAttentionHeads", &c.EncoderAttentionHeads, 16},
		{"DecoderAttentionHeads", &c.DecoderAttentionHeads, 16},
		{"EncoderFFNDim", &c.EncoderFFNDim, 4096}, {"DecoderFFNDim", &c.DecoderFFNDim, 4096},
	} {
		if err := transformer.Positive(n.name, n.value, n.usual); err != nil {
			return c, err
		}
	}
	if c.Dropout == nil {
		c.Dropout = new(0.1)
	}
	if err := cmp.Or(
		transformer.Positive("InitStd", &c.InitStd, 0.02),
		transformer.CheckLayers(c.EncoderLayers), transformer.CheckLayers(c.DecoderLayers),
		transformer.CheckProbability("Dropout", c.Dropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("ActivationDropout", &c.ActivationDropout),
		transformer.CheckProbability("ClassifierDropout", &c.ClassifierDropout),
		transformer.CheckProbability("EncoderLayerdrop", &c.EncoderLayerdrop),
		transformer.CheckProbability("DecoderLayerdrop", &c.DecoderLayerdrop),
	); err != nil {
		return c, err
	}
	for name, heads := range map[string]int64{"EncoderAttentionHeads": c.EncoderAttentionHeads,
		"DecoderAttentionHeads": c.DecoderAttentionHeads} {
		if c.HiddenSize%heads != 0 {
			return c, fmt.Errorf("HiddenSize is %d, which is no multiple of %s, %d", c.HiddenSize, name, heads)
		}
	}
	if c, err = c.withTokens(); err != nil {
		return c, err
	}
	if _, err := transformer.ActivationByName(c.ActivationFunction); err != nil {
		return c, fmt.Errorf("ActivationFunction: %w", err)
	}
	c.ActivationFunction = cmp.Or(c.ActivationFunction, "gelu")
	c.Attention, err = c.Attention.Resolved()
	return c, err
}

// withTokens fills in and checks the special tokens.
func (c Config) withTokens() (Config, error) {
	c.PadTokenID, c.BOSTokenID = cmp.Or(c.PadTokenID, new(int64(1))), cmp.Or(c.BOSTokenID, new(int64(0)))
	if c.Type == "bart" {
		c.DecoderStartTokenID = cmp.Or(c.DecoderStartTokenID, new(int64(2)))
	}
	if c.EOSTokenIDs == nil {
		c.EOSTokenIDs = []int64{2}
	}
	if c.ForcedEOSTokenIDs == nil {
		c.ForcedEOSTokenIDs = c.EOSTokenIDs
	}
	for _, t := range []struct {
		name string
		ids  []int64
	}{
		{"PadTokenID", []int64{*c.PadTokenID}}, {"DecoderStartTokenID", []int64{c.start()}},
		{"EOSTokenIDs", c.EOSTokenIDs}, {"ForcedEOSTokenIDs", c.ForcedEOSTokenIDs},
	} {
		for _, id := range t.ids {
			if id < 0 || id >= c.VocabSize {
				return c, fmt.Errorf("%s has the token %d; want ids below VocabSize, %d", t.name, id, c.VocabSize)
			}
		}
	}
	return c, nil
}

// start is the first token of a generated text.
func (c Config) start() int64 { return *cmp.Or(c.DecoderStartTokenID, c.BOSTokenID) }

// embeddingScale is the factor of the token embeddings.
func (c Config) embeddingScale() float64 {
	if c.ScaleEmbedding {
		return math.Sqrt(float64(c.HiddenSize))
	}
	return 1
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	fields := append(c.fields(), pretrained.Field{Key: "is_encoder_decoder", Value: new(true)})
	if err := d.EncodeModel(c.Type, architecture, fields); err != nil {
		return nil, fmt.Errorf("bart: %w", err)
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
	class, head := classes[c.Type], classify.Head{}
	if c.Type == "bart" {
		head.NumLabels = 3 // of a file without labels
	}
	return transformer.Blueprint{
		ModelType: c.Type, Class: class, Prefix: "model", LanguageModel: class + "ForConditionalGeneration",
		HiddenSize: c.HiddenSize, EmbeddingSize: c.HiddenSize, InitializerRange: c.InitStd, EOSTokenIDs: c.EOSTokenIDs,
		ClassifierDropout: c.ClassifierDropout, Head: head,
		NoWeights: []string{"encoder.version", "decoder.version"},
		Pair:      true, DecoderStartTokenID: c.start(), WrapsLabels: c.Type == "mbart", OutputScale: 1, LogitsBias: true,
		Limits:   inputs.Limits{VocabSize: c.VocabSize, MaxLength: c.MaxPositions, PadTokenID: *c.PadTokenID},
		Document: c.document,
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, InputEmbeddings: m.Shared, Forward: m.Represent, Encode: m.Encode,
				ForwardPair: m.Forward, DecodePair: m.Decode,
				SetGradientCheckpointing: func(on bool) { m.Encoder.checkpointing, m.Decoder.checkpointing = on, on }}
		},
	}, nil
}
