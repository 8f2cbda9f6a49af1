package dinov2

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers' Dinov2Config and
// Dinov2WithRegistersConfig. The zero value is dinov2-base.
type Config struct {
	// Type is model_type: "dinov2" or "dinov2_with_registers". Zero: dinov2.
	Type string

	HiddenSize       int64   // zero: 768
	NumLayers        int64   // num_hidden_layers; zero: 12
	NumHeads         int64   // num_attention_heads; zero: 12
	MLPRatio         int64   // mlp_ratio, size of the feed-forward part relative to HiddenSize; zero: 4
	HiddenAct        string  // see [transformer.ActivationByName]; zero: gelu
	HiddenDropout    float64 // hidden_dropout_prob
	AttentionDropout float64 // attention_probs_dropout_prob
	DropPathRate     float64 // probability that a sample skips a part of a layer in training
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02
	LayerNormEps     float64 // zero: 1e-6

	ImageSize         int64   // height and width of the images whose positions it has, in pixels; zero: 224
	PatchSize         int64   // height and width of a patch; zero: 14, with registers 16
	NumChannels       int64   // of an image; zero: 3
	NumRegisterTokens *int64  // tokens without a meaning of their own; nil: 4. Only with registers
	QKVBias           *bool   // query, key and value have a bias; nil: true
	LayerScaleValue   float64 // layerscale_value, initial factors of what a layer adds; zero: 1
	UseSwiGLUFFN      bool    // use_swiglu_ffn: the feed-forward part is gated, as in dinov2-giant
	UseMaskToken      *bool   // use_mask_token: there is a token for hidden patches, which is not trained here; nil: true

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of a classifier mean

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// classes are the prefixes of transformers' class names by model_type.
var classes = map[string]string{"dinov2": "Dinov2", withRegisters: "Dinov2WithRegisters"}

const withRegisters = "dinov2_with_registers"

// registers is the number of register tokens.
func (c Config) registers() int64 {
	if c.Type != withRegisters {
		return 0
	}
	return *c.NumRegisterTokens
}

func (c *Config) fields() []pretrained.Field {
	float := func(f *float64) any { return (*pretrained.Float)(f) }
	fields := []pretrained.Field{
		{Key: "hidden_size", Value: &c.HiddenSize}, {Key: "num_hidden_layers", Value: &c.NumLayers},
		{Key: "num_attention_heads", Value: &c.NumHeads}, {Key: "mlp_ratio", Value: &c.MLPRatio},
		{Key: "hidden_act", Value: &c.HiddenAct}, {Key: "hidden_dropout_prob", Value: float(&c.HiddenDropout)},
		{Key: "attention_probs_dropout_prob", Value: float(&c.AttentionDropout)},
		{Key: "drop_path_rate", Value: float(&c.DropPathRate)},
		{Key: "initializer_range", Value: float(&c.InitializerRange)},
		{Key: "layer_norm_eps", Value: float(&c.LayerNormEps)},
		{Key: "image_size", Value: &c.ImageSize}, {Key: "patch_size", Value: &c.PatchSize},
		{Key: "num_channels", Value: &c.NumChannels}, {Key: "qkv_bias", Value: &c.QKVBias},
		{Key: "layerscale_value", Value: float(&c.LayerScaleValue)}, {Key: "use_swiglu_ffn", Value: &c.UseSwiGLUFFN},
	}
	if c.Type == withRegisters {
		return append(fields, pretrained.Field{Key: "num_register_tokens", Value: &c.NumRegisterTokens})
	}
	return append(fields, pretrained.Field{Key: "use_mask_token", Value: &c.UseMaskToken})
}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := maps.Clone(d).Decode([]pretrained.Field{{Key: "model_type", Value: &c.Type}}); err != nil {
		return c, err
	}
	c.LayerScaleValue = 1
	if c.Head, err = transformer.DecodeEncoder(d, c.Type, c.fields(), nil); err != nil {
		return c, err
	}
	if c.LayerScaleValue == 0 {
		return c, errors.New("layerscale_value is 0; want another number, or the layers add nothing to their input")
	}
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	c.Type = cmp.Or(c.Type, "dinov2")
	if classes[c.Type] == "" {
		return c, fmt.Errorf("model_type is %q; want one of %q", c.Type, slices.Sorted(maps.Keys(classes)))
	}
	patch := int64(14)
	if c.Type == withRegisters {
		patch = 16
	}
	if err := cmp.Or(
		transformer.Positive("HiddenSize", &c.HiddenSize, 768),
		transformer.Positive("NumLayers", &c.NumLayers, 12),
		transformer.Positive("NumHeads", &c.NumHeads, 12),
		transformer.Positive("MLPRatio", &c.MLPRatio, 4),
		transformer.Positive("ImageSize", &c.ImageSize, 224),
		transformer.Positive("PatchSize", &c.PatchSize, patch),
		transformer.Positive("NumChannels", &c.NumChannels, 3),
		transformer.CheckLayers(c.NumLayers),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
		transformer.Positive("LayerNormEps", &c.LayerNormEps, 1e-6),
		transformer.CheckProbability("HiddenDropout", &c.HiddenDropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("DropPathRate", &c.DropPathRate),
	); err != nil {
		return c, err
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, "gelu")
	c.NumRegisterTokens = cmp.Or(c.NumRegisterTokens, new(int64(4)))
	c.LayerScaleValue = cmp.Or(c.LayerScaleValue, 1)
	c.QKVBias, c.UseMaskToken = cmp.Or(c.QKVBias, new(true)), cmp.Or(c.UseMaskToken, new(true))
	return c.checked()
}

func (c Config) checked() (_ Config, err error) {
	const most = 1 << 16 // pixels or tokens, more than any realistic image has
	switch n := *c.NumRegisterTokens; {
	case c.HiddenSize%c.NumHeads != 0:
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	case c.PatchSize > c.ImageSize || c.ImageSize > most:
		return c, fmt.Errorf("PatchSize is %d and ImageSize is %d; want patches no larger than images, and these no "+
			"larger than %d", c.PatchSize, c.ImageSize, most)
	case n < 0 || n > most:
		return c, fmt.Errorf("NumRegisterTokens is %d; want 0 to %d", n, most)
	}
	if _, err := transformer.ActivationByName(c.HiddenAct); err != nil {
		return c, fmt.Errorf("HiddenAct: %w", err)
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
	if err := d.EncodeModel(c.Type, architecture, c.fields()); err != nil {
		return nil, err
	}
	return d, c.Head.Encode(d)
}

// Blueprint returns the encoder described by a config.json, for the heads of package auto. Zero
// fields of the head are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Head, c.Attention = h.Over(c.Head), a
	return c.Blueprint()
}

// Blueprint returns the encoder described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	return transformer.Blueprint{
		ModelType: c.Type, Class: classes[c.Type], Prefix: c.Type, HiddenSize: 2 * c.HiddenSize,
		InitializerRange: c.InitializerRange, Truncated: true, Head: c.Head, Document: c.document,
		ImageProcessor: "BitImageProcessor",
		Images: classify.ImageLimits{Channels: c.NumChannels, Height: c.ImageSize, Width: c.ImageSize,
			AnySize: true},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, ForwardImages: func(x torch.Tensor) torch.Tensor {
				hidden := m.Forward(x)
				first := 1 + c.registers()
				patches := hidden.Narrow(1, first, hidden.Size(1)-first)
				return torch.Cat([]torch.Tensor{hidden.Select(1, 0), patches.MeanDim([]int64{1}, false, torch.DefaultDType)}, 1)
			}, SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
				FuseQKVProjections: m.Encoder.FuseQKVProjections}
		},
	}, nil
}
