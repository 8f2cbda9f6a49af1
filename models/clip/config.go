package clip

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers' CLIPConfig. The zero value is
// clip-vit-base-patch32.
type Config struct {
	Text   TextConfig
	Vision VisionConfig

	ProjectionDim     int64    // projection_dim, size of the vectors of texts and images; zero: 512
	LogitScale        *float64 // logit_scale_init_value, logarithm of the factor of similarities; nil: 2.6592
	InitializerFactor float64  // of the initial projections, and of the classifier of images; zero: 1

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of CLIPForImageClassification mean

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// Layers are the settings that both encoders have.
type Layers struct {
	HiddenSize       int64   // zero: 512; images: 768
	IntermediateSize int64   // zero: 2048; images: 3072
	NumLayers        int64   // num_hidden_layers; zero: 12
	NumHeads         int64   // num_attention_heads; zero: 8; images: 12
	HiddenAct        string  // see [transformer.ActivationByName]; zero: quick_gelu
	LayerNormEps     float64 // zero: 1e-5
	AttentionDropout float64

	InitializerRange  float64 // standard deviation of some initial weights; zero: 0.02
	InitializerFactor float64 // factor of all initial weights; zero: 1

	// Extra has the other settings of the encoder in config.json. They are written back.
	Extra pretrained.Document
}

// TextConfig describes the encoder of texts: CLIPTextConfig.
type TextConfig struct {
	Layers
	VocabSize    int64  // zero: 49408
	MaxPositions int64  // max_position_embeddings, the largest number of tokens of a text; zero: 77
	PadTokenID   *int64 // nil: 1. Padding is masked, so any token will do
	// EOSTokenID ends a text, and its first hidden state stands for the text. Nil: 49407. With 2, as
	// files of the first models have it, the token with the largest id stands for the text.
	EOSTokenID *int64
}

// VisionConfig describes the encoder of images: CLIPVisionConfig.
type VisionConfig struct {
	Layers
	ImageSize   int64 // height and width of images, in pixels; zero: 224
	PatchSize   int64 // height and width of a patch; zero: 32
	NumChannels int64 // of an image; zero: 3
}

const (
	modelType       = "clip"
	textType        = "clip_text_model"
	visionType      = "clip_vision_model"
	ofImages        = "CLIPForImageClassification"
	largestTokenEOS = 2 // an EOSTokenID of the first models
)

func (l *Layers) fields() []pretrained.Field {
	float := func(f *float64) any { return (*pretrained.Float)(f) }
	return []pretrained.Field{
		{Key: "hidden_size", Value: &l.HiddenSize}, {Key: "intermediate_size", Value: &l.IntermediateSize},
		{Key: "num_hidden_layers", Value: &l.NumLayers}, {Key: "num_attention_heads", Value: &l.NumHeads},
		{Key: "hidden_act", Value: &l.HiddenAct}, {Key: "layer_norm_eps", Value: float(&l.LayerNormEps)},
		{Key: "attention_dropout", Value: float(&l.AttentionDropout)},
		{Key: "initializer_range", Value: float(&l.InitializerRange)},
		{Key: "initializer_factor", Value: float(&l.InitializerFactor)},
	}
}

func (c *TextConfig) fields() []pretrained.Field {
	return append(c.Layers.fields(),
		pretrained.Field{Key: "vocab_size", Value: &c.VocabSize},
		pretrained.Field{Key: "max_position_embeddings", Value: &c.MaxPositions},
		pretrained.Field{Key: "pad_token_id", Value: &c.PadTokenID},
		pretrained.Field{Key: "eos_token_id", Value: &c.EOSTokenID})
}

func (c *VisionConfig) fields() []pretrained.Field {
	return append(c.Layers.fields(),
		pretrained.Field{Key: "image_size", Value: &c.ImageSize}, pretrained.Field{Key: "patch_size", Value: &c.PatchSize},
		pretrained.Field{Key: "num_channels", Value: &c.NumChannels})
}

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "projection_dim", Value: &c.ProjectionDim}, {Key: "logit_scale_init_value", Value: &c.LogitScale},
		{Key: "initializer_factor", Value: (*pretrained.Float)(&c.InitializerFactor)},
	}
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

// takeEncoder decodes the settings of an encoder, which it removes from a config.json. Older files
// have them a second time under the key with "_dict" at its end. As in transformers those count,
// and what they leave out has its default.
func takeEncoder(d pretrained.Document, key, kind string, fields []pretrained.Field) (extra pretrained.Document,
	err error) {
	all := pretrained.Document{}
	for _, name := range []string{key, key + "_dict"} {
		raw, own := d[name], pretrained.Document{}
		delete(d, name)
		if raw == nil || bytes.Equal(raw, []byte("null")) {
			continue
		}
		if err := json.Unmarshal(raw, &own); err != nil {
			return nil, fmt.Errorf("%s: want an object: %w", name, err)
		}
		if name != key {
			for _, f := range fields {
				delete(all, f.Key)
			}
		}
		maps.Copy(all, own)
	}
	if err := all.Demand("model_type", fmt.Sprintf("%q", kind)); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if err := all.Decode(fields); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	delete(all, "model_type")
	return all, nil
}

// DecodeVisionConfig decodes the config.json of an encoder of images, as models that have one
// contain it. Defaults are not filled in.
func DecodeVisionConfig(d pretrained.Document) (c VisionConfig, err error) {
	d = maps.Clone(d)
	if err := cmp.Or(d.Demand("model_type", fmt.Sprintf("%q", visionType)), d.Decode(c.fields())); err != nil {
		return c, err
	}
	delete(d, "model_type")
	c.Extra = d
	return c, nil
}

