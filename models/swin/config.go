package swin

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers. The zero value is SwinConfig():
// swin-tiny-patch4-window7-224. Lists have a number for each stage.
type Config struct {
	EmbedDim   int64   // channels of the first stage; each further stage has twice as many; zero: 96
	Depths     []int64 // layers; nil: 2, 2, 6, 2
	NumHeads   []int64 // nil: 3, 6, 12, 24
	WindowSize int64   // height and width of a window, in positions of a map; zero: 7
	MLPRatio   float64 // width of the feed-forward parts divided by the channels; zero: 4
	QKVBias    *bool   // query, key and value have a bias; nil: true

	HiddenAct        string  // see [transformer.ActivationByName]; zero: gelu
	HiddenDropout    float64 // hidden_dropout_prob
	AttentionDropout float64 // attention_probs_dropout_prob
	// DropPathRate is the probability that the attention of the last layer is skipped for an image in
	// training. It grows linearly from 0 for the first layer. Nil: 0.1.
	DropPathRate     *float64
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02
	LayerNormEps     float64 // of the normalizations in layers and of the last one; zero: 1e-5

	ImageSize   Size  // of the images that positions are embedded for, in pixels; zero: 224x224
	PatchSize   Size  // zero: 4x4
	NumChannels int64 // of an image; zero: 3
	// UseAbsoluteEmbeddings adds an embedding of its position to each patch. Then images must have the
	// size ImageSize, unless positions are interpolated.
	UseAbsoluteEmbeddings bool

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of a classifier mean

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document

	stages int64 // num_layers; zero: as many as Depths
	hidden int64 // hidden_size; zero: the channels of the last stage
}

// Size is a height and a width. In config.json it is one number for both, or a list of the two.
type Size = pretrained.Size

const (
	modelType = "swin"
	// mostStages and largestWindow are far above those of any model.
	mostStages, largestWindow = 16, 64
)

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "embed_dim", Value: &c.EmbedDim}, {Key: "depths", Value: &c.Depths},
		{Key: "num_heads", Value: &c.NumHeads}, {Key: "window_size", Value: &c.WindowSize},
		{Key: "mlp_ratio", Value: (*pretrained.Float)(&c.MLPRatio)}, {Key: "qkv_bias", Value: &c.QKVBias},
		{Key: "hidden_act", Value: &c.HiddenAct},
		{Key: "hidden_dropout_prob", Value: (*pretrained.Float)(&c.HiddenDropout)},
		{Key: "attention_probs_dropout_prob", Value: (*pretrained.Float)(&c.AttentionDropout)},
		{Key: "drop_path_rate", Value: &c.DropPathRate},
		{Key: "initializer_range", Value: (*pretrained.Float)(&c.InitializerRange)},
		{Key: "layer_norm_eps", Value: (*pretrained.Float)(&c.LayerNormEps)},
		{Key: "image_size", Value: &c.ImageSize}, {Key: "patch_size", Value: &c.PatchSize},
		{Key: "num_channels", Value: &c.NumChannels},
		{Key: "use_absolute_embeddings", Value: &c.UseAbsoluteEmbeddings},
		{Key: "num_layers", Value: &c.stages}, {Key: "hidden_size", Value: &c.hidden},
	}
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := cmp.Or(
		transformer.PositiveSize("ImageSize", &c.ImageSize, 224),
		transformer.PositiveSize("PatchSize", &c.PatchSize, 4),
		transformer.Positive("EmbedDim", &c.EmbedDim, 96),
		transformer.Positive("WindowSize", &c.WindowSize, 7),
		transformer.Positive("MLPRatio", &c.MLPRatio, 4),
		transformer.Positive("NumChannels", &c.NumChannels, 3),
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
		transformer.Positive("LayerNormEps", &c.LayerNormEps, 1e-5),
		c.checkStages(),
	); err != nil {
		return c, err
	}
	c.DropPathRate, c.QKVBias = cmp.Or(c.DropPathRate, new(0.1)), cmp.Or(c.QKVBias, new(true))
	if err := cmp.Or(
		transformer.CheckProbability("HiddenDropout", &c.HiddenDropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("DropPathRate", c.DropPathRate),
	); err != nil {
		return c, err
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, "gelu")
	return c.checked()
}

