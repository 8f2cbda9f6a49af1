package convnext

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model with the settings of transformers. The zero value is ConvNextConfig():
// ConvNeXt-tiny.
type Config struct {
	HiddenSizes      []int64 // channels of each stage; nil: 96, 192, 384, 768
	Depths           []int64 // layers of each stage; nil: 3, 3, 9, 3
	HiddenAct        string  // see [transformer.ActivationByName]; zero: gelu
	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02
	LayerNormEps     float64 // of the normalization before the head; zero: 1e-12. Others have 1e-6
	// LayerScaleInitValue is the initial value of the factors that the outputs of a layer are
	// multiplied by, one per channel. Zero: 1e-6; negative: there are none. V2 has none.
	LayerScaleInitValue float64
	// DropPathRate is the probability that the last layer is skipped for an image in training. It
	// grows linearly from 0 for the first layer.
	DropPathRate float64

	ImageSize   pretrained.Size // of the images that the model is meant for, in pixels; zero: 224x224
	PatchSize   pretrained.Size // zero: 4x4
	NumChannels int64           // of an image; zero: 3

	// V2 selects ConvNextV2Model, whose layers normalize the responses of their channels ([GRN]).
	V2 bool

	classify.Head // what the logits of a classifier mean

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document

	stages int64 // num_stages; zero: as many as Depths
}

func (c Config) modelType() string {
	if c.V2 {
		return "convnextv2"
	}
	return "convnext"
}

func (c *Config) fields() []pretrained.Field {
	fields := []pretrained.Field{
		{Key: "num_stages", Value: &c.stages}, {Key: "hidden_sizes", Value: &c.HiddenSizes},
		{Key: "depths", Value: &c.Depths},
		{Key: "hidden_act", Value: &c.HiddenAct},
		{Key: "initializer_range", Value: (*pretrained.Float)(&c.InitializerRange)},
		{Key: "layer_norm_eps", Value: (*pretrained.Float)(&c.LayerNormEps)},
		{Key: "drop_path_rate", Value: &c.DropPathRate},
		{Key: "image_size", Value: &c.ImageSize}, {Key: "patch_size", Value: &c.PatchSize},
		{Key: "num_channels", Value: &c.NumChannels},
	}
	if !c.V2 {
		fields = append(fields, pretrained.Field{Key: "layer_scale_init_value",
			Value: (*pretrained.Float)(&c.LayerScaleInitValue)})
	}
	return fields
}

// defaultLayerScale is the default of LayerScaleInitValue.
const defaultLayerScale = 1e-6

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	c.V2 = string(d["model_type"]) == `"convnextv2"`
	c.LayerScaleInitValue = defaultLayerScale
	if c.Head, err = transformer.DecodeEncoder(d, c.modelType(), c.fields(), nil); err != nil {
		return c, err
	}
	if c.LayerScaleInitValue <= 0 {
		c.LayerScaleInitValue = -1
	}
	c.Extra = d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := cmp.Or(
		transformer.CheckStages(&c.HiddenSizes, &c.Depths, []int64{96, 192, 384, 768}, []int64{3, 3, 9, 3}),
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
		transformer.Positive("LayerNormEps", &c.LayerNormEps, 1e-12),
		transformer.CheckProbability("DropPathRate", &c.DropPathRate),
		transformer.PositiveSize("ImageSize", &c.ImageSize, 224),
		transformer.PositiveSize("PatchSize", &c.PatchSize, 4),
		transformer.Positive("NumChannels", &c.NumChannels, 3),
	); err != nil {
		return c, err
	}
	if c.stages = cmp.Or(c.stages, int64(len(c.Depths))); c.stages != int64(len(c.Depths)) {
		return c, fmt.Errorf("num_stages is %d, but Depths is %v; want a number for each stage", c.stages, c.Depths)
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, "gelu")
	if _, err := transformer.ActivationByName(c.HiddenAct); err != nil {
		return c, fmt.Errorf("HiddenAct: %w", err)
	}
	c.LayerScaleInitValue = cmp.Or(c.LayerScaleInitValue, defaultLayerScale)
	if c.V2 {
		c.LayerScaleInitValue = -1
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	c.LayerScaleInitValue = max(c.LayerScaleInitValue, 0)
	if err := d.EncodeModel(c.modelType(), architecture, c.fields()); err != nil {
		return nil, err
	}
	return d, c.Head.Encode(d)
}

// Blueprint returns the model described by a config.json, for the heads of package auto. Zero
// fields of the head are taken from the file. The model has no attention, so a must be empty.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	if a != "" {
		return b, fmt.Errorf("Options.Attention is %q; want none: a ConvNeXt has no attention", a)
	}
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Head = h.Over(c.Head)
	return c.Blueprint()
}

// Blueprint returns the model described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	class := "ConvNext"
	if c.V2 {
		class = "ConvNextV2"
	}
	return transformer.Blueprint{
		ModelType: c.modelType(), Class: class, Prefix: c.modelType(), HiddenSize: c.HiddenSizes[len(c.HiddenSizes)-1],
		InitializerRange: c.InitializerRange, Head: c.Head, Document: c.document, ImageProcessor: "ConvNextImageProcessor",
		Images: classify.ImageLimits{Channels: c.NumChannels, Height: c.ImageSize.Height, Width: c.ImageSize.Width,
			AnySize: true},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, ForwardImages: m.Forward,
				SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing}
		},
	}, nil
}
