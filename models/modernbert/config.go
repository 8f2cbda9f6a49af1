package modernbert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers. The zero value is ModernBertConfig(),
// which is ModernBERT-base.
type Config struct {
	VocabSize        int64   // zero: 50368
	HiddenSize       int64   // zero: 768
	IntermediateSize int64   // zero: 1152
	NumLayers        int64   // num_hidden_layers; zero: 22
	NumHeads         int64   // num_attention_heads; zero: 12
	HiddenActivation string  // see [transformer.ActivationByName]; zero: gelu
	MaxPositions     int64   // maximum number of tokens of a text; zero: 8192
	NormEps          float64 // zero: 1e-5
	NormBias         bool    // layer normalisations have a bias

	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02
	// weights are truncated at this many standard deviations from 0; zero: 2
	InitializerCutoffFactor float64

	// PadTokenID fills up batches; texts do not train its embedding. Nil: 50283; -1: there is none.
	PadTokenID *int64

	// LayerTypes has for each layer "full_attention", where tokens attend to the whole text, or
	// "sliding_attention", where they attend to their neighbourhood. Nil: the first layer and every
	// third after it have full attention.
	LayerTypes []string
	// number of other tokens that a token attends to with sliding attention; zero: 128
	LocalAttention int64
	GlobalTheta    float64 // base of the wavelengths of rotary positions, with full attention; zero: 160000
	LocalTheta     float64 // with sliding attention; zero: 10000

	AttentionBias    bool
	MLPBias          bool
	AttentionDropout float64
	EmbeddingDropout float64
	MLPDropout       float64

	DecoderBias *bool // of the layer that computes the logits of words; nil: true
	// representation of a text for the classifier: cls, its first token, or mean, of all tokens;
	// empty: cls
	ClassifierPooling    string
	ClassifierDropout    float64
	ClassifierBias       bool
	ClassifierActivation string // zero: gelu

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of a classifier mean

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

const (
	modelType = "modernbert"
	full      = "full_attention"
	sliding   = "sliding_attention"
)

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "vocab_size", Value: &c.VocabSize}, {Key: "hidden_size", Value: &c.HiddenSize},
		{Key: "intermediate_size", Value: &c.IntermediateSize}, {Key: "num_hidden_layers", Value: &c.NumLayers},
		{Key: "num_attention_heads", Value: &c.NumHeads}, {Key: "hidden_activation", Value: &c.HiddenActivation},
		{Key: "max_position_embeddings", Value: &c.MaxPositions}, {Key: "norm_eps", Value: (*pretrained.Float)(&c.NormEps)},
		{Key: "norm_bias", Value: &c.NormBias}, {Key: "initializer_range", Value: (*pretrained.Float)(&c.InitializerRange)},
		{Key: "initializer_cutoff_factor", Value: (*pretrained.Float)(&c.InitializerCutoffFactor)},
		{Key: "layer_types", Value: &c.LayerTypes}, {Key: "local_attention", Value: &c.LocalAttention},
		{Key: "attention_bias", Value: &c.AttentionBias}, {Key: "mlp_bias", Value: &c.MLPBias},
		{Key: "attention_dropout", Value: &c.AttentionDropout},
		{Key: "embedding_dropout", Value: &c.EmbeddingDropout}, {Key: "mlp_dropout", Value: &c.MLPDropout},
		{Key: "decoder_bias", Value: &c.DecoderBias}, {Key: "classifier_pooling", Value: &c.ClassifierPooling},
		{Key: "classifier_dropout", Value: &c.ClassifierDropout}, {Key: "classifier_bias", Value: &c.ClassifierBias},
		{Key: "classifier_activation", Value: &c.ClassifierActivation},
	}
}

// rope is an entry of rope_parameters: the rotary embedding for layers of one type.
type rope struct {
	Type  string  `json:"rope_type"`
	Theta float64 `json:"rope_theta"`
}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	_, given := d["layer_types"]
	every, err := takeRest(d, &c)
	if err != nil {
		return c, err
	}
	if c.Head, err = transformer.DecodeEncoder(d, modelType, c.fields(), &c.PadTokenID); err != nil {
		return c, err
	}
	if !given && every != 0 {
		if c.LayerTypes, err = alternating(cmp.Or(c.NumLayers, 22), every); err != nil {
			return c, err
		}
	}
	c.Extra = d
	return c, nil
}

