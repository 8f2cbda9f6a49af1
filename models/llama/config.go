package llama

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

// Config describes a model in the words of transformers. The zero value of a field means the default
// of LlamaConfig, MistralConfig, Qwen2Config or GemmaConfig, which are models of seven billion
// weights.
type Config struct {
	Type string // model_type: llama, mistral, qwen2 or gemma; empty: llama

	VocabSize        int64 // zero: 32000; qwen2: 151936, gemma: 256000
	HiddenSize       int64 // zero: 4096; gemma: 3072
	IntermediateSize int64 // zero: 11008; mistral: 14336, qwen2: 22016, gemma: 24576
	NumLayers        int64 // num_hidden_layers; zero: 32; gemma: 28
	NumHeads         int64 // num_attention_heads; zero: 32; gemma: 16
	NumKeyValueHeads int64 // each is for NumHeads/NumKeyValueHeads heads; zero: NumHeads; mistral: 8
	HeadDim          int64 // zero: HiddenSize/NumHeads; gemma: 256
	MaxPositions     int64 // the most tokens of a text; zero: 2048; mistral: 131072, qwen2: 32768, gemma: 8192
	// SlidingWindow is how far back mistral's tokens attend; a text may not be longer. Zero: 4096;
	// -1: there is none.
	SlidingWindow int64

	HiddenAct        string  // see [transformer.ActivationByName]; zero: silu; gemma: gelu_pytorch_tanh
	RMSNormEps       float64 // zero: 1e-6
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02
	AttentionDropout float64
	AttentionBias    bool // of llama and gemma: attention's layers have a bias; those of qwen2's but the last always have
	MLPBias          bool // of llama
	Rope             Rope

	// TieWordEmbeddings gives the output layer the weight of the token embedding. That of gemma always
	// has it.
	TieWordEmbeddings bool
	EOSTokenIDs       []int64 // end a text that is generated; nil: 2; qwen2: none, gemma: 1
	PadTokenID        *int64  // fills batches up; its embedding is zero at first and not trained; nil: there is none

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	// Extra holds what config.json says beyond the above. It is written back.
	Extra pretrained.Document
}

// kinds are the defaults, and the names of transformers' classes. A size of zero follows from others.
var kinds = map[string]struct {
	class                                                                         string
	vocabulary, hidden, intermediate, layers, heads, keyValueHeads, head, longest int64
	act                                                                           string
	ends                                                                          []int64
}{
	"llama":   {"Llama", 32000, 4096, 11008, 32, 32, 0, 0, 2048, "silu", []int64{2}},
	"mistral": {"Mistral", 32000, 4096, 14336, 32, 32, 8, 0, 131072, "silu", []int64{2}},
	"qwen2":   {"Qwen2", 151936, 4096, 22016, 32, 32, 0, 0, 32768, "silu", []int64{}},
	"gemma":   {"Gemma", 256000, 3072, 24576, 28, 16, 0, 256, 8192, "gelu_pytorch_tanh", []int64{1}},
}

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) {
	return pretrained.ReadConfigAs(dir, "llama", decode)
}

