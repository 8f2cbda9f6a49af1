package trocr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/models/vit"
)

// Config describes a model with the settings of transformers. Apart from Encoder they are those of
// TrOCRConfig, the decoder, and a zero field means its default there, which is that of trocr-base.
type Config struct {
	Encoder vit.Config // sees the image; its Attention is only for itself, the decoder has its own

	VocabSize    int64 // zero: 50265
	HiddenSize   int64 // d_model; zero: 1024
	NumLayers    int64 // decoder_layers; zero: 12
	NumHeads     int64 // decoder_attention_heads; zero: 16
	FFNDim       int64 // decoder_ffn_dim; zero: 4096
	MaxPositions int64 // max_position_embeddings, the largest number of tokens of a text; zero: 512

	ActivationFunction string   // see [transformer.ActivationByName]; zero: gelu
	InitStd            float64  // standard deviation of the initial weights; zero: 0.02
	Dropout            *float64 // nil: 0.1
	AttentionDropout   float64  // of the attention weights
	ActivationDropout  float64  // after the activation function
	Layerdrop          float64  // decoder_layerdrop, the probability with which training leaves out a layer

	ScaleEmbedding     bool  // multiply the token embeddings by the square root of HiddenSize
	LayerNormEmbedding *bool // normalize the embeddings; nil: true
	LearnedPositions   *bool // use_learned_position_embeddings; nil: true; false: sines and cosines
	TieWordEmbeddings  *bool // the output layer has the weight of the token embedding; nil: true
	// CrossAttentionHiddenSize is Encoder.HiddenSize where the decoder attends to the encoder's
	// hidden states as they are; zero: if the sizes differ, a layer maps them to HiddenSize.
	CrossAttentionHiddenSize int64

	PadTokenID          *int64  // fills up batches; nil: that of the decoder
	DecoderPadTokenID   *int64  // its embedding starts as zero and is not trained; nil: 1
	EOSTokenIDs         []int64 // end a text; nil: 2
	DecoderStartTokenID *int64  // the first token of every text; nil: 2

	// Extra and DecoderExtra hold the other settings of config.json and of the decoder in it. They
	// are written back.
	Extra, DecoderExtra pretrained.Document
}

// modelType is model_type of config.json.
const modelType = "vision-encoder-decoder"

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) { return pretrained.ReadConfigAs(dir, "trocr", decode) }

// tokenFields are the settings that a config.json has for the whole model, for the decoder, or for
// both.
func (c *Config) tokenFields() []pretrained.Field {
	return []pretrained.Field{{Key: "pad_token_id", Value: &c.PadTokenID},
		{Key: "eos_token_id", Value: (*pretrained.TokenIDs)(&c.EOSTokenIDs)},
		{Key: "decoder_start_token_id", Value: &c.DecoderStartTokenID}}
}

// decoderFields are the settings of the decoder.
func (c *Config) decoderFields() []pretrained.Field {
	float := func(f *float64) any { return (*pretrained.Float)(f) }
	return []pretrained.Field{
		{Key: "vocab_size", Value: &c.VocabSize}, {Key: "d_model", Value: &c.HiddenSize},
		{Key: "decoder_layers", Value: &c.NumLayers}, {Key: "decoder_attention_heads", Value: &c.NumHeads},
		{Key: "decoder_ffn_dim", Value: &c.FFNDim}, {Key: "max_position_embeddings", Value: &c.MaxPositions},
		{Key: "activation_function", Value: &c.ActivationFunction}, {Key: "init_std", Value: float(&c.InitStd)},
		{Key: "dropout", Value: &c.Dropout}, {Key: "attention_dropout", Value: float(&c.AttentionDropout)},
		{Key: "activation_dropout", Value: float(&c.ActivationDropout)},
		{Key: "decoder_layerdrop", Value: float(&c.Layerdrop)}, {Key: "scale_embedding", Value: &c.ScaleEmbedding},
		{Key: "layernorm_embedding", Value: &c.LayerNormEmbedding},
		{Key: "use_learned_position_embeddings", Value: &c.LearnedPositions},
		{Key: "tie_word_embeddings", Value: &c.TieWordEmbeddings},
	}
}

// crossAttention is the setting of the decoder that is null instead of zero.
const crossAttention = "cross_attention_hidden_size"

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := cmp.Or(d.Demand("model_type", `"`+modelType+`"`), d.Demand("is_encoder_decoder", "true"),
		d.Demand("tie_encoder_decoder", "false"), d.Demand("quantization_config", "null")); err != nil {
		return c, err
	}
	var encoder, decoder pretrained.Document
	if err := d.Decode([]pretrained.Field{{Key: "encoder", Value: &encoder},
		{Key: "decoder", Value: &decoder}}); err != nil {
		return c, err
	}
	if err := c.decodeEncoder(encoder); err != nil {
		return c, fmt.Errorf("encoder: %w", err)
	}
	if err := c.decodeDecoder(decoder); err != nil {
		return c, fmt.Errorf("decoder: %w", err)
	}
	if err := d.Decode(c.tokenFields()); err != nil {
		return c, err
	}
	c.Extra = d
	return c, nil
}

