package siglip

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers' SiglipConfig. The zero value is
// siglip-base-patch16-224.
type Config struct {
	Text   TextConfig
	Vision VisionConfig

	InitializerFactor float64 // of the initial classifier of images; zero: 1

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of SiglipForImageClassification mean

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// Layers are the settings that both encoders have.
type Layers struct {
	HiddenSize       int64   // zero: 768
	IntermediateSize int64   // zero: 3072
	NumLayers        int64   // num_hidden_layers; zero: 12
	NumHeads         int64   // num_attention_heads; zero: 12
	HiddenAct        string  // see [transformer.ActivationByName]; zero: gelu_pytorch_tanh
	LayerNormEps     float64 // zero: 1e-6
	AttentionDropout float64

	// Extra has the other settings of the encoder in config.json. They are written back.
	Extra pretrained.Document
}

// TextConfig describes the encoder of texts: SiglipTextConfig.
type TextConfig struct {
	Layers
	VocabSize      int64  // zero: 32000
	MaxPositions   int64  // max_position_embeddings, the largest number of tokens of a text; zero: 64
	PadTokenID     *int64 // fills texts if the tokenizer has no padding token; nil: 1
	ProjectionSize int64  // projection_size, size of the vectors of texts; zero: HiddenSize
}

// VisionConfig describes the encoder of images: SiglipVisionConfig. The size of the vectors of
// images is HiddenSize.
type VisionConfig struct {
	Layers
	ImageSize   int64 // height and width of images, in pixels; zero: 224
	PatchSize   int64 // height and width of a patch; zero: 16
	NumChannels int64 // of an image; zero: 3
	// UseHead is vision_use_head: there is a query whose result stands for an image, without which
	// images can be classified but not compared with texts. Nil: true.
	UseHead *bool
}

const (
	modelType  = "siglip"
	textType   = "siglip_text_model"
	visionType = "siglip_vision_model"
	ofImages   = "SiglipForImageClassification"
)

func (l *Layers) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "hidden_size", Value: &l.HiddenSize}, {Key: "intermediate_size", Value: &l.IntermediateSize},
		{Key: "num_hidden_layers", Value: &l.NumLayers}, {Key: "num_attention_heads", Value: &l.NumHeads},
		{Key: "hidden_act", Value: &l.HiddenAct},
		{Key: "layer_norm_eps", Value: (*pretrained.Float)(&l.LayerNormEps)},
		{Key: "attention_dropout", Value: (*pretrained.Float)(&l.AttentionDropout)},
	}
}

func (c *TextConfig) fields() []pretrained.Field {
	return append(c.Layers.fields(),
		pretrained.Field{Key: "vocab_size", Value: &c.VocabSize},
		pretrained.Field{Key: "max_position_embeddings", Value: &c.MaxPositions},
		pretrained.Field{Key: "pad_token_id", Value: &c.PadTokenID},
		pretrained.Field{Key: "projection_size", Value: &c.ProjectionSize})
}

func (c *VisionConfig) fields() []pretrained.Field {
	return append(c.Layers.fields(),
		pretrained.Field{Key: "image_size", Value: &c.ImageSize}, pretrained.Field{Key: "patch_size", Value: &c.PatchSize},
		pretrained.Field{Key: "num_channels", Value: &c.NumChannels}, c.useHead())
}

// useHead is a setting that few files have.
func (c *VisionConfig) useHead() pretrained.Field {
	return pretrained.Field{Key: "vision_use_head", Value: &c.UseHead}
}

// hasHead says that a query stands for an image.
func (c VisionConfig) hasHead() bool { return c.UseHead == nil || *c.UseHead }

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{{Key: "initializer_factor", Value: (*pretrained.Float)(&c.InitializerFactor)}}
}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := d.Decode(c.fields()); err != nil {
		return c, err
	}
	delete(d, "model_type")
	if c.Text.Extra, err = takeEncoder(d, "text_config", textType, c.Text.fields()); err != nil {
		return c, err
	}
	if c.Vision.Extra, err = takeEncoder(d, "vision_config", visionType, c.Vision.fields()); err != nil {
		return c, err
	}
	if c.Head, err = classify.DecodeHead(d); err != nil {
		return c, err
	}
	c.Extra = d
	return c, nil
}