func (c *Config) fields() []pretrained.Field {
	fields := []pretrained.Field{
		{Key: "model_type", Value: &c.Type}, {Key: "vocab_size", Value: &c.VocabSize},
		{Key: "hidden_size", Value: &c.HiddenSize}, {Key: "intermediate_size", Value: &c.IntermediateSize},
		{Key: "num_hidden_layers", Value: &c.NumLayers}, {Key: "num_attention_heads", Value: &c.NumHeads},
		{Key: "num_key_value_heads", Value: &c.NumKeyValueHeads}, {Key: "hidden_act", Value: &c.HiddenAct},
		{Key: "max_position_embeddings", Value: &c.MaxPositions}, {Key: "rms_norm_eps", Value: &c.RMSNormEps},
		{Key: "initializer_range", Value: &c.InitializerRange}, {Key: "attention_dropout", Value: &c.AttentionDropout},
		{Key: "tie_word_embeddings", Value: &c.TieWordEmbeddings}, {Key: "pad_token_id", Value: &c.PadTokenID},
		{Key: "eos_token_id", Value: (*pretrained.TokenIDs)(&c.EOSTokenIDs)},
	}
	if c.Type == "llama" || c.Type == "gemma" {
		fields = append(fields, pretrained.Field{Key: "attention_bias", Value: &c.AttentionBias})
	}
	if c.Type == "llama" {
		fields = append(fields, pretrained.Field{Key: "mlp_bias", Value: &c.MLPBias})
	}
	if c.Type != "qwen2" {
		fields = append(fields, pretrained.Field{Key: "head_dim", Value: &c.HeadDim})
	}
	return fields
}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := maps.Clone(d).Decode([]pretrained.Field{{Key: "model_type", Value: &c.Type}}); err != nil {
		return c, err
	}
	if _, ok := kinds[c.Type]; !ok {
		return c, fmt.Errorf("model_type is %q; want one of %q", c.Type, slices.Sorted(maps.Keys(kinds)))
	}
	if string(d["eos_token_id"]) == "null" {
		c.EOSTokenIDs = []int64{}
	}
	if _, given := d["pad_token_id"]; c.Type == "gemma" && !given {
		c.PadTokenID = new(int64(0))
	}
	window, given := d["sliding_window"]
	if c.Type == "gemma" {
		if err := d.Demand("tie_word_embeddings", "true"); err != nil {
			return c, err
		}
	}
	if err := d.Decode(c.fields()); err != nil {
		return c, err
	}
	if c.Rope, err = decodeRope(d); err != nil {
		return c, err
	}
	if c.Type == "mistral" && given {
		if c.SlidingWindow = -1; string(window) != "null" {
			if err := d.Decode([]pretrained.Field{{Key: "sliding_window", Value: &c.SlidingWindow}}); err != nil {
				return c, err
			}
		}
		delete(d, "sliding_window")
	}
	for key, wanted := range map[string]string{"use_sliding_window": "false", "is_encoder_decoder": "false",
		"quantization_config": "null", "pretraining_tp": "1", "use_bidirectional_attention": "false"} {
		if err := d.Demand(key, wanted); err != nil {
			return c, err
		}
	}
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and refuses what is impossible.
func (c Config) resolved() (_ Config, err error) {
	if c.Type == "" {
		c.Type = "llama"
	}
	k, ok := kinds[c.Type]
	if !ok {
		return c, fmt.Errorf("field Type is %q; want one of %q", c.Type, slices.Sorted(maps.Keys(kinds)))
	}
	if err := cmp.Or(
		transformer.Positive("VocabSize", &c.VocabSize, k.vocabulary),
		transformer.Positive("HiddenSize", &c.HiddenSize, k.hidden),
		transformer.Positive("IntermediateSize", &c.IntermediateSize, k.intermediate),
		transformer.Positive("NumLayers", &c.NumLayers, k.layers),
		transformer.Positive("NumHeads", &c.NumHeads, k.heads),
		transformer.Positive("MaxPositions", &c.MaxPositions, k.longest),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("HeadDim", &c.HeadDim, cmp.Or(k.head, c.HiddenSize/c.NumHeads)),
		transformer.Positive("NumKeyValueHeads", &c.NumKeyValueHeads, cmp.Or(k.keyValueHeads, c.NumHeads)),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("RMSNormEps", &c.RMSNormEps, 1e-6),
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
	); err != nil {
		return c, err
	}
	if c.Type != "mistral" {
		c.SlidingWindow = -1
	} else if c.SlidingWindow == 0 {
		c.SlidingWindow = 4096
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, k.act)
	c.TieWordEmbeddings = c.TieWordEmbeddings || c.Type == "gemma"
	if c.EOSTokenIDs == nil {
		c.EOSTokenIDs = k.ends
	}
	return c.checked()
}