// takeRest takes settings out of a config.json that exist in several formats, and returns an error
// for those that would change the model. every is global_attn_every_n_layers of older files.
func takeRest(d pretrained.Document, c *Config) (every int64, err error) {
	for key, wanted := range map[string]string{"sparse_prediction": "false", "rope_scaling": "null",
		"head_dim": "null"} {
		if err := d.Demand(key, wanted); err != nil {
			return 0, err
		}
	}
	// transformers 5 does not support null for local_rope_theta either.
	ropes := map[string]rope{}
	if err := d.Decode([]pretrained.Field{{Key: "global_rope_theta", Value: &c.GlobalTheta},
		{Key: "local_rope_theta", Value: &c.LocalTheta}, {Key: "rope_parameters", Value: &ropes}}); err != nil {
		return 0, err
	}
	for kind, theta := range map[string]*float64{full: &c.GlobalTheta, sliding: &c.LocalTheta} {
		r := ropes[kind]
		if r.Type != "" && r.Type != "default" {
			return 0, fmt.Errorf(`rope_type of %s is %q; only "default" is supported`, kind, r.Type)
		}
		*theta = cmp.Or(r.Theta, *theta)
		delete(ropes, kind)
	}
	if len(ropes) > 0 {
		return 0, fmt.Errorf("rope_parameters has %q; want %q and %q", slices.Sorted(maps.Keys(ropes)), full, sliding)
	}
	return every, maps.Clone(d).Decode([]pretrained.Field{{Key: "global_attn_every_n_layers", Value: &every}})
}

// alternating returns the types of n layers, of which each every-th attends to the whole text,
// starting with the first.
func alternating(n, every int64) (types []string, err error) {
	if every < 1 {
		return nil, fmt.Errorf("global_attn_every_n_layers is %d; want at least 1", every)
	}
	if err := transformer.CheckLayers(n); err != nil {
		return nil, err
	}
	for i := range n {
		types = append(types, map[bool]string{true: full, false: sliding}[i%every == 0])
	}
	return types, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := cmp.Or(
		transformer.Positive("VocabSize", &c.VocabSize, 50368),
		transformer.Positive("HiddenSize", &c.HiddenSize, 768),
		transformer.Positive("IntermediateSize", &c.IntermediateSize, 1152),
		transformer.Positive("NumLayers", &c.NumLayers, 22),
		transformer.Positive("NumHeads", &c.NumHeads, 12),
		transformer.Positive("MaxPositions", &c.MaxPositions, 8192),
		transformer.Positive("LocalAttention", &c.LocalAttention, 128),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("NormEps", &c.NormEps, 1e-5),
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
		transformer.Positive("InitializerCutoffFactor", &c.InitializerCutoffFactor, 2),
		transformer.Positive("GlobalTheta", &c.GlobalTheta, 160000),
		transformer.Positive("LocalTheta", &c.LocalTheta, 10000),
	); err != nil {
		return c, err
	}
	if err := transformer.CheckLayers(c.NumLayers); err != nil {
		return c, err
	}
	if c.LayerTypes == nil {
		if c.LayerTypes, err = alternating(c.NumLayers, 3); err != nil {
			return c, err
		}
	}
	if c.PadTokenID == nil {
		c.PadTokenID = new(int64(50283))
	}
	if c.DecoderBias == nil {
		c.DecoderBias = new(true)
	}
	c.HiddenActivation, c.ClassifierActivation = cmp.Or(c.HiddenActivation, "gelu"), cmp.Or(c.ClassifierActivation, "gelu")
	c.ClassifierPooling = cmp.Or(c.ClassifierPooling, "cls")
	return c.checked()
}