// checkStages fills in the defaults of the lists and of what follows from them, and checks them.
func (c *Config) checkStages() error {
	if c.Depths == nil {
		c.Depths = []int64{2, 2, 6, 2}
	}
	if c.NumHeads == nil {
		c.NumHeads = []int64{3, 6, 12, 24}
	}
	n := len(c.Depths)
	if n == 0 || n > mostStages || len(c.NumHeads) != n {
		return fmt.Errorf("depths is %v and num_heads is %v; want as many numbers in each, 1 to %d", c.Depths, c.NumHeads,
			mostStages)
	}
	layers := int64(0)
	for i, depth := range c.Depths {
		if depth < 1 || c.NumHeads[i] < 1 {
			return fmt.Errorf("depths is %v and num_heads is %v; want positive numbers", c.Depths, c.NumHeads)
		}
		if size := c.channels(i); size%c.NumHeads[i] != 0 {
			return fmt.Errorf("NumHeads is %v; want divisors of the channels, which stage %d has %d of", c.NumHeads, i, size)
		}
		layers += min(depth, transformer.MaxLayers+1)
	}
	if layers > transformer.MaxLayers {
		return fmt.Errorf("the layers of Depths, %v, are too many; want at most %d", c.Depths, transformer.MaxLayers)
	}
	if c.stages = cmp.Or(c.stages, int64(n)); c.stages != int64(n) {
		return fmt.Errorf("num_layers is %d, but Depths is %v; want a number for each stage", c.stages, c.Depths)
	}
	last := c.channels(n - 1)
	if c.hidden = cmp.Or(c.hidden, last); c.hidden != last {
		return fmt.Errorf("hidden_size is %d; want the channels of the last stage, %d", c.hidden, last)
	}
	return nil
}

// channels is the number of channels of a stage.
func (c Config) channels(stage int) int64 { return c.EmbedDim << stage }

// inner is the width of the feed-forward parts of a stage.
func (c Config) inner(stage int) int64 { return int64(c.MLPRatio * float64(c.channels(stage))) }

func (c Config) checked() (_ Config, err error) {
	switch image, patch := c.ImageSize, c.PatchSize; {
	case c.WindowSize > largestWindow:
		return c, fmt.Errorf("WindowSize is %d; want at most %d", c.WindowSize, largestWindow)
	case c.inner(0) < 1:
		return c, fmt.Errorf("MLPRatio is %g, which leaves nothing of %d channels", c.MLPRatio, c.EmbedDim)
	case patch.Height > image.Height || patch.Width > image.Width:
		return c, fmt.Errorf("PatchSize is %dx%d, but ImageSize is %dx%d", patch.Height, patch.Width, image.Height,
			image.Width)
	case c.UseAbsoluteEmbeddings && (image.Height%patch.Height != 0 || image.Width%patch.Width != 0):
		return c, fmt.Errorf("ImageSize is %dx%d; want a multiple of PatchSize, %dx%d, for UseAbsoluteEmbeddings",
			image.Height, image.Width, patch.Height, patch.Width)
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
	if err := d.EncodeModel(modelType, architecture, c.fields()); err != nil {
		return nil, err
	}
	return d, c.Head.Encode(d)
}

// Blueprint returns the encoder described by a config.json, for the heads of package auto. Zero
// fields of the head are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	var c Config
	d = maps.Clone(d)
	if c.Head, err = transformer.DecodeEncoder(d, modelType, c.fields(), nil); err != nil {
		return b, err
	}
	c.Head, c.Attention, c.Extra = h.Over(c.Head), a, d
	return c.Blueprint()
}

// Blueprint returns the encoder described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "Swin", Prefix: modelType, HiddenSize: c.hidden,
		InitializerRange: c.InitializerRange, Head: c.Head, Document: c.document, Rename: fromMemory.Replace,
		InMemory: toMemory.Replace, NoWeights: []string{"relative_position_index"}, ImageProcessor: "ViTImageProcessor",
		Images: classify.ImageLimits{Channels: c.NumChannels, Height: c.ImageSize.Height, Width: c.ImageSize.Width,
			AnySize: !c.UseAbsoluteEmbeddings},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			backbone := transformer.Backbone{Module: m,
				ForwardImages: func(x torch.Tensor) torch.Tensor {
					return torch.Return(func() torch.Tensor { return pool(m.Forward(x)) })
				},
				SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
				FuseQKVProjections:       m.Encoder.FuseQKVProjections}
			if c.UseAbsoluteEmbeddings {
				backbone.InterpolatePosEncoding = m.InterpolatePosEncoding
			}
			return backbone
		},
	}, nil
}
