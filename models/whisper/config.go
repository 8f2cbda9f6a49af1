package whisper

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/specaugment"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model with the settings of transformers' WhisperConfig. A zero field means its
// default there, which is a model of the size of whisper-tiny.
type Config struct {
	VocabSize  int64 // zero: 51865
	NumMelBins int64 // of the features; zero: 80
	HiddenSize int64 // d_model; zero: 384

	EncoderLayers, DecoderLayers                 int64 // zero: 4
	EncoderAttentionHeads, DecoderAttentionHeads int64 // zero: 6
	EncoderFFNDim, DecoderFFNDim                 int64 // of the feed-forward parts; zero: 1536

	// MaxSourcePositions is how long speech is, in units of two frames: always as long as this; zero:
	// 1500, which are 30 seconds. MaxTargetPositions is the largest number of tokens of a text; zero:
	// 448.
	MaxSourcePositions, MaxTargetPositions int64

	ActivationFunction string  // see [transformer.ActivationByName]; zero: gelu
	InitStd            float64 // standard deviation of the initial weights; zero: 0.02

	Dropout           float64
	AttentionDropout  float64 // of the attention weights
	ActivationDropout float64 // after the activation function
	// EncoderLayerdrop and DecoderLayerdrop are the probabilities with which a layer is left out of
	// a pass in training.
	EncoderLayerdrop, DecoderLayerdrop float64

	PadTokenID          *int64  // fills up batches; its embedding starts as zero; nil: 50256
	EOSTokenIDs         []int64 // end a text; nil: 50256
	DecoderStartTokenID *int64  // the first token of every text; nil: 50257
	// BeginSuppressTokens are not generated first, unless generation_config.json says otherwise; nil:
	// 220 and 50256; empty: none.
	BeginSuppressTokens []int64

	transformer.SpecAugment // over frames and bins of features

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// modelType is model_type of config.json.
const modelType = "whisper"

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) { return pretrained.ReadConfigAs(dir, modelType, decode) }

func (c *Config) fields() []pretrained.Field {
	float := func(f *float64) any { return (*pretrained.Float)(f) }
	fields := []pretrained.Field{
		{Key: "vocab_size", Value: &c.VocabSize}, {Key: "num_mel_bins", Value: &c.NumMelBins},
		{Key: "d_model", Value: &c.HiddenSize},
		{Key: "encoder_layers", Value: &c.EncoderLayers}, {Key: "decoder_layers", Value: &c.DecoderLayers},
		{Key: "encoder_attention_heads", Value: &c.EncoderAttentionHeads},
		{Key: "decoder_attention_heads", Value: &c.DecoderAttentionHeads},
		{Key: "encoder_ffn_dim", Value: &c.EncoderFFNDim}, {Key: "decoder_ffn_dim", Value: &c.DecoderFFNDim},
		{Key: "max_source_positions", Value: &c.MaxSourcePositions},
		{Key: "max_target_positions", Value: &c.MaxTargetPositions},
		{Key: "activation_function", Value: &c.ActivationFunction}, {Key: "init_std", Value: float(&c.InitStd)},
		{Key: "dropout", Value: float(&c.Dropout)}, {Key: "attention_dropout", Value: float(&c.AttentionDropout)},
		{Key: "activation_dropout", Value: float(&c.ActivationDropout)},
		{Key: "encoder_layerdrop", Value: float(&c.EncoderLayerdrop)},
		{Key: "decoder_layerdrop", Value: float(&c.DecoderLayerdrop)},
		{Key: "pad_token_id", Value: &c.PadTokenID},
		{Key: "eos_token_id", Value: (*pretrained.TokenIDs)(&c.EOSTokenIDs)},
		{Key: "decoder_start_token_id", Value: &c.DecoderStartTokenID},
	}
	return append(fields, specaugment.Fields(&c.SpecAugment)...)
}