func (c Config) checked() (_ Config, err error) {
	for name, p := range map[string]*float64{"AttentionDropout": &c.AttentionDropout, "MLPDropout": &c.MLPDropout,
		"EmbeddingDropout": &c.EmbeddingDropout, "ClassifierDropout": &c.ClassifierDropout} {
		if err := transformer.CheckProbability(name, p); err != nil {
			return c, err
		}
	}
	strange := func(kind string) bool { return kind != full && kind != sliding }
	switch pad := *c.PadTokenID; {
	case c.HiddenSize%(2*c.NumHeads) != 0:
		return c, fmt.Errorf("HiddenSize is %d; want a multiple of twice the %d heads, for rotary embeddings", c.HiddenSize,
			c.NumHeads)
	case pad < -1 || pad >= c.VocabSize:
		return c, fmt.Errorf("PadTokenID is %d; want an id below VocabSize, %d, or -1 for none", pad, c.VocabSize)
	case int64(len(c.LayerTypes)) != c.NumLayers || slices.ContainsFunc(c.LayerTypes, strange):
		return c, fmt.Errorf("LayerTypes are %q; want %q or %q for each of %d layers", c.LayerTypes, full, sliding,
			c.NumLayers)
	case c.ClassifierPooling != "cls" && c.ClassifierPooling != "mean":
		return c, fmt.Errorf(`ClassifierPooling is %q; want "cls" or "mean"`, c.ClassifierPooling)
	}
	for name, act := range map[string]string{"HiddenActivation": c.HiddenActivation,
		"ClassifierActivation": c.ClassifierActivation} {
		if _, err := transformer.ActivationByName(act); err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
	}
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	pad := c.PadTokenID
	if *pad < 0 {
		pad = nil
	}
	ropes, err := json.Marshal(map[string]rope{full: {"default", c.GlobalTheta}, sliding: {"default", c.LocalTheta}})
	if err == nil {
		d["rope_parameters"] = ropes
		err = d.EncodeModel(modelType, architecture, append(c.fields(), pretrained.Field{Key: "pad_token_id", Value: &pad}))
	}
	if err != nil {
		return nil, err
	}
	return d, c.Head.Encode(d)
}

// Blueprint returns the encoder described by a config.json, for package auto, with heads of its
// own. Zero fields of the head are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Head, c.Attention = h.Over(c.Head), a
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "ModernBert", Prefix: "model", HiddenSize: c.HiddenSize, EmbeddingSize: c.HiddenSize,
		Activation: activation(c.HiddenActivation), LayerNormEps: c.NormEps, InitializerRange: c.InitializerRange,
		ClassifierDropout: c.ClassifierDropout, Head: c.Head,
		Limits: inputs.Limits{VocabSize: c.VocabSize, MaxLength: c.MaxPositions, PadTokenID: max(0, *c.PadTokenID)},
		Heads: map[string]func(transformer.Builder) transformer.Head{
			"ForSequenceClassification": func(b transformer.Builder) transformer.Head { return newClassifier(c, b, true) },
			"ForMultipleChoice":         func(b transformer.Builder) transformer.Head { return newChooser(c, b) },
			"ForTokenClassification":    func(b transformer.Builder) transformer.Head { return newClassifier(c, b, false) },
			"ForQuestionAnswering":      func(b transformer.Builder) transformer.Head { return newClassifier(c, b, false) },
			"ForMaskedLM":               func(b transformer.Builder) transformer.Head { return newMasked(c, b) },
		},
		Document: c.document,
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			backbone := transformer.Backbone{Module: m, InputEmbeddings: m.Embeddings.Tokens,
				Forward:       func(ids, mask, _ torch.Tensor) torch.Tensor { return m.Forward(ids, mask) },
				ForwardPacked: m.ForwardPacked, SetGradientCheckpointing: m.SetGradientCheckpointing}
			if c.ClassifierPooling == "mean" {
				backbone.Text = mean
			}
			return backbone
		},
	}, nil
}

// activation returns an activation whose name has been checked.
func activation(name string) transformer.Activation {
	a, err := transformer.ActivationByName(name)
	if err != nil {
		panic(torch.Errorf("modernbert.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	return a
}

// deviations are the standard deviations for drawing weights.
type deviations struct{ in, out, last, cutoff float64 }

func (c Config) deviations() deviations {
	return deviations{in: c.InitializerRange, out: c.InitializerRange / math.Sqrt(2*float64(c.NumLayers)),
		last: math.Pow(float64(c.HiddenSize), -0.5), cutoff: c.InitializerCutoffFactor}
}
