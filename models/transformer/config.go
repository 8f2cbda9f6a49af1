package transformer

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a BERT, or an encoder with the same settings, with the names of transformers.
// The zero value of a field means the default of its kind, which is that of bert-base unless
// stated otherwise.
type Config struct {
	VocabSize        int64   // zero: 30522; RoBERTa: 50265
	HiddenSize       int64   // zero: 768
	NumLayers        int64   // zero: 12
	NumHeads         int64   // zero: 12
	IntermediateSize int64   // zero: 3072
	MaxPositions     int64   // zero: 512; RoBERTa cannot use the first PadTokenID+1 of them
	TypeVocabSize    int64   // zero: 2
	HiddenAct        string  // see [ActivationByName]; zero: gelu
	LayerNormEps     float64 // zero: 1e-12
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02

	HiddenDropout     *float64 // nil: 0.1
	AttentionDropout  *float64 // nil: 0.1
	ClassifierDropout *float64 // nil: as HiddenDropout

	// PadTokenID is the id that pads batches; its embedding starts as zero and is not trained.
	// Nil: 0, or 1 for RoBERTa; -1: none.
	PadTokenID *int64

	Attention Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of a classifier mean

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// Kind holds what differs between the models that share [Config].
type Kind struct {
	Type         string // model_type
	Architecture string // of the classifier
	VocabSize    int64
	PadTokenID   int64

	HiddenSize, NumHeads, IntermediateSize int64 // zero: those of bert-base
}

// Resolved fills in the defaults of a kind and refuses invalid settings.
func (c Config) Resolved(k Kind) (Config, error) {
	if err := cmp.Or(
		Positive("VocabSize", &c.VocabSize, k.VocabSize),
		Positive("HiddenSize", &c.HiddenSize, cmp.Or(k.HiddenSize, 768)),
		Positive("NumLayers", &c.NumLayers, 12),
		Positive("NumHeads", &c.NumHeads, cmp.Or(k.NumHeads, 12)),
		Positive("IntermediateSize", &c.IntermediateSize, cmp.Or(k.IntermediateSize, 3072)),
		Positive("MaxPositions", &c.MaxPositions, 512),
		Positive("TypeVocabSize", &c.TypeVocabSize, 2),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		Positive("LayerNormEps", &c.LayerNormEps, 1e-12),
		Positive("InitializerRange", &c.InitializerRange, 0.02),
	); err != nil {
		return c, err
	}
	if err := CheckLayers(c.NumLayers); err != nil {
		return c, err
	}
	if c.HiddenAct == "" {
		c.HiddenAct = "gelu"
	}
	if c.HiddenDropout == nil {
		c.HiddenDropout = new(0.1)
	}
	if c.AttentionDropout == nil {
		c.AttentionDropout = new(0.1)
	}
	if c.PadTokenID == nil {
		c.PadTokenID = &k.PadTokenID
	}
	return c.checked()
}

func (c Config) checked() (_ Config, err error) {
	for _, f := range []struct {
		name  string
		value *float64
	}{{"HiddenDropout", c.HiddenDropout}, {"AttentionDropout", c.AttentionDropout},
		{"ClassifierDropout", c.ClassifierDropout}} {
		if err := CheckProbability(f.name, f.value); err != nil {
			return c, err
		}
	}
	switch pad := *c.PadTokenID; {
	case c.HiddenSize%c.NumHeads != 0:
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	case pad < -1 || pad >= c.VocabSize:
		return c, fmt.Errorf("PadTokenID is %d; want an id below VocabSize, %d, or -1 for none", pad, c.VocabSize)
	}
	if _, err := ActivationByName(c.HiddenAct); err != nil {
		return c, fmt.Errorf("HiddenAct: %w", err)
	}
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

// Positive replaces a zero setting by its default, and refuses one that is not positive.
func Positive[T int64 | float64](name string, value *T, fallback T) error {
	if *value == 0 {
		*value = fallback
	}
	if !(*value > 0) {
		return fmt.Errorf("%s is %v; want a positive number", name, *value)
	}
	return nil
}

// PositiveSize replaces a zero size by a square with the default side, and refuses one that is empty
// or larger than any realistic image.
func PositiveSize(name string, size *pretrained.Size, fallback int64) error {
	if *size == (pretrained.Size{}) {
		*size = pretrained.Size{Height: fallback, Width: fallback}
	}
	const most = 1 << 16
	if s := *size; s.Height < 1 || s.Width < 1 || max(s.Height, s.Width) > most {
		return fmt.Errorf("%s is %dx%d; want a height and a width of 1 to %d", name, s.Height, s.Width, most)
	}
	return nil
}

// MaxLayers is the largest number of layers, more than any model has. Without a limit, layers
// would take memory before a file of weights could prove the number wrong.
const MaxLayers = 512

// CheckLayers refuses a number of layers above [MaxLayers].
func CheckLayers(n int64) error {
	if n > MaxLayers {
		return fmt.Errorf("NumLayers is %d; want at most %d", n, MaxLayers)
	}
	return nil
}

// CheckProbability refuses values that are not a probability below 1; nil is accepted.
func CheckProbability(name string, p *float64) error {
	if p != nil && !(*p >= 0 && *p < 1) {
		return fmt.Errorf("%s is %g; want 0 to less than 1", name, *p)
	}
	return nil
}

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "vocab_size", Value: &c.VocabSize}, {Key: "hidden_size", Value: &c.HiddenSize}, {Key: "num_hidden_layers",
			Value: &c.NumLayers},
		{Key: "num_attention_heads", Value: &c.NumHeads}, {Key: "intermediate_size", Value: &c.IntermediateSize},
		{Key: "max_position_embeddings", Value: &c.MaxPositions}, {Key: "type_vocab_size", Value: &c.TypeVocabSize},
		{Key: "hidden_act", Value: &c.HiddenAct},
		{Key: "layer_norm_eps", Value: &c.LayerNormEps}, {Key: "initializer_range", Value: &c.InitializerRange},
		{Key: "hidden_dropout_prob", Value: &c.HiddenDropout}, {Key: "attention_probs_dropout_prob",
			Value: &c.AttentionDropout},
		{Key: "classifier_dropout", Value: &c.ClassifierDropout},
	}
}

