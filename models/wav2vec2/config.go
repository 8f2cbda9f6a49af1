package wav2vec2

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/ctc"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/specaugment"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model with the settings of transformers' Wav2Vec2Config, or HubertConfig. A
// zero field means its default there, which is a model of the size of wav2vec2-base.
type Config struct {
	VocabSize        int64  // of the letters that CTC tells apart; zero: 32
	HiddenSize       int64  // zero: 768
	NumLayers        int64  // num_hidden_layers; zero: 12
	NumHeads         int64  // num_attention_heads; zero: 12
	IntermediateSize int64  // zero: 3072
	HiddenAct        string // see [transformer.ActivationByName]; zero: gelu

	HiddenDropout, ActivationDropout, AttentionDropout *float64 // nil: 0.1
	FinalDropout                                       *float64 // before the layer of CTC; nil: 0.1
	// Layerdrop is the probability with which a layer is left out of a pass in training; nil: 0.1.
	Layerdrop       *float64
	FeatProjDropout float64 // after the projection of features

	InitializerRange float64 // standard deviation of the initial weights; zero: 0.02
	LayerNormEps     float64 // zero: 1e-5

	// FeatExtractNorm is what the feature encoder normalizes with: "group" in its first layer only, or
	// "layer" in all; zero: group.
	FeatExtractNorm           string
	FeatExtractActivation     string  // zero: gelu
	ConvDim, ConvStride       []int64 // of its convolutions; nil: seven of 512; strides 5, 2, 2, 2, 2, 2, 2
	ConvKernel                []int64 // nil: 10, 3, 3, 3, 3, 2, 2
	ConvBias                  bool
	NumConvPosEmbeddings      int64 // width of the convolution that stands for positions; zero: 128
	NumConvPosEmbeddingGroups int64 // zero: 16
	DoStableLayerNorm         bool  // layers normalize their input, not their output
	NoFeatProjLayerNorm       bool  // HuBERT only: feat_proj_layer_norm is false
	ConvPosBatchNorm          bool  // HuBERT only: positions are normalized by batch, not by weight
	transformer.SpecAugment         // over frames and hidden states

	CTCLossReduction    ctc.Reduction // zero: sum
	CTCZeroInfinity     bool          // losses of texts that are too long for their sound are 0, not infinite
	PadTokenID          *int64        // the blank of CTC; nil: 0
	UseWeightedLayerSum bool          // a classifier takes a weighted mean of the output of all layers
	ClassifierProjSize  int64         // of the layer before a classifier; zero: 256

	// HuBERT selects HubertModel.
	HuBERT bool

	Attention transformer.Attention // zero: SDPA. It is not in config.json

	classify.Head // what the logits of a classifier mean

	// Extra holds the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// The norms of a feature encoder.
const (
	groupNorm = "group"
	layerNorm = "layer"
)

// classifierClass ends the names of transformers' classes of classifiers.
const classifierClass = "ForSequenceClassification"

func (c Config) modelType() string {
	if c.HuBERT {
		return "hubert"
	}
	return "wav2vec2"
}

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) { return pretrained.ReadConfigAs(dir, "wav2vec2", decode) }

func (c *Config) fields() []pretrained.Field {
	float := func(f *float64) any { return (*pretrained.Float)(f) }
	fields := []pretrained.Field{
		{Key: "vocab_size", Value: &c.VocabSize}, {Key: "hidden_size", Value: &c.HiddenSize},
		{Key: "num_hidden_layers", Value: &c.NumLayers}, {Key: "num_attention_heads", Value: &c.NumHeads},
		{Key: "intermediate_size", Value: &c.IntermediateSize}, {Key: "hidden_act", Value: &c.HiddenAct},
		{Key: "hidden_dropout", Value: &c.HiddenDropout}, {Key: "activation_dropout", Value: &c.ActivationDropout},
		{Key: "attention_dropout", Value: &c.AttentionDropout}, {Key: "final_dropout", Value: &c.FinalDropout},
		{Key: "layerdrop", Value: &c.Layerdrop}, {Key: "feat_proj_dropout", Value: float(&c.FeatProjDropout)},
		{Key: "initializer_range", Value: float(&c.InitializerRange)}, {Key: "layer_norm_eps", Value: float(&c.LayerNormEps)},
		{Key: "feat_extract_norm", Value: &c.FeatExtractNorm},
		{Key: "feat_extract_activation", Value: &c.FeatExtractActivation},
		{Key: "conv_dim", Value: &c.ConvDim}, {Key: "conv_stride", Value: &c.ConvStride},
		{Key: "conv_kernel", Value: &c.ConvKernel}, {Key: "conv_bias", Value: &c.ConvBias},
		{Key: "num_conv_pos_embeddings", Value: &c.NumConvPosEmbeddings},
		{Key: "num_conv_pos_embedding_groups", Value: &c.NumConvPosEmbeddingGroups},
		{Key: "do_stable_layer_norm", Value: &c.DoStableLayerNorm},
		{Key: "ctc_loss_reduction", Value: &c.CTCLossReduction}, {Key: "ctc_zero_infinity", Value: &c.CTCZeroInfinity},
		{Key: "pad_token_id", Value: &c.PadTokenID}, {Key: "use_weighted_layer_sum", Value: &c.UseWeightedLayerSum},
		{Key: "classifier_proj_size", Value: &c.ClassifierProjSize},
	}
	fields = append(fields, specaugment.Fields(&c.SpecAugment)...)
	if c.HuBERT {
		fields = append(fields, pretrained.Field{Key: "conv_pos_batch_norm", Value: &c.ConvPosBatchNorm})
	}
	return fields
}