func (c *Config) decodeEncoder(d pretrained.Document) (err error) {
	if err := demandType(d, "vit", "deit"); err != nil {
		return err
	}
	if c.Encoder, err = vit.DecodeConfig(d); err != nil {
		return err
	}
	size, err := json.Marshal(c.Encoder.HiddenSize)
	if err != nil {
		return err
	}
	return d.Demand("pooler_output_size", string(size))
}

func (c *Config) decodeDecoder(d pretrained.Document) error {
	if err := cmp.Or(demandType(d, "trocr"), d.Demand("quantization_config", "null"),
		d.UseOwnNames(map[string]string{"hidden_size": "d_model", "num_attention_heads": "decoder_attention_heads",
			"num_hidden_layers": "decoder_layers"})); err != nil {
		return err
	}
	fields := append(c.decoderFields(), c.tokenFields()...)
	if err := d.Decode(append(fields, pretrained.Field{Key: crossAttention,
		Value: &c.CrossAttentionHiddenSize})); err != nil {
		return err
	}
	c.DecoderPadTokenID, c.PadTokenID, c.DecoderExtra = c.PadTokenID, nil, d
	return nil
}

// demandType refuses a part of the model whose type is not one of those that are known.
func demandType(d pretrained.Document, known ...string) error {
	var found string
	if err := maps.Clone(d).Decode([]pretrained.Field{{Key: "model_type", Value: &found}}); err != nil {
		return err
	}
	if !slices.Contains(known, found) {
		return fmt.Errorf("model_type is %q; want one of %q", found, known)
	}
	return nil
}

