package llama

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the names of transformers. The zero value of a field means the
// default of the type's class there, LlamaConfig or another, which are models with billions of
// weights. Settings that a type does not have are refused.
type Config struct {
	// Type is model_type: llama, mistral, qwen2, qwen3, phi3, gemma, gemma2, gemma3_text, smollm3,
	// olmo2, granite, mixtral, qwen2_moe or qwen3_moe; empty: llama.
	Type string

	VocabSize        int64
	HiddenSize       int64
	IntermediateSize int64
	NumLayers        int64 // num_hidden_layers
	NumHeads         int64 // num_attention_heads
	NumKeyValueHeads int64 // each serves NumHeads/NumKeyValueHeads heads; zero: NumHeads, or the type's default
	HeadDim          int64 // zero: HiddenSize/NumHeads, or the type's default
	MaxPositions     int64 // maximum length of a text in tokens
	// SlidingWindow is how many tokens a token attends to, including itself, in the layers that
	// LayerTypes names. Zero: 4096 for mistral, gemma2 and gemma3_text, no window for the others;
	// -1: no window.
	SlidingWindow int64
	// LayerTypes has [FullAttention] or [SlidingAttention] for each layer. Nil: all layers of
	// mistral, phi3, mixtral and qwen3_moe have the window, those of qwen2 and qwen3 from number 28
	// on, every second one of gemma2 starting with the first, of qwen2_moe among the first 28 too,
	// and five out of six of gemma3_text.
	LayerTypes []string

	// Bidirectional lets tokens attend to later ones too, as encoders do; such a model cannot write.
	// It is is_causal false, or use_bidirectional_attention of gemma3_text. In layers with a window,
	// a token then attends to SlidingWindow tokens on each side, or in gemma3_text to half as many.
	Bidirectional bool

	HiddenAct        string  // see [transformer.ActivationByName]; zero: silu; gelu_pytorch_tanh for Gemma
	RMSNormEps       float64 // zero: 1e-6; phi3, olmo2 and mixtral: 1e-5
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02
	AttentionDropout float64
	ResidualDropout  float64 // of phi3: for the outputs of attention and the feed-forward part
	AttentionBias    bool    // attention's layers have a bias; those of qwen2 and qwen2_moe except the last always do
	NoQKVBias        bool    // those of queries, keys and values of qwen2_moe have none: qkv_bias false
	MLPBias          bool
	Rope             Rope
	LocalRope        Rope // for the layers of gemma3_text with a window; the others use Rope

	// QueryPreAttnScalar divides the products of queries and keys by its square root, in gemma2
	// and gemma3_text. Zero: 256.
	QueryPreAttnScalar int64
	// AttnLogitSoftcapping of gemma2 bounds these products as c·tanh(x/c), and
	// FinalLogitSoftcapping of gemma2 and gemma3_text bounds the logits. Zero: 50 and 30 for
	// gemma2, none for gemma3_text; -1: none.
	AttnLogitSoftcapping  float64
	FinalLogitSoftcapping float64

	// For granite: factors of the embeddings, of the products of queries and keys, and of the
	// outputs of attention and the feed-forward part, and the divisor of the logits; zero: 1.
	EmbeddingMultiplier, AttentionMultiplier, ResidualMultiplier, LogitsScaling float64

	Experts Experts // of mixtral, qwen2_moe and qwen3_moe

	NoRopeLayers []int64 // of smollm3: 0 for each layer without rotary embedding, 1 for others; nil: 0 for every fourth

	// TieWordEmbeddings makes the output layer share the weight of the token embedding. Gemma
	// models always do.
	TieWordEmbeddings bool
	EOSTokenIDs       []int64 // end a generated text; nil: those of the type
	PadTokenID        *int64  // pads batches; its embedding starts as zero and is not trained; nil: none

	// Attention is not in config.json. Zero: SDPA, but Eager with AttnLogitSoftcapping, which SDPA
	// ignores, as in transformers.
	Attention transformer.Attention

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// family returns the family of c.Type.
func (c Config) family() (family, error) {
	f, ok := families[c.Type]
	if !ok {
		return f, fmt.Errorf("model_type is %q; want one of %q", c.Type, types())
	}
	return f, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	c.Type = cmp.Or(c.Type, "llama")
	f, err := c.family()
	if err != nil {
		return c, err
	}
	for _, o := range c.optional() {
		if !slices.Contains(f.settings, o.Key) && !reflect.ValueOf(o.Value).Elem().IsZero() {
			return c, fmt.Errorf("%s is for %q; the model is %s", o.Key, typesWith(o.Key), c.Type)
		}
	}
	d := f.defaults
	if err := cmp.Or(
		transformer.Positive("VocabSize", &c.VocabSize, d.VocabSize),
		transformer.Positive("HiddenSize", &c.HiddenSize, d.HiddenSize),
		transformer.Positive("IntermediateSize", &c.IntermediateSize, d.IntermediateSize),
		transformer.Positive("NumLayers", &c.NumLayers, d.NumLayers),
		transformer.Positive("NumHeads", &c.NumHeads, d.NumHeads),
		transformer.Positive("MaxPositions", &c.MaxPositions, d.MaxPositions),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("HeadDim", &c.HeadDim, cmp.Or(d.HeadDim, c.HiddenSize/c.NumHeads)),
		transformer.Positive("NumKeyValueHeads", &c.NumKeyValueHeads, cmp.Or(d.NumKeyValueHeads, c.NumHeads)),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("RMSNormEps", &c.RMSNormEps, cmp.Or(d.RMSNormEps, 1e-6)),
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("EmbeddingMultiplier", &c.EmbeddingMultiplier, 1),
		transformer.Positive("ResidualMultiplier", &c.ResidualMultiplier, 1),
		transformer.Positive("LogitsScaling", &c.LogitsScaling, 1),
		transformer.CheckLayers(c.NumLayers),
	); err != nil {
		return c, err
	}
	c.AttentionMultiplier = cmp.Or(c.AttentionMultiplier, d.AttentionMultiplier)
	if err := c.Experts.resolve(f); err != nil {
		return c, err
	}
	c.SlidingWindow = cmp.Or(c.SlidingWindow, d.SlidingWindow, -1)
	c.QueryPreAttnScalar = cmp.Or(c.QueryPreAttnScalar, d.QueryPreAttnScalar)
	c.AttnLogitSoftcapping = cmp.Or(c.AttnLogitSoftcapping, d.AttnLogitSoftcapping, -1)
	c.FinalLogitSoftcapping = cmp.Or(c.FinalLogitSoftcapping, d.FinalLogitSoftcapping, -1)
	if c.Attention == "" && c.AttnLogitSoftcapping > 0 {
		c.Attention = transformer.Eager
	}
	if c.NoRopeLayers == nil && slices.Contains(f.settings, "no_rope_layers") {
		c.NoRopeLayers = ropeLayers(c.NumLayers, 4)
	}
	if c.LayerTypes == nil {
		c.LayerTypes = f.windows.types(c.NumLayers, c.SlidingWindow)
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, d.HiddenAct, "silu")
	c.TieWordEmbeddings = c.TieWordEmbeddings || f.tied
	if c.EOSTokenIDs == nil {
		c.EOSTokenIDs = d.EOSTokenIDs
	}
	return c.checked()
}

func (c Config) checked() (_ Config, err error) {
	if err := c.checkWindows(); err != nil {
		return c, err
	}
	if err := cmp.Or(transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("ResidualDropout", &c.ResidualDropout)); err != nil {
		return c, err
	}
	switch pad := c.PadTokenID; {
	case c.HiddenSize%c.NumHeads != 0:
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	case c.NumHeads%c.NumKeyValueHeads != 0:
		return c, fmt.Errorf("NumHeads is %d, which is no multiple of the %d heads of keys and values", c.NumHeads,
			c.NumKeyValueHeads)
	case c.HeadDim%2 != 0:
		return c, fmt.Errorf("HeadDim is %d; want an even number, for rotary embeddings", c.HeadDim)
	case pad != nil && (*pad < -1 || *pad >= c.VocabSize):
		return c, fmt.Errorf("PadTokenID is %d; want an id below VocabSize, %d, or -1 for the last", *pad, c.VocabSize)
	case c.QueryPreAttnScalar < 0:
		return c, fmt.Errorf("QueryPreAttnScalar is %d; want a positive number", c.QueryPreAttnScalar)
	case c.AttentionMultiplier < 0:
		return c, fmt.Errorf("AttentionMultiplier is %g; want a positive number", c.AttentionMultiplier)
	case c.NoRopeLayers != nil && int64(len(c.NoRopeLayers)) < c.NumLayers:
		return c, fmt.Errorf("no_rope_layers has %d numbers; want one for each of the %d layers", len(c.NoRopeLayers),
			c.NumLayers)
	case slices.ContainsFunc(c.EOSTokenIDs, func(id int64) bool { return id < 0 }):
		return c, fmt.Errorf("EOSTokenIDs are %d; want ids of at least 0", c.EOSTokenIDs)
	}
	for key, bound := range c.bounds() {
		if b := *bound; b != -1 && !(b > 0) || math.IsInf(b, 0) {
			return c, fmt.Errorf("%s is %g; want a positive number, or -1 for none", key, b)
		}
	}
	f := families[c.Type]
	if c.Rope, err = c.Rope.resolved(c, f, f.defaults.Rope.Theta); err != nil {
		return c, err
	}
	if f.twoRopes {
		if c.LocalRope, err = c.LocalRope.resolved(c, f, 0); err != nil {
			return c, fmt.Errorf("%s: %w", SlidingAttention, err)
		}
	} else if !reflect.ValueOf(c.LocalRope).IsZero() {
		return c, fmt.Errorf("LocalRope is for gemma3_text; the model is %s", c.Type)
	}
	c.Attention, err = c.Attention.Resolved()
	return c, err
}

// Blueprint returns the described decoder, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	activation, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		return b, fmt.Errorf("HiddenAct: %w", err)
	}
	f := families[c.Type]
	return transformer.Blueprint{
		ModelType: c.Type, Class: f.class, LanguageModel: cmp.Or(f.causal, f.class) + "ForCausalLM", Prefix: "model",
		HiddenSize: c.HiddenSize, EmbeddingSize: c.HiddenSize, InitializerRange: c.InitializerRange,
		EOSTokenIDs: c.EOSTokenIDs, PadTokenID: c.PadTokenID, Untied: !c.TieWordEmbeddings,
		NoWeights: []string{"rotary_emb.inv_freq"},
		Limits: inputs.Limits{VocabSize: c.VocabSize, MaxLength: c.MaxPositions,
			PadTokenID: transformer.Filler(c.padding(), c.EOSTokenIDs, c.VocabSize)},
		Bidirectional: c.Bidirectional,
		InFiles:       f.moe.inFiles(),
		Document:      c.document,
		Logits:        transformer.Logits{Softcap: max(0, c.FinalLogitSoftcapping), Divisor: c.LogitsScaling},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder, activation)
			backbone := transformer.Backbone{Module: m, InputEmbeddings: m.EmbedTokens, Rereads: m.Rereads(),
				Forward:       func(ids, mask, _ torch.Tensor) torch.Tensor { return m.Forward(ids, mask) },
				ForwardPacked: m.ForwardPacked,
				Decode:        m.Decode, SetGradientCheckpointing: m.SetGradientCheckpointing,
				NewPast: func(texts, capacity int64) *transformer.Past { return m.NewPast(m.EmbedTokens.Weight, texts, capacity) }}
			if c.Experts.OutputRouterLogits {
				backbone.ForwardAux = m.ForwardAux
			}
			return backbone
		},
	}, nil
}

// padding returns the row of the embedding that is not trained. A negative PadTokenID means the
// last row, as in PyTorch.
func (c Config) padding() *int64 {
	if c.PadTokenID != nil && *c.PadTokenID < 0 {
		return new(c.VocabSize - 1)
	}
	return c.PadTokenID
}