// featProjLayerNormKey is the setting of HuBERT that NoFeatProjLayerNorm denies.
const featProjLayerNormKey = "feat_proj_layer_norm"

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	c.HuBERT = string(d["model_type"]) == `"hubert"`
	if err := cmp.Or(d.Demand("model_type", `"`+c.modelType()+`"`), d.Demand("add_adapter", "false"),
		d.Demand("adapter_attn_dim", "null"), d.Demand("is_decoder", "false"), d.Demand("is_encoder_decoder", "false"),
		d.Demand("quantization_config", "null")); err != nil {
		return c, err
	}
	if c.Head, err = classify.DecodeHead(maps.Clone(d)); err != nil {
		return c, err
	}
	featProjLayerNorm := true
	fields := c.fields()
	if c.HuBERT {
		fields = append(fields, pretrained.Field{Key: featProjLayerNormKey, Value: &featProjLayerNorm})
	}
	if err := d.Decode(fields); err != nil {
		return c, err
	}
	delete(d, "num_labels") // id2label says how many there are
	c.NoFeatProjLayerNorm, c.Extra = !featProjLayerNorm, d
	return c, nil
}

// resolved fills in the defaults and checks the settings.
func (c Config) resolved() (_ Config, err error) {
	for _, n := range []struct {
		name  string
		value *int64
		usual int64
	}{
		{"VocabSize", &c.VocabSize, 32}, {"HiddenSize", &c.HiddenSize, 768}, {"NumLayers", &c.NumLayers, 12},
		{"NumHeads", &c.NumHeads, 12}, {"IntermediateSize", &c.IntermediateSize, 3072},
		{"NumConvPosEmbeddings", &c.NumConvPosEmbeddings, 128},
		{"NumConvPosEmbeddingGroups", &c.NumConvPosEmbeddingGroups, 16},
		{"ClassifierProjSize", &c.ClassifierProjSize, 256},
	} {
		if err := transformer.Positive(n.name, n.value, n.usual); err != nil {
			return c, err
		}
	}
	for _, p := range []struct {
		name  string
		value **float64
		usual float64
	}{
		{"HiddenDropout", &c.HiddenDropout, 0.1}, {"ActivationDropout", &c.ActivationDropout, 0.1},
		{"AttentionDropout", &c.AttentionDropout, 0.1}, {"FinalDropout", &c.FinalDropout, 0.1},
		{"Layerdrop", &c.Layerdrop, 0.1},
	} {
		*p.value = cmp.Or(*p.value, &p.usual)
		if err := transformer.CheckProbability(p.name, *p.value); err != nil {
			return c, err
		}
	}
	c.PadTokenID = cmp.Or(c.PadTokenID, new(int64(0)))
	c.FeatExtractNorm = cmp.Or(c.FeatExtractNorm, groupNorm)
	c.HiddenAct, c.FeatExtractActivation = cmp.Or(c.HiddenAct, "gelu"), cmp.Or(c.FeatExtractActivation, "gelu")
	c.CTCLossReduction = cmp.Or(c.CTCLossReduction, ctc.Sum)
	if c.ConvDim == nil && c.ConvStride == nil && c.ConvKernel == nil {
		c.ConvDim = slices.Repeat([]int64{512}, 7)
		c.ConvStride, c.ConvKernel = []int64{5, 2, 2, 2, 2, 2, 2}, []int64{10, 3, 3, 3, 3, 2, 2}
	}
	if err := cmp.Or(
		transformer.Positive("InitializerRange", &c.InitializerRange, 0.02),
		transformer.Positive("LayerNormEps", &c.LayerNormEps, 1e-5), transformer.CheckLayers(c.NumLayers),
		transformer.CheckProbability("FeatProjDropout", &c.FeatProjDropout), c.checkConvolutions(), c.check(),
		specaugment.Resolve(&c.SpecAugment, true, "HiddenSize", c.HiddenSize),
	); err != nil {
		return c, err
	}
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	c.Head, err = c.Head.Resolved()
	return c, err
}