// DecodeConfig decodes a config.json, whose model_type must be that of the kind. The result is not
// resolved.
func DecodeConfig(d pretrained.Document, k Kind) (Config, error) {
	d = maps.Clone(d)
	c := Config{}
	var err error
	if c.Head, err = DecodeEncoder(d, k.Type, c.fields(), &c.PadTokenID); err != nil {
		return c, err
	}
	c.Extra = d
	return c, nil
}

// DecodeEncoder removes from a config.json, whose model_type must be kind, the given fields, the
// padding token (null: -1, for none) and the head. If pad is nil, the model does not read texts, and
// a padding token is left in d.
func DecodeEncoder(d pretrained.Document, kind string, fields []pretrained.Field, pad **int64) (h classify.Head,
	err error) {
	if err := demandType(d, kind); err != nil {
		return h, err
	}
	if err := demandEncoder(d); err != nil {
		return h, err
	}
	given, explicit := d["pad_token_id"]
	if pad != nil {
		fields = append(fields, pretrained.Field{Key: "pad_token_id", Value: pad})
	}
	if err := d.Decode(fields); err != nil {
		return h, err
	}
	if pad != nil && explicit && string(given) == "null" {
		*pad = new(int64(-1))
	}
	return classify.DecodeHead(d)
}

// demandType returns an error if a config.json is for a model of another type.
func demandType(d pretrained.Document, want string) error {
	var found string
	if err := d.Decode([]pretrained.Field{{Key: "model_type", Value: &found}}); err != nil {
		return err
	}
	if found != want {
		return fmt.Errorf("model_type is %q; want %q", found, want)
	}
	return nil
}

// demandEncoder returns an error for settings that would change what an encoder computes, naming
// the setting.
func demandEncoder(d pretrained.Document) error {
	for _, s := range []struct {
		key    string
		wanted []string
	}{
		{"is_decoder", []string{"false"}},
		{"add_cross_attention", []string{"false"}},
		{"is_encoder_decoder", []string{"false"}},
		{"position_embedding_type", []string{`"absolute"`}},
		{"chunk_size_feed_forward", []string{"0"}},
		{"pruned_heads", []string{"{}"}},
		{"quantization_config", []string{"null"}},
	} {
		if err := d.Demand(s.key, s.wanted...); err != nil {
			return err
		}
	}
	return nil
}

// Document returns the config.json of a resolved config, for transformers' class of the given
// name.
func (c Config) Document(k Kind, architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	pad := c.PadTokenID
	if *pad < 0 {
		pad = nil
	}
	fields := append(c.fields(), pretrained.Field{Key: "pad_token_id", Value: &pad})
	if err := d.EncodeModel(k.Type, architecture, fields); err != nil {
		return nil, err
	}
	return d, c.Head.Encode(d)
}

// CountedPositions refuses a resolved config whose model counts positions from the padding token
// on but has no padding token, or no positions after it.
func (c Config) CountedPositions() error {
	if *c.PadTokenID < 0 {
		return fmt.Errorf("PadTokenID is -1, none; want one, from which positions are counted")
	}
	if c.MaxPositions <= *c.PadTokenID+1 {
		return fmt.Errorf("MaxPositions is %d; the first %d are not used, so want more", c.MaxPositions,
			*c.PadTokenID+1)
	}
	return nil
}

// Blueprint returns the blueprint of a resolved config, without Limits, Document and Build.
func (c Config) Blueprint(k Kind, class, prefix string) Blueprint {
	return Blueprint{
		ModelType: k.Type, Class: class, Prefix: prefix, HiddenSize: c.HiddenSize, EmbeddingSize: c.HiddenSize,
		Activation: c.LayerOptions().Activation, LayerNormEps: c.LayerNormEps, InitializerRange: c.InitializerRange,
		Dropout: *c.HiddenDropout, ClassifierDropout: c.HeadDropout(), Head: c.Head,
		Document: func(architecture string) (pretrained.Document, error) { return c.Document(k, architecture) },
	}
}

// LayerOptions returns the options of the layers.
func (c Config) LayerOptions() LayerOptions {
	activation, err := ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("transformer.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	return LayerOptions{
		HiddenSize: c.HiddenSize, Heads: c.NumHeads, IntermediateSize: c.IntermediateSize, Activation: activation,
		HiddenDropout: *c.HiddenDropout, AttentionDropout: *c.AttentionDropout, LayerNormEps: c.LayerNormEps,
		Attention: c.Attention,
	}
}

// HeadDropout returns the dropout probability before the classifier.
func (c Config) HeadDropout() float64 {
	if c.ClassifierDropout != nil {
		return *c.ClassifierDropout
	}
	return *c.HiddenDropout
}

// Padding returns PadTokenID for an embedding, or nil if there is none.
func (c Config) Padding() *int64 {
	if *c.PadTokenID < 0 {
		return nil
	}
	return c.PadTokenID
}
