package yolos

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/detect"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers. The zero value is YolosConfig().
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

	// ImageSize is the size of the images that positions are learned for, in pixels; those of others
	// are interpolated. Zero: 512x864.
	ImageSize   Size
	PatchSize   int64 // height and width of a patch; zero: 16
	NumChannels int64 // of an image; zero: 3
	QKVBias     *bool // query, key and value have a bias; nil: true

	NumDetectionTokens       int64 // the most objects that are found in an image; zero: 100
	UseMidPositionEmbeddings *bool // positions are added between the layers too; nil: true

	Loss detect.LossSettings // zero: the defaults

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // the classes, without "no object"; its ProblemType has no meaning

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// Size is a height and a width, a list of two in config.json.
type Size struct{ Height, Width int64 }

// MarshalJSON writes the list.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal([]int64{s.Height, s.Width}) }

// UnmarshalJSON reads the list.
func (s *Size) UnmarshalJSON(text []byte) error {
	var sides []int64
	if err := json.Unmarshal(text, &sides); err != nil || len(sides) != 2 {
		return errors.New("want a list of height and width")
	}
	*s = Size{sides[0], sides[1]}
	return nil
}

const modelType = "yolos"

func (c *Config) fields() []pretrained.Field {
	return append([]pretrained.Field{
		{Key: "hidden_size", Value: &c.HiddenSize}, {Key: "num_hidden_layers", Value: &c.NumLayers},
		{Key: "num_attention_heads", Value: &c.NumHeads}, {Key: "intermediate_size", Value: &c.IntermediateSize},
		{Key: "hidden_act", Value: &c.HiddenAct}, {Key: "hidden_dropout_prob", Value: &c.HiddenDropout},
		{Key: "attention_probs_dropout_prob", Value: &c.AttentionDropout},
		{Key: "initializer_range", Value: (*pretrained.Float)(&c.InitializerRange)},
		{Key: "layer_norm_eps", Value: (*pretrained.Float)(&c.LayerNormEps)},
		{Key: "image_size", Value: &c.ImageSize}, {Key: "patch_size", Value: &c.PatchSize},
		{Key: "num_channels", Value: &c.NumChannels}, {Key: "qkv_bias", Value: &c.QKVBias},
		{Key: "num_detection_tokens", Value: &c.NumDetectionTokens},
		{Key: "use_mid_position_embeddings", Value: &c.UseMidPositionEmbeddings},
	}, c.Loss.Fields()...)
}

// DecodeConfig decodes a config.json and refuses settings that the model does not support. Defaults
// are not filled in, except for those of the loss.
func DecodeConfig(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	c.Loss = detect.DefaultLossSettings()
	if c.Head, err = transformer.DecodeEncoder(d, modelType, c.fields(), nil); err != nil {
		return c, err
	}
	// transformers fails with it, since it takes hidden states of the encoder for those of the
	// tokens.
	if err := d.Demand("auxiliary_loss", "false"); err != nil {
		return c, err
	}
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	c.ImageSize = cmp.Or(c.ImageSize, Size{512, 864})
	if err := cmp.Or(
		transformer.Positive("ImageSize.Height", &c.ImageSize.Height, 512),
		transformer.Positive("ImageSize.Width", &c.ImageSize.Width, 864),
		transformer.Positive("PatchSize", &c.PatchSize, 16),
		transformer.Positive("HiddenSize", &c.HiddenSize, 768),
		transformer.Positive("NumLayers", &c.NumLayers, 12),
		transformer.Positive("NumHeads", &c.NumHeads, 12),
		transformer.Positive("IntermediateSize", &c.IntermediateSize, 3072),
		transformer.Positive("NumChannels", &c.NumChannels, 3),
		transformer.Positive("NumDetectionTokens", &c.NumDetectionTokens, 100),
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
	if c.UseMidPositionEmbeddings == nil {
		c.UseMidPositionEmbeddings = new(true)
	}
	return c.checked()
}

func (c Config) checked() (_ Config, err error) {
	rows, columns := c.grid()
	switch image, patch := c.ImageSize, c.PatchSize; {
	case c.HiddenSize%c.NumHeads != 0:
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	case rows == 0 || columns == 0:
		return c, fmt.Errorf("PatchSize is %d, but ImageSize is %dx%d", patch, image.Height, image.Width)
	case *c.UseMidPositionEmbeddings && image.Height*image.Width/(patch*patch) != rows*columns:
		return c, fmt.Errorf("ImageSize is %dx%d and PatchSize %d; want multiples of the patch, since there are "+
			"positions between the layers (UseMidPositionEmbeddings)", image.Height, image.Width, patch)
	}
	if _, err := transformer.ActivationByName(c.HiddenAct); err != nil {
		return c, fmt.Errorf("HiddenAct: %w", err)
	}
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	if c.Loss, err = c.Loss.Resolved(); err != nil {
		return c, err
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

// grid returns the numbers of rows and columns of patches that positions are learned for.
func (c Config) grid() (rows, columns int64) {
	return c.ImageSize.Height / c.PatchSize, c.ImageSize.Width / c.PatchSize
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	if err := d.EncodeModel(modelType, architecture, c.fields()); err != nil {
		return nil, err
	}
	err := c.Head.Encode(d)
	delete(d, "problem_type") // only classifiers have it
	return d, err
}

// Blueprint returns the model described by a config.json, for package auto. Zero fields of the head
// are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := DecodeConfig(d)
	if err != nil {
		return b, err
	}
	c.Head, c.Attention = h.Over(c.Head), a
	return c.Blueprint()
}

// Blueprint returns the model described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "Yolos", Prefix: "vit", HiddenSize: c.HiddenSize,
		InitializerRange: c.InitializerRange, Head: c.Head, Document: c.document, ImageProcessor: "YolosImageProcessor",
		Images: inputs.ImageLimits{Channels: c.NumChannels, Height: c.ImageSize.Height, Width: c.ImageSize.Width,
			AnySize: true},
		Detection: c.Loss,
		Heads: map[string]func(b transformer.Builder) transformer.Head{
			"ForObjectDetection": func(b transformer.Builder) transformer.Head { return newHead(c, b) },
		},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m,
				ForwardQueries:           func(x, _ torch.Tensor) (last, all torch.Tensor) { return m.Forward(x), all },
				SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
				FuseQKVProjections:       m.Encoder.FuseQKVProjections}
		},
	}, nil
}

// layers returns the settings of the layers, which are ViT's.
func (c Config) layers() vit.Config {
	return vit.Config{HiddenSize: c.HiddenSize, NumHeads: c.NumHeads, IntermediateSize: c.IntermediateSize,
		HiddenAct: c.HiddenAct, HiddenDropout: c.HiddenDropout, AttentionDropout: c.AttentionDropout,
		LayerNormEps: c.LayerNormEps, QKVBias: c.QKVBias, Attention: c.Attention}
}