// checkConvolutions checks the layers of the feature encoder.
func (c Config) checkConvolutions() error {
	if n := len(c.ConvDim); n == 0 || len(c.ConvStride) != n || len(c.ConvKernel) != n {
		return fmt.Errorf("ConvDim has %d numbers, ConvStride %d and ConvKernel %d; want as many in each, one for each "+
			"layer of the feature encoder", n, len(c.ConvStride), len(c.ConvKernel))
	}
	if err := transformer.CheckLayers(int64(len(c.ConvDim))); err != nil {
		return err
	}
	const most = 1 << 16 // far more than any model has
	for i := range c.ConvDim {
		if least, largest := min(c.ConvDim[i], c.ConvStride[i], c.ConvKernel[i]),
			max(c.ConvDim[i], c.ConvStride[i], c.ConvKernel[i]); least < 1 || largest > most {
			return fmt.Errorf("ConvDim, ConvStride and ConvKernel of layer %d are %d, %d and %d; want 1 to %d", i, c.ConvDim[i],
				c.ConvStride[i], c.ConvKernel[i], most)
		}
	}
	return nil
}

func (c Config) check() error {
	switch {
	case c.HiddenSize%c.NumHeads != 0:
		return fmt.Errorf("HiddenSize is %d, which is no multiple of the %d heads", c.HiddenSize, c.NumHeads)
	case c.HiddenSize%c.NumConvPosEmbeddingGroups != 0:
		return fmt.Errorf("HiddenSize is %d, which is no multiple of NumConvPosEmbeddingGroups, %d", c.HiddenSize,
			c.NumConvPosEmbeddingGroups)
	case c.FeatExtractNorm != groupNorm && c.FeatExtractNorm != layerNorm:
		return fmt.Errorf("FeatExtractNorm is %q; want %q or %q", c.FeatExtractNorm, groupNorm, layerNorm)
	case *c.PadTokenID < 0 || *c.PadTokenID >= c.VocabSize:
		return fmt.Errorf("PadTokenID is %d; want an id below VocabSize, %d", *c.PadTokenID, c.VocabSize)
	case !c.HuBERT && (c.NoFeatProjLayerNorm || c.ConvPosBatchNorm):
		return fmt.Errorf("NoFeatProjLayerNorm is %t and ConvPosBatchNorm %t; want false, except for a HuBERT",
			c.NoFeatProjLayerNorm, c.ConvPosBatchNorm)
	}
	for name, act := range map[string]string{"HiddenAct": c.HiddenAct, "FeatExtractActivation": c.FeatExtractActivation} {
		if _, err := transformer.ActivationByName(act); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return c.CTCLossReduction.Check()
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	fields := c.fields()
	if c.HuBERT {
		fields = append(fields, pretrained.Field{Key: featProjLayerNormKey, Value: new(!c.NoFeatProjLayerNorm)})
	}
	if err := d.EncodeModel(c.modelType(), architecture, fields); err != nil {
		return nil, fmt.Errorf("wav2vec2: %w", err)
	}
	if !strings.HasSuffix(architecture, classifierClass) {
		return d, nil
	}
	_, given := d[problemTypeKey]
	if err := c.Head.Encode(d); err != nil {
		return nil, fmt.Errorf("wav2vec2: %w", err)
	}
	usual := classify.SingleLabel
	if c.NumLabels == 1 {
		usual = classify.Regression
	}
	if !given && c.ProblemType == usual { // transformers' class has no such setting
		delete(d, problemTypeKey)
	}
	return d, nil
}

// problemTypeKey is the setting of classifiers of texts and images.
const problemTypeKey = "problem_type"

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
	b = transformer.Blueprint{
		ModelType: c.modelType(), Class: "Wav2Vec2", Prefix: c.modelType(), HiddenSize: c.HiddenSize,
		InitializerRange: c.InitializerRange, Head: c.Head, Document: c.document, Rename: currentNames.Replace,
		Drawn: []string{maskedSpecEmbed},
		Waveforms: inputs.WaveformLimits{Convolutions: c.convolutions(),
			Masked: c.FeatExtractNorm == layerNorm}, // as transformers' models were trained
		CTC: ctc.Settings{Classes: c.VocabSize, Blank: *c.PadTokenID, Reduction: c.CTCLossReduction,
			ZeroInfinity: c.CTCZeroInfinity},
		Heads: map[string]func(b transformer.Builder) transformer.Head{
			"ForCTC":        func(b transformer.Builder) transformer.Head { return newCTCHead(c, b) },
			classifierClass: func(b transformer.Builder) transformer.Head { return newClassifier(c, b) },
		},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			m := newModel(c, builder)
			return transformer.Backbone{Module: m, Hear: m.Forward, MaskGenerator: m.masks,
				SetGradientCheckpointing: m.setGradientCheckpointing}
		},
	}
	if c.HuBERT {
		b.Class = "Hubert"
	}
	return b, nil
}

// currentNames maps the names that older files have for the weight of the positions, which is
// normalized, to those of transformers 5.
var currentNames = strings.NewReplacer(
	"pos_conv_embed.conv.weight_g", "pos_conv_embed.conv.parametrizations.weight.original0",
	"pos_conv_embed.conv.weight_v", "pos_conv_embed.conv.parametrizations.weight.original1")

// convolutions are the layers of the feature encoder, which make frames of samples.
func (c Config) convolutions() (list []inputs.Convolution) {
	for i, kernel := range c.ConvKernel {
		list = append(list, inputs.Convolution{Kernel: kernel, Stride: c.ConvStride[i]})
	}
	return list
}
