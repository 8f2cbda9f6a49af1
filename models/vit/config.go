package vit

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers. The zero value is ViTConfig():
// ViT-base for patches of 16x16 in images of 224x224.
type Config struct {
	HiddenSize       int64   // zero: 768
	NumLayers        int64   // num_hidden_layers; zero: 12
	NumHeads         int64   // num_attention_heads; zero: 12
	IntermediateSize int64   // zero: 3072
	HiddenAct        string  // see [transformer.ActivationByName]; zero: gelu
	HiddenDropout    float64 // hidden_dropout_prob
	AttentionDropout float64 // attention_probs_dropout_prob
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02
	LayerNormEps     float64 // zero: 1e-12

	ImageSize   Size  // of the images, in pixels; zero: 224x224
	PatchSize   Size  // zero: 16x16
	NumChannels int64 // of an image; zero: 3
	QKVBias     *bool // query, key and value have a bias; nil: true

	// DeiT selects DeiTModel, which has one more token, trained by distillation from another
	// network.
	DeiT bool

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of a classifier mean

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// Size is a height and a width. In config.json it is one number for both, or a list of the two.
type Size = pretrained.Size

func (c Config) modelType() string {
	if c.DeiT {
		return "deit"
	}
	return "vit"
}

// tokens returns the number of tokens before the patches.
func (c Config) tokens() int64 {
	if c.DeiT {
		return 2
	}
	return 1
}

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "hidden_size", Value: &c.HiddenSize}, {Key: "num_hidden_layers", Value: &c.NumLayers},
		{Key: "num_attention_heads", Value: &c.NumHeads}, {Key: "intermediate_size", Value: &c.IntermediateSize},
		{Key: "hidden_act", Value: &c.HiddenAct}, {Key: "hidden_dropout_prob", Value: &c.HiddenDropout},
		{Key: "attention_probs_dropout_prob", Value: &c.AttentionDropout},
		{Key: "initializer_range", Value: (*pretrained.Float)(&c.InitializerRange)},
		{Key: "layer_norm_eps", Value: (*pretrained.Float)(&c.LayerNormEps)},
		{Key: "image_size", Value: &c.ImageSize}, {Key: "patch_size", Value: &c.PatchSize},
		{Key: "num_channels", Value: &c.NumChannels}, {Key: "qkv_bias", Value: &c.QKVBias},
	}
}

// DecodeConfig decodes a config.json and refuses settings that the model does not support. Defaults
// are not filled in.
func DecodeConfig(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	c.DeiT = string(d["model_type"]) == `"deit"`
	if c.Head, err = transformer.DecodeEncoder(d, c.modelType(), c.fields(), nil); err != nil {
		return c, err
	}
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := cmp.Or(
		transformer.PositiveSize("ImageSize", &c.ImageSize, 224),
		transformer.PositiveSize("PatchSize", &c.PatchSize, 16),
		transformer.Positive("HiddenSize", &c.HiddenSize, 768),
		transformer.Positive("NumLayers", &c.NumLayers, 12),
		transformer.Positive("NumHeads", &c.NumHeads, 12),
		transformer.Positive("IntermediateSize", &c.IntermediateSize, 3072),
		transformer.Positive("NumChannels", &c.NumChannels, 3),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
		transformer.Positive("LayerNormEps", &c.LayerNormEps, 1e-12),
		transformer.CheckLayers(c.NumLayers),
		transformer.CheckProbability("HiddenDropout", &c.HiddenDropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
	); err != nil {
		return c, err
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, "gelu")
	if c.QKVBias == nil {
		c.QKVBias = new(true)
	}
	return c.checked()
}

func (c Config) checked() (_ Config, err error) {
	switch image, patch := c.ImageSize, c.PatchSize; {
	case c.HiddenSize%c.NumHeads != 0:
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	case patch.Height > image.Height || patch.Width > image.Width:
		return c, fmt.Errorf("PatchSize is %dx%d, but ImageSize is %dx%d", patch.Height, patch.Width,
			image.Height, image.Width)
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
	if err := d.EncodeModel(c.modelType(), architecture, c.fields()); err != nil {
		return nil, err
	}
	return d, c.Head.Encode(d)
}

// Blueprint returns the encoder described by a config.json, for the heads of package auto. Zero
// fields of the head are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := DecodeConfig(d)
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
	class := "ViT"
	if c.DeiT {
		class = "DeiT"
	}
	return transformer.Blueprint{
		ModelType: c.modelType(), Class: class, Prefix: c.modelType(), HiddenSize: c.HiddenSize,
		InitializerRange: c.InitializerRange, Head: c.Head, Document: c.document,
		Rename: fromMemory.Replace, InMemory: toMemory.Replace, ImageProcessor: class + "ImageProcessor",
		Images: classify.ImageLimits{Channels: c.NumChannels, Height: c.ImageSize.Height, Width: c.ImageSize.Width},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m,
				ForwardImages:            func(x torch.Tensor) torch.Tensor { return m.Forward(x).Select(1, 0) },
				InterpolatePosEncoding:   m.InterpolatePosEncoding,
				SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
				FuseQKVProjections:       m.Encoder.FuseQKVProjections}
		},
	}, nil
}