// resolved fills in the defaults and checks the settings of the decoder.
func (c Config) resolved() (_ Config, err error) {
	for _, n := range []struct {
		name  string
		value *int64
		usual int64
	}{
		{"VocabSize", &c.VocabSize, 50265}, {"HiddenSize", &c.HiddenSize, 1024}, {"NumLayers", &c.NumLayers, 12},
		{"NumHeads", &c.NumHeads, 16}, {"FFNDim", &c.FFNDim, 4096}, {"MaxPositions", &c.MaxPositions, 512},
	} {
		if err := transformer.Positive(n.name, n.value, n.usual); err != nil {
			return c, err
		}
	}
	for _, yes := range []**bool{&c.LayerNormEmbedding, &c.LearnedPositions, &c.TieWordEmbeddings} {
		*yes = cmp.Or(*yes, new(true))
	}
	c.Dropout = cmp.Or(c.Dropout, new(0.1))
	if err := cmp.Or(
		transformer.Positive("InitStd", &c.InitStd, 0.02), transformer.CheckLayers(c.NumLayers),
		transformer.CheckProbability("Dropout", c.Dropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("ActivationDropout", &c.ActivationDropout),
		transformer.CheckProbability("Layerdrop", &c.Layerdrop),
	); err != nil {
		return c, err
	}
	if c.HiddenSize%c.NumHeads != 0 {
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	}
	if !*c.LearnedPositions && c.HiddenSize < 4 {
		return c, fmt.Errorf("HiddenSize is %d; want at least 4 for positions that are not learned", c.HiddenSize)
	}
	if _, err := transformer.ActivationByName(c.ActivationFunction); err != nil {
		return c, fmt.Errorf("ActivationFunction: %w", err)
	}
	c.ActivationFunction = cmp.Or(c.ActivationFunction, "gelu")
	return c.withTokens()
}

// withTokens fills in and checks the special tokens.
func (c Config) withTokens() (Config, error) {
	c.DecoderPadTokenID = cmp.Or(c.DecoderPadTokenID, c.PadTokenID, new(int64(1)))
	c.PadTokenID = cmp.Or(c.PadTokenID, c.DecoderPadTokenID)
	c.DecoderStartTokenID = cmp.Or(c.DecoderStartTokenID, new(int64(2)))
	if c.EOSTokenIDs == nil {
		c.EOSTokenIDs = []int64{2}
	}
	for _, t := range []struct {
		name string
		ids  []int64
	}{
		{"PadTokenID", []int64{*c.PadTokenID}}, {"DecoderPadTokenID", []int64{*c.DecoderPadTokenID}},
		{"DecoderStartTokenID", []int64{*c.DecoderStartTokenID}}, {"EOSTokenIDs", c.EOSTokenIDs},
	} {
		for _, id := range t.ids {
			if id < 0 || id >= c.VocabSize {
				return c, fmt.Errorf("%s has the token %d; want ids below VocabSize, %d", t.name, id, c.VocabSize)
			}
		}
	}
	const most = 1 << 30 // far more than any model has; they are computed before a file can prove them wrong
	rows := float64(c.MaxPositions) + float64(*c.DecoderPadTokenID)
	if !*c.LearnedPositions && rows*float64(c.HiddenSize) > most {
		return c, fmt.Errorf("MaxPositions is %d, DecoderPadTokenID %d and HiddenSize %d; where positions are not learned, "+
			"the sum of the first two times the third is at most %d", c.MaxPositions, *c.DecoderPadTokenID, c.HiddenSize, most)
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

// document returns the config.json of a resolved config, given that of its encoder.
func (c Config) document(architecture string, encoder pretrained.Document) (pretrained.Document, error) {
	d, decoder := pretrained.Document{}, pretrained.Document{}
	maps.Copy(d, c.Extra)
	maps.Copy(decoder, c.DecoderExtra)
	cross := &c.CrossAttentionHiddenSize
	if *cross == 0 {
		cross = nil
	}
	own := c
	own.PadTokenID = c.DecoderPadTokenID
	fields := append(own.decoderFields(), own.tokenFields()...)
	fields = append(fields, pretrained.Field{Key: crossAttention, Value: &cross},
		pretrained.Field{Key: "is_decoder", Value: new(true)}, pretrained.Field{Key: "is_encoder_decoder", Value: new(false)})
	if err := decoder.EncodeModel("trocr", "", fields); err != nil {
		return nil, err
	}
	for _, part := range []pretrained.Document{encoder, decoder} { // which transformers leaves to the whole model
		part["architectures"], part["dtype"] = json.RawMessage("null"), json.RawMessage("null")
	}
	fields = append(c.tokenFields(), pretrained.Field{Key: "encoder", Value: &encoder},
		pretrained.Field{Key: "decoder", Value: &decoder}, pretrained.Field{Key: "is_encoder_decoder", Value: new(true)},
		pretrained.Field{Key: "tie_word_embeddings", Value: new(false)})
	return d, d.EncodeModel(modelType, architecture, fields)
}

// Blueprint returns the model described by a config.json, for package auto.
func Blueprint(d pretrained.Document, _ classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Encoder.Attention = a
	return c.Blueprint()
}

// Blueprint returns the model described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	encoder, err := c.Encoder.Blueprint()
	if err != nil {
		return b, fmt.Errorf("encoder: %w", err)
	}
	if c, err = c.resolved(); err != nil {
		return b, fmt.Errorf("decoder: %w", err)
	}
	if size := c.CrossAttentionHiddenSize; size != 0 && size != encoder.HiddenSize {
		return b, fmt.Errorf("CrossAttentionHiddenSize is %d; want %d, HiddenSize of the encoder, or zero", size,
			encoder.HiddenSize)
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "VisionEncoderDecoder", LanguageModel: "VisionEncoderDecoderModel",
		HiddenSize: c.HiddenSize, EmbeddingSize: c.HiddenSize, InitializerRange: c.InitStd, EOSTokenIDs: c.EOSTokenIDs,
		Pair: true, DecoderStartTokenID: *c.DecoderStartTokenID, OutputScale: 1, Untied: !*c.TieWordEmbeddings,
		TiedWeights: [2]string{"decoder.model.decoder.embed_tokens.weight", "decoder.output_projection.weight"},
		Limits:      inputs.Limits{VocabSize: c.VocabSize, MaxLength: c.MaxPositions, PadTokenID: *c.PadTokenID},
		Images:      encoder.Images, ImageProcessor: encoder.ImageProcessor,
		Rename: inEncoder(encoder.Rename), InMemory: inEncoder(encoder.InMemory),
		Document: func(architecture string) (pretrained.Document, error) {
			d, err := encoder.Document("")
			if err != nil {
				return nil, err
			}
			return c.document(architecture, d)
		},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, encoder, builder)
			return transformer.Backbone{Module: m, InputEmbeddings: m.Decoder.Model.Decoder.EmbedTokens,
				OutputEmbeddings: m.Decoder.OutputProjection, EncodeSignal: m.Encode, ForwardSignalPair: m.Forward,
				DecodePair: m.Decode, DrawMissing: m.drawMissing, InterpolatePosEncoding: m.Encoder.InterpolatePosEncoding,
				SetGradientCheckpointing: m.setGradientCheckpointing, FuseQKVProjections: m.Encoder.Encoder.FuseQKVProjections}
		},
	}, nil
}

// inEncoder applies a change of names to those of the encoder.
func inEncoder(rename func(string) string) func(string) string {
	return func(name string) string {
		own, found := strings.CutPrefix(name, encoderPrefix)
		if !found {
			return name
		}
		return encoderPrefix + rename(own)
	}
}

const encoderPrefix = "encoder."
