package resnet

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes the ResNet of transformers, for package auto. The zero value is ResNetConfig():
// ResNet-50.
type Config struct {
	EmbeddingSize int64     // channels before the first stage; zero: 64
	HiddenSizes   []int64   // channels of each stage; nil: 256, 512, 1024, 2048
	Depths        []int64   // layers of each stage; nil: 3, 4, 6, 3
	LayerType     LayerType // zero: BottleneckLayer
	// HiddenAct is the activation after the first convolution and after each layer; zero: relu.
	// Within layers it is always relu. See [transformer.ActivationByName].
	HiddenAct              string
	DownsampleInFirstStage bool // the first stage halves height and width, too
	// DownsampleInBottleneck halves them in the first 1x1 convolution of a stage, as in the paper,
	// instead of in its first 3x3 convolution.
	DownsampleInBottleneck bool
	NumChannels            int64 // of an image; zero: 3

	classify.Head // what the logits of a classifier mean

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// LayerType says what the layers of a ResNet consist of.
type LayerType string

// The kinds of layers.
const (
	BasicLayer      LayerType = "basic"      // two 3x3 convolutions: ResNet-18 and 34
	BottleneckLayer LayerType = "bottleneck" // a 3x3 convolution with few channels between two of 1x1
)

const (
	modelType = "resnet"
	// reduction is the number of times that a bottleneck has fewer channels than its layer.
	reduction = 4
	// imageSize is the size of the images that pretrained models are meant for, of which config.json
	// says nothing.
	imageSize = 224
	// initializerRange is what transformers draws weights with before it draws them as it means to.
	initializerRange = 0.02
)

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "embedding_size", Value: &c.EmbeddingSize}, {Key: "hidden_sizes", Value: &c.HiddenSizes},
		{Key: "depths", Value: &c.Depths}, {Key: "layer_type", Value: &c.LayerType},
		{Key: "hidden_act", Value: &c.HiddenAct},
		{Key: "downsample_in_first_stage", Value: &c.DownsampleInFirstStage},
		{Key: "downsample_in_bottleneck", Value: &c.DownsampleInBottleneck},
		{Key: "num_channels", Value: &c.NumChannels},
	}
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := cmp.Or(
		transformer.Positive("EmbeddingSize", &c.EmbeddingSize, 64),
		transformer.CheckStages(&c.HiddenSizes, &c.Depths, []int64{256, 512, 1024, 2048}, []int64{3, 4, 6, 3}),
		transformer.Positive("NumChannels", &c.NumChannels, 3),
	); err != nil {
		return c, err
	}
	switch c.LayerType = cmp.Or(c.LayerType, BottleneckLayer); c.LayerType {
	case BasicLayer:
	case BottleneckLayer:
		for _, size := range c.HiddenSizes {
			if size < reduction {
				return c, fmt.Errorf("HiddenSizes is %v; want at least %d channels for a bottleneck", c.HiddenSizes, reduction)
			}
		}
	default:
		return c, fmt.Errorf("layer_type is %q; want %q or %q", c.LayerType, BasicLayer, BottleneckLayer)
	}
	c.HiddenAct = cmp.Or(c.HiddenAct, "relu")
	if _, err := transformer.ActivationByName(c.HiddenAct); err != nil {
		return c, fmt.Errorf("HiddenAct: %w", err)
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

// Blueprint returns the model described by a config.json, for package auto. Zero fields of the head
// are taken from the file. The model has no attention, so a must be empty.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	if a != "" {
		return b, fmt.Errorf("Options.Attention is %q; want none: a ResNet has no attention", a)
	}
	var c Config
	d = maps.Clone(d)
	if c.Head, err = transformer.DecodeEncoder(d, modelType, c.fields(), nil); err != nil {
		return b, err
	}
	c.Head, c.Extra = h.Over(c.Head), d
	return c.Blueprint()
}

// Blueprint returns the model described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "ResNet", Prefix: "resnet", HiddenSize: c.HiddenSizes[len(c.HiddenSizes)-1],
		InitializerRange: initializerRange, Head: c.Head, Document: c.document, ImageProcessor: "ConvNextImageProcessor",
		Images: classify.ImageLimits{Channels: c.NumChannels, Height: imageSize, Width: imageSize, AnySize: true},
		Heads: map[string]func(b transformer.Builder) transformer.Head{
			"ForImageClassification": func(b transformer.Builder) transformer.Head { return newHead(c, b) },
		},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newEncoder(c, builder)
			return transformer.Backbone{Module: m, ForwardImages: m.Forward}
		},
	}, nil
}

// activation returns the activation of a resolved config.
func (c Config) activation() transformer.Activation {
	f, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("resnet.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	return f
}
