package marian

import (
	"cmp"
	"fmt"
	"maps"
	"math"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model with the settings of transformers' MarianConfig. A zero field means its
// default there, which is that of no published model.
type Config struct {
	VocabSize        int64 // zero: 58101
	DecoderVocabSize int64 // decoder_vocab_size, of target texts; zero: VocabSize
	// ShareEncoderDecoderEmbeddings gives source and target texts one token embedding, and so one
	// vocabulary; nil: true. The output layer always has the weight of the decoder's embedding.
	ShareEncoderDecoderEmbeddings *bool

	HiddenSize   int64 // d_model; zero: 1024
	MaxPositions int64 // max_position_embeddings, the largest number of tokens of a text; zero: 1024

	EncoderLayers, DecoderLayers                 int64 // zero: 12
	EncoderAttentionHeads, DecoderAttentionHeads int64 // zero: 16
	EncoderFFNDim, DecoderFFNDim                 int64 // of the feed-forward parts; zero: 4096

	ActivationFunction string  // see [transformer.ActivationByName]; zero: gelu
	InitStd            float64 // standard deviation of the initial weights; zero: 0.02
	ScaleEmbedding     bool    // multiply the token embeddings by the square root of HiddenSize

	Dropout           *float64 // nil: 0.1
	AttentionDropout  float64  // of the attention weights
	ActivationDropout float64  // after the activation function
	// EncoderLayerdrop and DecoderLayerdrop are the probabilities with which a layer is left out of
	// a pass in training.
	EncoderLayerdrop, DecoderLayerdrop float64

	PadTokenID          *int64  // fills up batches; its embedding starts as zero and is not trained; nil: 58100
	EOSTokenIDs         []int64 // end a text; nil: 0
	DecoderStartTokenID *int64  // the first token of every target text; nil: 58100
	// ForcedEOSTokenIDs are tokens of which one ends a generated text when it reaches its largest
	// length, unless generation_config.json says otherwise; nil: 0; empty: none.
	ForcedEOSTokenIDs []int64

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// modelType is model_type of config.json.
const modelType = "marian"

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) { return pretrained.ReadConfigAs(dir, modelType, decode) }

func (c *Config) fields() []pretrained.Field {
	float := func(f *float64) any { return (*pretrained.Float)(f) }
	return []pretrained.Field{
		{Key: "vocab_size", Value: &c.VocabSize}, {Key: "decoder_vocab_size", Value: &c.DecoderVocabSize},
		{Key: "share_encoder_decoder_embeddings", Value: &c.ShareEncoderDecoderEmbeddings},
		{Key: "d_model", Value: &c.HiddenSize}, {Key: "max_position_embeddings", Value: &c.MaxPositions},
		{Key: "encoder_layers", Value: &c.EncoderLayers}, {Key: "decoder_layers", Value: &c.DecoderLayers},
		{Key: "encoder_attention_heads", Value: &c.EncoderAttentionHeads},
		{Key: "decoder_attention_heads", Value: &c.DecoderAttentionHeads},
		{Key: "encoder_ffn_dim", Value: &c.EncoderFFNDim}, {Key: "decoder_ffn_dim", Value: &c.DecoderFFNDim},
		{Key: "activation_function", Value: &c.ActivationFunction}, {Key: "init_std", Value: float(&c.InitStd)},
		{Key: "scale_embedding", Value: &c.ScaleEmbedding}, {Key: "dropout", Value: &c.Dropout},
		{Key: "attention_dropout", Value: float(&c.AttentionDropout)},
		{Key: "activation_dropout", Value: float(&c.ActivationDropout)},
		{Key: "encoder_layerdrop", Value: float(&c.EncoderLayerdrop)},
		{Key: "decoder_layerdrop", Value: float(&c.DecoderLayerdrop)},
		{Key: "pad_token_id", Value: &c.PadTokenID}, {Key: "eos_token_id", Value: (*pretrained.TokenIDs)(&c.EOSTokenIDs)},
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
	if string(d["forced_eos_token_id"]) == "null" { // a file that lacks the setting means the default
		c.ForcedEOSTokenIDs = []int64{}
	}
	if err := d.Decode(c.fields()); err != nil {
		return c, err
	}
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	for _, n := range []struct {
		name  string
		value *int64
		usual int64
	}{
		{"VocabSize", &c.VocabSize, 58101}, {"HiddenSize", &c.HiddenSize, 1024}, {"MaxPositions", &c.MaxPositions, 1024},
		{"EncoderLayers", &c.EncoderLayers, 12}, {"DecoderLayers", &c.DecoderLayers, 12},
		{"EncoderAttentionHeads", &c.EncoderAttentionHeads, 16},
		{"DecoderAttentionHeads", &c.DecoderAttentionHeads, 16},
		{"EncoderFFNDim", &c.EncoderFFNDim, 4096}, {"DecoderFFNDim", &c.DecoderFFNDim, 4096},
	} {
		if err := transformer.Positive(n.name, n.value, n.usual); err != nil {
			return c, err
		}
	}
	c.Dropout = cmp.Or(c.Dropout, new(0.1))
	c.ShareEncoderDecoderEmbeddings = cmp.Or(c.ShareEncoderDecoderEmbeddings, new(true))
	if err := cmp.Or(
		transformer.Positive("DecoderVocabSize", &c.DecoderVocabSize, c.VocabSize),
		transformer.Positive("InitStd", &c.InitStd, 0.02),
		transformer.CheckLayers(c.EncoderLayers), transformer.CheckLayers(c.DecoderLayers),
		transformer.CheckProbability("Dropout", c.Dropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("ActivationDropout", &c.ActivationDropout),
		transformer.CheckProbability("EncoderLayerdrop", &c.EncoderLayerdrop),
		transformer.CheckProbability("DecoderLayerdrop", &c.DecoderLayerdrop),
	); err != nil {
		return c, err
	}
	if *c.ShareEncoderDecoderEmbeddings && c.DecoderVocabSize != c.VocabSize {
		return c, fmt.Errorf("DecoderVocabSize is %d, but ShareEncoderDecoderEmbeddings says that source and target texts "+
			"share the %d tokens of VocabSize", c.DecoderVocabSize, c.VocabSize)
	}
	for name, heads := range map[string]int64{"EncoderAttentionHeads": c.EncoderAttentionHeads,
		"DecoderAttentionHeads": c.DecoderAttentionHeads} {
		if c.HiddenSize%heads != 0 {
			return c, fmt.Errorf("HiddenSize is %d, which is no multiple of %s, %d", c.HiddenSize, name, heads)
		}
	}
	const most = 1 << 30 // far more than any model has; positions are computed before a file can prove them wrong
	if float64(c.MaxPositions)*float64(c.HiddenSize) > most {
		return c, fmt.Errorf("MaxPositions is %d and HiddenSize %d; their product is at most %d", c.MaxPositions,
			c.HiddenSize, most)
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
	c.PadTokenID = cmp.Or(c.PadTokenID, new(int64(58100)))
	c.DecoderStartTokenID = cmp.Or(c.DecoderStartTokenID, new(int64(58100)))
	for _, ids := range []*[]int64{&c.EOSTokenIDs, &c.ForcedEOSTokenIDs} {
		if *ids == nil {
			*ids = []int64{0}
		}
	}
	all := min(c.VocabSize, c.DecoderVocabSize) // source texts have the first and the second of them, too
	for _, t := range []struct {
		name  string
		ids   []int64
		vocab int64
	}{
		{"PadTokenID", []int64{*c.PadTokenID}, all}, {"EOSTokenIDs", c.EOSTokenIDs, all},
		{"DecoderStartTokenID", []int64{*c.DecoderStartTokenID}, c.DecoderVocabSize},
		{"ForcedEOSTokenIDs", c.ForcedEOSTokenIDs, c.DecoderVocabSize},
	} {
		for _, id := range t.ids {
			if id < 0 || id >= t.vocab {
				return c, fmt.Errorf("%s has the token %d; want ids of the vocabulary of %d", t.name, id, t.vocab)
			}
		}
	}
	return c, nil
}

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
	if err := d.EncodeModel(modelType, architecture, fields); err != nil {
		return nil, fmt.Errorf("marian: %w", err)
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
	tied := "model.shared.weight"
	if !*c.ShareEncoderDecoderEmbeddings {
		tied = "model.decoder.embed_tokens.weight"
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "Marian", Prefix: "model", LanguageModel: "MarianMTModel",
		HiddenSize: c.HiddenSize, EmbeddingSize: c.HiddenSize, InitializerRange: c.InitStd, EOSTokenIDs: c.EOSTokenIDs,
		Pair: true, DecoderStartTokenID: *c.DecoderStartTokenID, OutputScale: 1, LogitsBias: true,
		TiedWeights: [2]string{tied, "lm_head.weight"},
		NoWeights:   []string{"embed_positions.weight"}, // which are computed
		Limits: inputs.Limits{VocabSize: c.VocabSize, TargetVocabSize: c.DecoderVocabSize, MaxLength: c.MaxPositions,
			PadTokenID: *c.PadTokenID},
		Document: c.document,
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, InputEmbeddings: m.Encoder.EmbedTokens,
				TiedEmbeddings: m.Decoder.EmbedTokens, Encode: m.Encode, ForwardPair: m.Forward, DecodePair: m.Decode,
				SetGradientCheckpointing: func(on bool) { m.Encoder.checkpointing, m.Decoder.checkpointing = on, on }}
		},
	}, nil
}