// takeEncoder decodes the settings of an encoder, which it removes from a config.json.
func takeEncoder(d pretrained.Document, key, kind string, fields []pretrained.Field) (own pretrained.Document,
	err error) {
	raw := d[key]
	delete(d, key)
	own = pretrained.Document{}
	if raw != nil && !bytes.Equal(raw, []byte("null")) {
		if err := json.Unmarshal(raw, &own); err != nil {
			return nil, fmt.Errorf("%s: want an object: %w", key, err)
		}
	}
	if err := cmp.Or(own.Demand("model_type", fmt.Sprintf("%q", kind)), own.Decode(fields)); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	delete(own, "model_type")
	return own, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := c.Text.resolve(); err != nil {
		return c, fmt.Errorf("text_config: %w", err)
	}
	if err := c.Vision.resolve(); err != nil {
		return c, fmt.Errorf("vision_config: %w", err)
	}
	if c.Text.ProjectionSize != c.Vision.HiddenSize && c.Vision.hasHead() {
		return c, fmt.Errorf("text_config: ProjectionSize is %d; want the HiddenSize of images, %d, with whose vectors "+
			"those of texts are compared", c.Text.ProjectionSize, c.Vision.HiddenSize)
	}
	if err := transformer.Positive("InitializerFactor", &c.InitializerFactor, 1); err != nil {
		return c, err
	}
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

func (l *Layers) resolve() error {
	if err := cmp.Or(
		transformer.Positive("HiddenSize", &l.HiddenSize, 768),
		transformer.Positive("IntermediateSize", &l.IntermediateSize, 3072),
		transformer.Positive("NumLayers", &l.NumLayers, 12),
		transformer.Positive("NumHeads", &l.NumHeads, 12),
		transformer.Positive("LayerNormEps", &l.LayerNormEps, 1e-6),
		transformer.CheckLayers(l.NumLayers),
		transformer.CheckProbability("AttentionDropout", &l.AttentionDropout),
	); err != nil {
		return err
	}
	if l.HiddenSize%l.NumHeads != 0 {
		return fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", l.HiddenSize, l.NumHeads)
	}
	l.HiddenAct = cmp.Or(l.HiddenAct, "gelu_pytorch_tanh")
	if _, err := transformer.ActivationByName(l.HiddenAct); err != nil {
		return fmt.Errorf("HiddenAct: %w", err)
	}
	return nil
}

func (c *TextConfig) resolve() error {
	if err := cmp.Or(
		c.Layers.resolve(),
		transformer.Positive("VocabSize", &c.VocabSize, 32000),
		transformer.Positive("MaxPositions", &c.MaxPositions, 64),
		transformer.Positive("ProjectionSize", &c.ProjectionSize, c.HiddenSize),
	); err != nil {
		return err
	}
	c.PadTokenID = cmp.Or(c.PadTokenID, new(int64(1)))
	return nil
}

func (c *VisionConfig) resolve() error {
	const most = 1 << 16 // pixels, more than any realistic image has
	if err := cmp.Or(
		c.Layers.resolve(),
		transformer.Positive("ImageSize", &c.ImageSize, 224),
		transformer.Positive("PatchSize", &c.PatchSize, 16),
		transformer.Positive("NumChannels", &c.NumChannels, 3),
	); err != nil {
		return err
	}
	if c.PatchSize > c.ImageSize || c.ImageSize > most {
		return fmt.Errorf("PatchSize is %d and ImageSize is %d; want patches no larger than images, and these no larger "+
			"than %d", c.PatchSize, c.ImageSize, most)
	}
	return nil
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	vision := c.Vision.fields()
	if c.Vision.UseHead == nil { // transformers does not write the default
		vision = slices.DeleteFunc(vision, func(f pretrained.Field) bool { return f.Key == c.Vision.useHead().Key })
	}
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	if err := d.EncodeModel(modelType, architecture, c.fields()); err != nil {
		return nil, err
	}
	for _, e := range []struct {
		key, kind string
		fields    []pretrained.Field
		extra     pretrained.Document
	}{{"text_config", textType, c.Text.fields(), c.Text.Extra},
		{"vision_config", visionType, vision, c.Vision.Extra}} {
		own := pretrained.Document{}
		maps.Copy(own, e.extra)
		if err := own.Encode(append(e.fields, pretrained.Field{Key: "model_type", Value: &e.kind})); err != nil {
			return nil, err
		}
		if err := d.Encode([]pretrained.Field{{Key: e.key, Value: &own}}); err != nil {
			return nil, err
		}
	}
	if architecture != ofImages {
		return d, nil
	}
	return d, c.Head.Encode(d)
}

// Blueprint returns the model described by a config.json, for package auto. Zero fields of the head
// are taken from the file.
func Blueprint(d pretrained.Document, h classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
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
	text, vision := c.Text, c.Vision
	return transformer.Blueprint{
		ModelType: modelType, Class: "Siglip", Prefix: "vision_model", HiddenSize: vision.HiddenSize,
		InitializerRange: 0.02, Flax: true, Head: c.Head, Document: c.document,
		Heads: map[string]func(b transformer.Builder) transformer.Head{
			"ForImageClassification": func(b transformer.Builder) transformer.Head { return newClassifier(c, b) }},
		ImageProcessor: "SiglipImageProcessor",
		Limits: inputs.Limits{VocabSize: text.VocabSize, MaxLength: text.MaxPositions,
			PadTokenID: transformer.Filler(text.PadTokenID, nil, text.VocabSize)},
		Images: classify.ImageLimits{Channels: vision.NumChannels, Height: vision.ImageSize, Width: vision.ImageSize},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			if builder.Alone {
				return newModel(c, builder).backbone()
			}
			return newVisionModel(vision, c.Attention, builder).backbone()
		},
	}, nil
}

// backbone is the encoder of images for a classifier, which sees the mean of the patches.
func (m *VisionModel) backbone() transformer.Backbone {
	return transformer.Backbone{Module: m,
		ForwardImages: func(x torch.Tensor) torch.Tensor {
			return m.Forward(x).MeanDim([]int64{1}, false, torch.DefaultDType)
		},
		InterpolatePosEncoding:   m.InterpolatePosEncoding,
		SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
		FuseQKVProjections:       m.Encoder.FuseQKVProjections}
}

// backbone is the whole model, without a head.
func (m *Model) backbone() transformer.Backbone {
	return transformer.Backbone{Module: m, InputEmbeddings: m.TextModel.Embeddings.TokenEmbedding,
		Dual: &transformer.Dual{Texts: m.TextFeatures, Images: m.ImageFeatures, Similarities: m.Similarities,
			Sigmoid: true, FullLength: true},
		InterpolatePosEncoding: m.VisionModel.InterpolatePosEncoding,
		SetGradientCheckpointing: func(on bool) {
			m.TextModel.Encoder.SetGradientCheckpointing(on)
			m.VisionModel.Encoder.SetGradientCheckpointing(on)
		},
		FuseQKVProjections: func(on bool) {
			m.TextModel.Encoder.FuseQKVProjections(on)
			m.VisionModel.Encoder.FuseQKVProjections(on)
		}}
}
