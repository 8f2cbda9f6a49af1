package gpt2

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the names of transformers. The zero value of a field means the
// default of GPT2Config, which is the smallest GPT-2.
type Config struct {
	VocabSize        int64   // zero: 50257
	MaxPositions     int64   // n_positions: the maximum length of a text in tokens; zero: 1024
	HiddenSize       int64   // n_embd; zero: 768
	NumLayers        int64   // n_layer; zero: 12
	NumHeads         int64   // n_head; zero: 12
	IntermediateSize int64   // n_inner; zero: four times HiddenSize
	Activation       string  // see [transformer.ActivationByName]; zero: gelu_new
	LayerNormEps     float64 // zero: 1e-5
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02

	EmbeddingDropout *float64 // embd_pdrop; nil: 0.1
	AttentionDropout *float64 // attn_pdrop, for the attention weights; nil: 0.1
	ResidualDropout  *float64 // resid_pdrop, for the output of attention and of the feed-forward part; nil: 0.1

	// EOSTokenIDs end a generated text; nil: 50256, or the last id of a smaller vocabulary; empty:
	// none.
	EOSTokenIDs []int64
	// PadTokenID pads batches, and is masked. Nil: the first of EOSTokenIDs, or 0.
	PadTokenID *int64

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

const modelType = "gpt2"

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) {
	return pretrained.ReadConfigAs(dir, modelType, decode)
}

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "vocab_size", Value: &c.VocabSize}, {Key: "n_positions", Value: &c.MaxPositions},
		{Key: "n_embd", Value: &c.HiddenSize}, {Key: "n_layer", Value: &c.NumLayers},
		{Key: "n_head", Value: &c.NumHeads}, {Key: "n_inner", Value: &c.IntermediateSize},
		{Key: "activation_function", Value: &c.Activation}, {Key: "layer_norm_epsilon", Value: &c.LayerNormEps},
		{Key: "initializer_range", Value: &c.InitializerRange}, {Key: "embd_pdrop", Value: &c.EmbeddingDropout},
		{Key: "attn_pdrop", Value: &c.AttentionDropout}, {Key: "resid_pdrop", Value: &c.ResidualDropout},
		{Key: "pad_token_id", Value: &c.PadTokenID}, {Key: "eos_token_id", Value: (*pretrained.TokenIDs)(&c.EOSTokenIDs)},
	}
}

// ownNames maps attribute names of other models, which transformers' GPT2Config accepts too, to its
// own.
var ownNames = map[string]string{"hidden_size": "n_embd", "max_position_embeddings": "n_positions",
	"num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := d.UseOwnNames(ownNames); err != nil {
		return c, err
	}
	if string(d["eos_token_id"]) == "null" {
		c.EOSTokenIDs = []int64{}
	}
	var kind string
	if err := d.Decode(append(c.fields(), pretrained.Field{Key: "model_type", Value: &kind})); err != nil {
		return c, err
	}
	if kind != modelType {
		return c, fmt.Errorf("model_type is %q; want %q", kind, modelType)
	}
	for key, wanted := range map[string]string{"add_cross_attention": "false", "scale_attn_weights": "true",
		"scale_attn_by_inverse_layer_idx": "false", "reorder_and_upcast_attn": "false", "tie_word_embeddings": "true",
		"is_encoder_decoder": "false", "is_causal": "true", "pruned_heads": "{}", "quantization_config": "null"} {
		if err := d.Demand(key, wanted); err != nil {
			return c, err
		}
	}
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := cmp.Or(
		transformer.Positive("VocabSize", &c.VocabSize, 50257),
		transformer.Positive("MaxPositions", &c.MaxPositions, 1024),
		transformer.Positive("HiddenSize", &c.HiddenSize, 768),
		transformer.Positive("NumLayers", &c.NumLayers, 12),
		transformer.Positive("NumHeads", &c.NumHeads, 12),
	); err != nil {
		return c, err
	}
	if err := transformer.Positive("IntermediateSize", &c.IntermediateSize, 4*c.HiddenSize); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("LayerNormEps", &c.LayerNormEps, 1e-5),
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
	); err != nil {
		return c, err
	}
	for _, f := range []struct {
		name  string
		value **float64
	}{{"EmbeddingDropout", &c.EmbeddingDropout}, {"AttentionDropout", &c.AttentionDropout},
		{"ResidualDropout", &c.ResidualDropout}} {
		if *f.value == nil {
			*f.value = new(0.1)
		}
		if err := transformer.CheckProbability(f.name, *f.value); err != nil {
			return c, err
		}
	}
	if c.Activation == "" {
		c.Activation = "gelu_new"
	}
	if c.EOSTokenIDs == nil {
		c.EOSTokenIDs = []int64{min(50256, c.VocabSize-1)}
	}
	return c.checked()
}

func (c Config) checked() (_ Config, err error) {
	if err := transformer.CheckLayers(c.NumLayers); err != nil {
		return c, err
	}
	if c.HiddenSize%c.NumHeads != 0 {
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	}
	if pad := c.PadTokenID; pad != nil && *pad < 0 {
		return c, fmt.Errorf("PadTokenID is %d; want an id of at least 0", *pad)
	}
	if i := slices.IndexFunc(c.EOSTokenIDs, func(id int64) bool { return id < 0 }); i >= 0 {
		return c, fmt.Errorf("EOSTokenIDs has %d; want ids of at least 0", c.EOSTokenIDs[i])
	}
	c.Attention, err = c.Attention.Resolved()
	return c, err
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	if err := d.EncodeModel(modelType, architecture, c.fields()); err != nil {
		return nil, fmt.Errorf("gpt2: %w", err)
	}
	if c.IntermediateSize == 4*c.HiddenSize {
		d["n_inner"] = json.RawMessage("null") // as transformers writes it
	}
	return d, nil
}

// Blueprint returns the decoder described by a config.json, for package auto.
func Blueprint(d pretrained.Document, _ classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Attention = a
	return c.Blueprint()
}

// Blueprint returns the described decoder, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	activation, err := transformer.ActivationByName(c.Activation)
	if err != nil {
		return b, fmt.Errorf("field Activation: %w", err)
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "GPT2", LanguageModel: "GPT2LMHeadModel", Prefix: "transformer",
		HiddenSize: c.HiddenSize, EmbeddingSize: c.HiddenSize, AbsolutePositions: true,
		InitializerRange: c.InitializerRange, EOSTokenIDs: c.EOSTokenIDs, PadTokenID: c.PadTokenID,
		NoWeights: []string{"attn.bias", "attn.masked_bias"},
		Limits: inputs.Limits{VocabSize: c.VocabSize, MaxLength: c.MaxPositions,
			PadTokenID: transformer.Filler(c.PadTokenID, c.EOSTokenIDs, c.VocabSize)},
		Document: c.document,
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder, activation)
			return transformer.Backbone{Module: m, InputEmbeddings: m.WTE,
				Forward:       func(ids, mask, _ torch.Tensor) torch.Tensor { return m.Forward(ids, mask) },
				ForwardPacked: m.ForwardPacked,
				Decode:        m.Decode, SetGradientCheckpointing: m.SetGradientCheckpointing,
				NewPast: func(texts, capacity int64) *transformer.Past { return m.NewPast(m.WTE.Weight, texts, capacity) }}
		},
	}, nil
}