func (c Config) checked() (_ Config, err error) {
	if err := transformer.CheckLayers(c.NumLayers); err != nil {
		return c, err
	}
	if err := transformer.CheckProbability("AttentionDropout", &c.AttentionDropout); err != nil {
		return c, err
	}
	switch pad := c.PadTokenID; {
	case c.HiddenSize%c.NumHeads != 0:
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	case c.NumHeads%c.NumKeyValueHeads != 0:
		return c, fmt.Errorf("NumHeads is %d, which is no multiple of the %d heads of keys and values", c.NumHeads,
			c.NumKeyValueHeads)
	case c.HeadDim%2 != 0:
		return c, fmt.Errorf("HeadDim is %d; want an even number, whose halves are turned", c.HeadDim)
	case pad != nil && (*pad < -1 || *pad >= c.VocabSize):
		return c, fmt.Errorf("PadTokenID is %d; want an id below VocabSize, %d, or -1 for the last", *pad, c.VocabSize)
	case c.Type != "llama" && c.MLPBias, c.Type != "llama" && c.Type != "gemma" && c.AttentionBias:
		return c, fmt.Errorf("AttentionBias is for llama and gemma, MLPBias for llama; the model is %s", c.Type)
	case slices.ContainsFunc(c.EOSTokenIDs, func(id int64) bool { return id < 0 }):
		return c, fmt.Errorf("EOSTokenIDs are %d; want ids of at least 0", c.EOSTokenIDs)
	}
	if c.Rope, err = c.Rope.resolved(c.MaxPositions); err != nil {
		return c, err
	}
	c.Attention, err = c.Attention.Resolved()
	return c, err
}

// document is the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	fields := append(c.fields(), pretrained.Field{Key: "rope_parameters", Value: &c.Rope})
	if err := d.EncodeModel(c.Type, architecture, fields); err != nil {
		return nil, fmt.Errorf("llama: %w", err)
	}
	if c.Type == "mistral" {
		window := json.RawMessage("null")
		if c.SlidingWindow > 0 {
			window = fmt.Append(nil, c.SlidingWindow)
		}
		d["sliding_window"] = window
	}
	return d, nil
}

// Blueprint is the decoder that a config.json describes, for package auto.
func Blueprint(d pretrained.Document, _ classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Attention = a
	return c.Blueprint()
}

// Blueprint is the decoder that is described, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	activation, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		return b, fmt.Errorf("HiddenAct: %w", err)
	}
	class := kinds[c.Type].class
	longest := c.MaxPositions
	if c.SlidingWindow > 0 {
		longest = min(longest, c.SlidingWindow)
	}
	return transformer.Blueprint{
		ModelType: c.Type, Class: class, LanguageModel: class + "ForCausalLM", Prefix: "model", HiddenSize: c.HiddenSize,
		EmbeddingSize: c.HiddenSize, InitializerRange: c.InitializerRange,
		EOSTokenIDs: c.EOSTokenIDs, Untied: !c.TieWordEmbeddings, NoWeights: []string{"rotary_emb.inv_freq"},
		Limits: inputs.Limits{VocabSize: c.VocabSize, MaxLength: longest,
			PadTokenID: transformer.Filler(c.padding(), c.EOSTokenIDs, c.VocabSize)},
		Document: c.document,
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder, activation)
			return transformer.Backbone{Module: m, InputEmbeddings: m.EmbedTokens,
				Forward: func(ids, mask, _ torch.Tensor) torch.Tensor { return m.Forward(ids, mask) },
				Decode:  m.Decode, SetGradientCheckpointing: m.SetGradientCheckpointing,
				NewPast: func(texts, capacity int64) *transformer.Past { return m.NewPast(m.EmbedTokens.Weight, texts, capacity) }}
		},
	}, nil
}

// padding is the row of the embedding that is not trained; -1 is the last, as in PyTorch.
func (c Config) padding() *int64 {
	if c.PadTokenID != nil && *c.PadTokenID < 0 {
		return new(c.VocabSize - 1)
	}
	return c.PadTokenID
}