// beginSuppressKey is the setting that is null where there are no tokens.
const beginSuppressKey = "begin_suppress_tokens"

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := cmp.Or(d.Demand("model_type", `"`+modelType+`"`), d.Demand("is_decoder", "false"),
		d.Demand("is_encoder_decoder", "true"), d.Demand("tie_word_embeddings", "true"),
		d.Demand("quantization_config", "null"),
		d.UseOwnNames(map[string]string{"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
			"num_key_value_heads": "encoder_attention_heads", "num_hidden_layers": "encoder_layers"})); err != nil {
		return c, err
	}
	_, given := d[beginSuppressKey]
	if err := d.Decode(append(c.fields(), pretrained.Field{Key: beginSuppressKey,
		Value: &c.BeginSuppressTokens})); err != nil {
		return c, err
	}
	if given && c.BeginSuppressTokens == nil {
		c.BeginSuppressTokens = []int64{}
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
		{"VocabSize", &c.VocabSize, 51865}, {"NumMelBins", &c.NumMelBins, 80}, {"HiddenSize", &c.HiddenSize, 384},
		{"EncoderLayers", &c.EncoderLayers, 4}, {"DecoderLayers", &c.DecoderLayers, 4},
		{"EncoderAttentionHeads", &c.EncoderAttentionHeads, 6}, {"DecoderAttentionHeads", &c.DecoderAttentionHeads, 6},
		{"EncoderFFNDim", &c.EncoderFFNDim, 1536}, {"DecoderFFNDim", &c.DecoderFFNDim, 1536},
		{"MaxSourcePositions", &c.MaxSourcePositions, 1500}, {"MaxTargetPositions", &c.MaxTargetPositions, 448},
	} {
		if err := transformer.Positive(n.name, n.value, n.usual); err != nil {
			return c, err
		}
	}
	if err := cmp.Or(
		transformer.Positive("InitStd", &c.InitStd, 0.02),
		transformer.CheckLayers(c.EncoderLayers), transformer.CheckLayers(c.DecoderLayers),
		transformer.CheckProbability("Dropout", &c.Dropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("ActivationDropout", &c.ActivationDropout),
		transformer.CheckProbability("EncoderLayerdrop", &c.EncoderLayerdrop),
		transformer.CheckProbability("DecoderLayerdrop", &c.DecoderLayerdrop),
		specaugment.Resolve(&c.SpecAugment, false, "NumMelBins", c.NumMelBins),
	); err != nil {
		return c, err
	}
	for name, heads := range map[string]int64{"EncoderAttentionHeads": c.EncoderAttentionHeads,
		"DecoderAttentionHeads": c.DecoderAttentionHeads} {
		if c.HiddenSize%heads != 0 {
			return c, fmt.Errorf("HiddenSize is %d, which is no multiple of %s, %d", c.HiddenSize, name, heads)
		}
	}
	const most = 1 << 30 // far more than any model has; sizes are multiplied before a file can prove them wrong
	switch {
	case c.HiddenSize < 4 || c.HiddenSize%2 != 0:
		return c, fmt.Errorf("HiddenSize is %d; want an even number of at least 4, for sines and cosines", c.HiddenSize)
	case float64(c.MaxSourcePositions)*float64(max(c.HiddenSize, stride*c.NumMelBins)) > most:
		return c, fmt.Errorf("MaxSourcePositions is %d, HiddenSize %d and NumMelBins %d; the first times the second, or "+
			"times twice the third, is at most %d", c.MaxSourcePositions, c.HiddenSize, c.NumMelBins, most)
	}
	if frames := stride * c.MaxSourcePositions; *c.ApplySpecAugment && *c.MaskTimeProb > 0 && c.MaskTimeLength > frames {
		return c, fmt.Errorf("MaskTimeLength is %d; want at most twice MaxSourcePositions, %d frames", c.MaskTimeLength,
			frames)
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
	c.PadTokenID = cmp.Or(c.PadTokenID, new(int64(50256)))
	c.DecoderStartTokenID = cmp.Or(c.DecoderStartTokenID, new(int64(50257)))
	if c.EOSTokenIDs == nil {
		c.EOSTokenIDs = []int64{50256}
	}
	if c.BeginSuppressTokens == nil {
		c.BeginSuppressTokens = []int64{220, 50256}
	}
	for _, t := range []struct {
		name string
		ids  []int64
	}{
		{"PadTokenID", []int64{*c.PadTokenID}}, {"DecoderStartTokenID", []int64{*c.DecoderStartTokenID}},
		{"EOSTokenIDs", c.EOSTokenIDs}, {"BeginSuppressTokens", c.BeginSuppressTokens},
	} {
		for _, id := range t.ids {
			if id < 0 || id >= c.VocabSize {
				return c, fmt.Errorf("%s has the token %d; want ids below VocabSize, %d", t.name, id, c.VocabSize)
			}
		}
	}
	return c, nil
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	begin := &c.BeginSuppressTokens
	if len(*begin) == 0 {
		begin = nil
	}
	fields := append(c.fields(), pretrained.Field{Key: beginSuppressKey, Value: &begin},
		pretrained.Field{Key: "is_encoder_decoder", Value: new(true)})
	if err := d.EncodeModel(modelType, architecture, fields); err != nil {
		return nil, fmt.Errorf("whisper: %w", err)
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
	return transformer.Blueprint{
		ModelType: modelType, Class: "Whisper", Prefix: "model", LanguageModel: "WhisperForConditionalGeneration",
		HiddenSize: c.HiddenSize, EmbeddingSize: c.HiddenSize, InitializerRange: c.InitStd, EOSTokenIDs: c.EOSTokenIDs,
		Pair: true, DecoderStartTokenID: *c.DecoderStartTokenID, OutputScale: 1,
		TiedWeights: [2]string{"model.decoder.embed_tokens.weight", "proj_out.weight"},
		Limits:      inputs.Limits{VocabSize: c.VocabSize, MaxLength: c.MaxTargetPositions, PadTokenID: *c.PadTokenID},
		Speech:      inputs.SpeechLimits{Bins: c.NumMelBins, Frames: stride * c.MaxSourcePositions},
		Untrained:   []string{"model.encoder.embed_positions.weight"},
		Heads: map[string]func(b transformer.Builder) transformer.Head{
			"ForSpeechSeq2Seq": func(b transformer.Builder) transformer.Head {
				return &Head{b.LinearNoBias(c.HiddenSize, c.VocabSize)}
			}},
		Document: c.document,
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, InputEmbeddings: m.Decoder.EmbedTokens, EncodeSignal: m.Encoder.Forward,
				ForwardSignalPair: m.Forward, MaskGenerator: m.masks, DecodePair: m.Decode,
				SetGradientCheckpointing: m.setGradientCheckpointing}
		},
	}, nil
}