// Resolved fills in the defaults and checks the settings.
func (c VisionConfig) Resolved() (VisionConfig, error) {
	err := c.resolve()
	return c, err
}

// Document returns the config.json of a resolved config.
func (c VisionConfig) Document() (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	kind := visionType
	return d, d.Encode(append(c.fields(), pretrained.Field{Key: "model_type", Value: &kind}))
}

// Tokens is the number of hidden states of an image: one for each patch, and the first for all of
// it.
func (c VisionConfig) Tokens() int64 { return 1 + c.side()*c.side() }

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if err := c.Text.resolve(); err != nil {
		return c, fmt.Errorf("text_config: %w", err)
	}
	if err := c.Vision.resolve(); err != nil {
		return c, fmt.Errorf("vision_config: %w", err)
	}
	if err := cmp.Or(
		transformer.Positive("ProjectionDim", &c.ProjectionDim, 512),
		transformer.Positive("InitializerFactor", &c.InitializerFactor, 1),
	); err != nil {
		return c, err
	}
	c.LogitScale = cmp.Or(c.LogitScale, new(2.6592))
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

func (l *Layers) resolve(hidden, intermediate, heads int64) error {
	if err := cmp.Or(
		transformer.Positive("HiddenSize", &l.HiddenSize, hidden),
		transformer.Positive("IntermediateSize", &l.IntermediateSize, intermediate),
		transformer.Positive("NumLayers", &l.NumLayers, 12),
		transformer.Positive("NumHeads", &l.NumHeads, heads),
		transformer.Positive("LayerNormEps", &l.LayerNormEps, 1e-5),
		transformer.Positive("InitializerRange", &l.InitializerRange, 0.02),
		transformer.Positive("InitializerFactor", &l.InitializerFactor, 1),
		transformer.CheckLayers(l.NumLayers),
		transformer.CheckProbability("AttentionDropout", &l.AttentionDropout),
	); err != nil {
		return err
	}
	if l.HiddenSize%l.NumHeads != 0 {
		return fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", l.HiddenSize, l.NumHeads)
	}
	l.HiddenAct = cmp.Or(l.HiddenAct, "quick_gelu")
	if _, err := transformer.ActivationByName(l.HiddenAct); err != nil {
		return fmt.Errorf("HiddenAct: %w", err)
	}
	return nil
}

func (c *TextConfig) resolve() error {
	if err := cmp.Or(
		c.Layers.resolve(512, 2048, 8),
		transformer.Positive("VocabSize", &c.VocabSize, 49408),
		transformer.Positive("MaxPositions", &c.MaxPositions, 77),
	); err != nil {
		return err
	}
	c.PadTokenID, c.EOSTokenID = cmp.Or(c.PadTokenID, new(int64(1))), cmp.Or(c.EOSTokenID, new(int64(49407)))
	if id := *c.EOSTokenID; id < 0 || id >= c.VocabSize {
		return fmt.Errorf("EOSTokenID is %d; want an id below VocabSize, %d", id, c.VocabSize)
	}
	return nil
}

func (c *VisionConfig) resolve() error {
	const most = 1 << 16 // pixels, more than any realistic image has
	if err := cmp.Or(
		c.Layers.resolve(768, 3072, 12),
		transformer.Positive("ImageSize", &c.ImageSize, 224),
		transformer.Positive("PatchSize", &c.PatchSize, 32),
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
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	if err := d.EncodeModel(modelType, architecture, c.fields()); err != nil {
		return nil, err
	}
	text, vision := pretrained.Document{}, pretrained.Document{}
	maps.Copy(text, c.Text.Extra)
	kind := textType
	err := text.Encode(append(c.Text.fields(), pretrained.Field{Key: "model_type", Value: &kind}))
	if err == nil {
		vision, err = c.Vision.Document()
	}
	if err == nil {
		err = d.Encode([]pretrained.Field{{Key: "text_config", Value: &text}, {Key: "vision_config", Value: &vision}})
	}
	if err != nil {
		return nil, err
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
	var ends []int64
	if *text.EOSTokenID != largestTokenEOS {
		ends = []int64{*text.EOSTokenID}
	}
	return transformer.Blueprint{
		ModelType: modelType, Class: "CLIP", Prefix: "vision_model", HiddenSize: vision.HiddenSize,
		InitializerRange: c.InitializerFactor, Head: c.Head, Document: c.document,
		EOSTokenIDs: ends, Heads: map[string]func(b transformer.Builder) transformer.Head{
			"ForImageClassification": func(b transformer.Builder) transformer.Head { return newClassifier(c, b) }},
		ImageProcessor: "CLIPImageProcessor",
		Limits: inputs.Limits{VocabSize: text.VocabSize, MaxLength: text.MaxPositions,
			PadTokenID: transformer.Filler(text.PadTokenID, []int64{*text.EOSTokenID}, text.VocabSize)},
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
			hidden := m.Forward(x)
			return hidden.Narrow(1, 1, hidden.Size(1)-1).MeanDim([]int64{1}, false, torch.DefaultDType)
		},
		InterpolatePosEncoding:   m.InterpolatePosEncoding,
		SetGradientCheckpointing: m.Encoder.SetGradientCheckpointing,
		FuseQKVProjections:       m.Encoder.FuseQKVProjections}
}

// backbone is the whole model, without a head.
func (m *Model) backbone() transformer.Backbone {
	return transformer.Backbone{Module: m, InputEmbeddings: m.TextModel.Embeddings.TokenEmbedding,
		Dual: &transformer.Dual{Texts: m.TextFeatures, Images: m.ImageFeatures,
			Similarities: m.Similarities},
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
