package segformer

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers. The zero value is SegformerConfig():
// the smallest SegFormer, B0. Lists have a number for each stage.
type Config struct {
	HiddenSizes []int64 // channels; nil: 32, 64, 160, 256
	Depths      []int64 // layers; nil: 2, 2, 2, 2
	NumHeads    []int64 // num_attention_heads; nil: 1, 2, 5, 8
	SRRatios    []int64 // how many times fewer rows and columns of keys and values there are; nil: 8, 4, 2, 1
	PatchSizes  []int64 // sides of the patches in pixels of the map before; nil: 7, 3, 3, 3
	Strides     []int64 // distances of the patches; nil: 4, 2, 2, 2
	MLPRatios   []int64 // width of the feed-forward parts divided by HiddenSizes; nil: 4, 4, 4, 4

	HiddenAct         string   // see [transformer.ActivationByName]; zero: gelu
	HiddenDropout     float64  // hidden_dropout_prob
	AttentionDropout  float64  // attention_probs_dropout_prob
	ClassifierDropout *float64 // classifier_dropout_prob, in the decode head; nil: 0.1
	// DropPathRate is the probability that the last layer is skipped for an image in training. It
	// grows linearly from 0 for the first layer. Nil: 0.1.
	DropPathRate     *float64
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02

	DecoderHiddenSize int64 // channels of the decode head; zero: 256
	// IgnoreIndex is semantic_loss_ignore_index, the label of pixels that the loss leaves out. Nil:
	// 255.
	IgnoreIndex *int64

	NumChannels int64 // of an image; zero: 3

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of a classifier mean

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document

	stages int64 // num_encoder_blocks; zero: as many as Depths
}

const (
	modelType = "segformer"
	// imageSize is the size of the images that the pretrained models of scenes are meant for, of
	// which config.json says nothing.
	imageSize = 512
	// mostPixels is far above any patch, stride or ratio.
	mostPixels = 1 << 10
)

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "num_encoder_blocks", Value: &c.stages}, {Key: "hidden_sizes", Value: &c.HiddenSizes},
		{Key: "depths", Value: &c.Depths}, {Key: "num_attention_heads", Value: &c.NumHeads},
		{Key: "sr_ratios", Value: &c.SRRatios}, {Key: "patch_sizes", Value: &c.PatchSizes},
		{Key: "strides", Value: &c.Strides}, {Key: "mlp_ratios", Value: &c.MLPRatios},
		{Key: "hidden_act", Value: &c.HiddenAct},
		{Key: "hidden_dropout_prob", Value: &c.HiddenDropout},
		{Key: "attention_probs_dropout_prob", Value: &c.AttentionDropout},
		{Key: "classifier_dropout_prob", Value: &c.ClassifierDropout},
		{Key: "drop_path_rate", Value: &c.DropPathRate},
		{Key: "initializer_range", Value: (*pretrained.Float)(&c.InitializerRange)},
		{Key: "decoder_hidden_size", Value: &c.DecoderHiddenSize},
		{Key: "semantic_loss_ignore_index", Value: &c.IgnoreIndex},
		{Key: "num_channels", Value: &c.NumChannels},
	}
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := cmp.Or(
		transformer.CheckStages(&c.HiddenSizes, &c.Depths, []int64{32, 64, 160, 256}, []int64{2, 2, 2, 2}),
		c.checkLists(),
	); err != nil {
		return c, err
	}
	if c.stages = cmp.Or(c.stages, int64(len(c.Depths))); c.stages != int64(len(c.Depths)) {
		return c, fmt.Errorf("num_encoder_blocks is %d, but Depths is %v; want a number for each stage", c.stages, c.Depths)
	}
	if c.ClassifierDropout == nil {
		c.ClassifierDropout = new(0.1)
	}
	if c.DropPathRate == nil {
		c.DropPathRate = new(0.1)
	}
	if c.IgnoreIndex == nil {
		c.IgnoreIndex = new(int64(255))
	}
	if err := cmp.Or(
		transformer.CheckProbability("HiddenDropout", &c.HiddenDropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("ClassifierDropout", c.ClassifierDropout),
		transformer.CheckProbability("DropPathRate", c.DropPathRate),
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
		transformer.Positive("DecoderHiddenSize", &c.DecoderHiddenSize, 256),
		transformer.Positive("NumChannels", &c.NumChannels, 3),
	); err != nil {
		return c, err
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, "gelu")
	if _, err := transformer.ActivationByName(c.HiddenAct); err != nil {
		return c, fmt.Errorf("HiddenAct: %w", err)
	}
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

// checkLists fills in the defaults of the lists besides HiddenSizes and Depths, and checks them.
func (c *Config) checkLists() error {
	for _, l := range []struct {
		name     string
		list     *[]int64
		fallback []int64
	}{{"NumHeads", &c.NumHeads, []int64{1, 2, 5, 8}}, {"SRRatios", &c.SRRatios, []int64{8, 4, 2, 1}},
		{"PatchSizes", &c.PatchSizes, []int64{7, 3, 3, 3}}, {"Strides", &c.Strides, []int64{4, 2, 2, 2}},
		{"MLPRatios", &c.MLPRatios, []int64{4, 4, 4, 4}}} {
		if *l.list == nil {
			*l.list = l.fallback
		}
		if len(*l.list) != len(c.Depths) {
			return fmt.Errorf("%s is %v and Depths is %v; want as many numbers in each", l.name, *l.list, c.Depths)
		}
		for _, n := range *l.list {
			if n < 1 || n > mostPixels {
				return fmt.Errorf("%s is %v; want numbers from 1 to %d", l.name, *l.list, mostPixels)
			}
		}
	}
	for i, size := range c.HiddenSizes {
		if size%c.NumHeads[i] != 0 {
			return fmt.Errorf("HiddenSizes is %v and NumHeads is %v; want a multiple of the heads in each stage", c.HiddenSizes,
				c.NumHeads)
		}
	}
	return nil
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

// Blueprint returns the model described by a config.json, for the heads of package auto. Zero
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

// Blueprint returns the model described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "Segformer", Prefix: modelType, HiddenSize: c.HiddenSizes[len(c.HiddenSizes)-1],
		InitializerRange: c.InitializerRange, Head: c.Head, Document: c.document, Rename: inFiles, InMemory: inMemory,
		ImageProcessor: "SegformerImageProcessor", IgnoreIndex: *c.IgnoreIndex,
		Images:   classify.ImageLimits{Channels: c.NumChannels, Height: imageSize, Width: imageSize, AnySize: true},
		MapsHead: func(b transformer.Builder) transformer.MapsHead { return newHead(c, b) },
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, ForwardImages: m.Forward, FeatureMaps: m.FeatureMaps,
				SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing}
		},
	}, nil
}

// activation returns the activation of a resolved config.
func (c Config) activation() transformer.Activation {
	f, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("segformer.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	return f
}
