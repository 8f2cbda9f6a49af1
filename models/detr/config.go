package detr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/detect"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Config describes a model with the settings of transformers. The zero value is DetrConfig() with
// transformers' own ResNet-50 as the backbone.
type Config struct {
	Backbone resnet.Config // backbone_config; NumChannels of it is that of images

	NumQueries        int64   // the most objects that are found in an image; zero: 100
	HiddenSize        int64   // d_model; zero: 256
	EncoderLayers     int64   // zero: 6
	EncoderHeads      int64   // encoder_attention_heads; zero: 8
	EncoderFFNDim     int64   // size of the feed-forward parts; zero: 2048
	DecoderLayers     int64   // zero: 6
	DecoderHeads      int64   // decoder_attention_heads; zero: 8
	DecoderFFNDim     int64   // zero: 2048
	Activation        string  // activation_function, see [transformer.ActivationByName]; zero: relu
	Dropout           float64 // of hidden states
	AttentionDropout  float64
	ActivationDropout float64 // within the feed-forward parts
	InitStd           float64 // standard deviation of the initial weights; zero: 0.02
	// PositionEmbedding is how the places of features are told apart: position_embedding_type; zero:
	// sine.
	PositionEmbedding PositionEmbedding
	// AuxiliaryLoss adds the losses of the decoder's earlier layers. As in transformers, the decoder
	// then also normalizes the hidden states between its layers.
	AuxiliaryLoss bool

	Loss detect.LossSettings // zero: the defaults

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // the classes, without "no object"; its ProblemType has no meaning

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// PositionEmbedding is a kind of position embeddings.
type PositionEmbedding string

// The kinds of position embeddings.
const (
	Sine PositionEmbedding = "sine" // computed
	// Learned ones exist for up to 50 rows and columns of features: images of 1600 pixels.
	Learned PositionEmbedding = "learned"
)

const modelType = "detr"

func (c *Config) fields() []pretrained.Field {
	return append([]pretrained.Field{
		{Key: "num_queries", Value: &c.NumQueries}, {Key: "d_model", Value: &c.HiddenSize},
		{Key: "encoder_layers", Value: &c.EncoderLayers}, {Key: "encoder_attention_heads", Value: &c.EncoderHeads},
		{Key: "encoder_ffn_dim", Value: &c.EncoderFFNDim},
		{Key: "decoder_layers", Value: &c.DecoderLayers}, {Key: "decoder_attention_heads", Value: &c.DecoderHeads},
		{Key: "decoder_ffn_dim", Value: &c.DecoderFFNDim}, {Key: "activation_function", Value: &c.Activation},
		{Key: "dropout", Value: &c.Dropout}, {Key: "attention_dropout", Value: &c.AttentionDropout},
		{Key: "activation_dropout", Value: &c.ActivationDropout},
		{Key: "init_std", Value: (*pretrained.Float)(&c.InitStd)},
		{Key: "position_embedding_type", Value: &c.PositionEmbedding},
		{Key: "auxiliary_loss", Value: &c.AuxiliaryLoss},
	}, c.Loss.Fields()...)
}

// DecodeConfig decodes a config.json and refuses settings that the model does not support. Defaults
// are filled in for the backbone, the loss and the dropout.
func DecodeConfig(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	c.Loss, c.Dropout = detect.DefaultLossSettings(), 0.1
	if err := d.UseOwnNames(map[string]string{"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
		"num_hidden_layers": "encoder_layers"}); err != nil {
		return c, err
	}
	if err := d.Demand("model_type", `"`+modelType+`"`); err != nil {
		return c, err
	}
	for _, key := range []string{"dilation", "encoder_layerdrop", "decoder_layerdrop"} {
		if err := d.Demand(key, "false", "0.0", "0"); err != nil {
			return c, err
		}
	}
	if c.Backbone, err = takeBackbone(d); err != nil {
		return c, err
	}
	if err := d.Decode(c.fields()); err != nil {
		return c, err
	}
	if c.Head, err = classify.DecodeHead(d); err != nil {
		return c, err
	}
	delete(d, "model_type")
	c.Extra = d
	return c, nil
}

// takeBackbone removes the settings of the backbone from a config.json and returns it.
func takeBackbone(d pretrained.Document) (c resnet.Config, err error) {
	timm, name := true, "resnet50"
	var own pretrained.Document
	var channels int64
	if err := maps.Clone(d).Decode([]pretrained.Field{{Key: "use_timm_backbone", Value: &timm},
		{Key: "backbone", Value: &name}, {Key: "backbone_config", Value: &own},
		{Key: "num_channels", Value: &channels}}); err != nil {
		return c, err
	}
	for _, key := range []string{"use_timm_backbone", "use_pretrained_backbone", "backbone", "backbone_kwargs",
		"backbone_config"} {
		delete(d, key)
	}
	var kind string
	if err := maps.Clone(own).Decode([]pretrained.Field{{Key: "model_type", Value: &kind},
		{Key: "backbone", Value: &name}}); err != nil {
		return c, fmt.Errorf("backbone_config: %w", err)
	}
	switch {
	case kind == "resnet":
		c, err = resnet.DecodeBackbone(own)
	case kind == "timm_backbone" || own == nil && timm:
		var found bool
		if c, found = ofTimm[name]; !found {
			return c, fmt.Errorf("the backbone is timm's %q; want one of %q", name, slices.Sorted(maps.Keys(ofTimm)))
		}
		c.NumChannels = channels
		c, err = c.Resolved()
	case own == nil:
		c, err = resnet.Config{}.Resolved()
	default:
		return c, fmt.Errorf("backbone_config has the model_type %q; want resnet", kind)
	}
	if err != nil {
		return c, fmt.Errorf("backbone_config: %w", err)
	}
	return c, nil
}

// ofTimm are the ResNets of timm, which differ from transformers' in names only.
var ofTimm = map[string]resnet.Config{
	"resnet18":  {LayerType: resnet.BasicLayer, HiddenSizes: []int64{64, 128, 256, 512}, Depths: []int64{2, 2, 2, 2}},
	"resnet34":  {LayerType: resnet.BasicLayer, HiddenSizes: []int64{64, 128, 256, 512}, Depths: []int64{3, 4, 6, 3}},
	"resnet50":  {Depths: []int64{3, 4, 6, 3}},
	"resnet101": {Depths: []int64{3, 4, 23, 3}},
	"resnet152": {Depths: []int64{3, 8, 36, 3}},
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	if c.Backbone, err = c.Backbone.Resolved(); err != nil {
		return c, fmt.Errorf("backbone_config: %w", err)
	}
	if err := cmp.Or(
		transformer.Positive("NumQueries", &c.NumQueries, 100),
		transformer.Positive("HiddenSize", &c.HiddenSize, 256),
		transformer.Positive("EncoderLayers", &c.EncoderLayers, 6),
		transformer.Positive("EncoderHeads", &c.EncoderHeads, 8),
		transformer.Positive("EncoderFFNDim", &c.EncoderFFNDim, 2048),
		transformer.Positive("DecoderLayers", &c.DecoderLayers, 6),
		transformer.Positive("DecoderHeads", &c.DecoderHeads, 8),
		transformer.Positive("DecoderFFNDim", &c.DecoderFFNDim, 2048),
	); err != nil {
		return c, err
	}
	if err := cmp.Or(
		transformer.Positive("InitStd", &c.InitStd, 0.02),
		transformer.CheckLayers(c.EncoderLayers+c.DecoderLayers),
		transformer.CheckProbability("Dropout", &c.Dropout),
		transformer.CheckProbability("AttentionDropout", &c.AttentionDropout),
		transformer.CheckProbability("ActivationDropout", &c.ActivationDropout),
	); err != nil {
		return c, err
	}
	c.Activation, c.PositionEmbedding = cmp.Or(c.Activation, "relu"), cmp.Or(c.PositionEmbedding, Sine)
	switch {
	case c.HiddenSize%c.EncoderHeads != 0 || c.HiddenSize%c.DecoderHeads != 0:
		return c, fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads of the encoder or the %d of the decoder",
			c.HiddenSize, c.EncoderHeads, c.DecoderHeads)
	case c.HiddenSize%4 != 0:
		return c, fmt.Errorf("HiddenSize is %d; want a multiple of 4, for sines and cosines of rows and columns",
			c.HiddenSize)
	case c.PositionEmbedding != Sine && c.PositionEmbedding != Learned:
		return c, fmt.Errorf("position_embedding_type is %q; want %q or %q", c.PositionEmbedding, Sine, Learned)
	}
	if _, err := transformer.ActivationByName(c.Activation); err != nil {
		return c, fmt.Errorf("activation_function: %w", err)
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

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	if err := d.EncodeModel(modelType, architecture, c.fields()); err != nil {
		return nil, err
	}
	backbone, err := c.Backbone.EncodeBackbone()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(backbone)
	if err != nil {
		return nil, err
	}
	d["backbone_config"], d["use_timm_backbone"] = text, json.RawMessage("false")
	if d["num_channels"] == nil {
		d["num_channels"] = fmt.Append(nil, c.Backbone.NumChannels)
	}
	err = c.Head.Encode(d)
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
		ModelType: modelType, Class: "Detr", Prefix: "model", HiddenSize: c.HiddenSize,
		InitializerRange: c.InitStd, Head: c.Head, Document: c.document, ImageProcessor: "DetrImageProcessor",
		Images:    inputs.ImageLimits{Channels: c.Backbone.NumChannels, Height: imageSize, Width: imageSize, AnySize: true},
		Detection: c.Loss, Rename: inFiles, InMemory: toMemory.Replace, NoWeights: []string{"num_batches_tracked"},
		Untrained: []string{stages + "embedder.*", stages + "encoder.stages.0.*"},
		Heads: map[string]func(b transformer.Builder) transformer.Head{
			"ForObjectDetection": func(b transformer.Builder) transformer.Head { return newHead(c, b) },
		},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, ForwardQueries: m.forward, FreezeBackbone: m.FreezeBackbone,
				SetGradientCheckpointing: m.setGradientCheckpointing}
		},
	}, nil
}

// stages begins the names of the backbone's parameters.
const stages = "model.backbone.conv_encoder.model."

// imageSize is the length of the sides of images that config.json says nothing of.
const imageSize = 800

// activation returns the activation of a resolved config.
func (c Config) activation() transformer.Activation {
	f, err := transformer.ActivationByName(c.Activation)
	if err != nil {
		panic(torch.Errorf("detr.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	return f
}
