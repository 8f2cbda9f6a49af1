package llava

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/clip"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// Config describes a model with the settings of transformers' LlavaConfig. The zero value is
// llava-1.5-7b but for its vocabulary, which has no image token.
type Config struct {
	// Vision is the vision tower; zero: CLIP's ViT-L/14 for images of 336x336 pixels.
	Vision clip.VisionConfig
	// Text is the language model: a llama, mistral, qwen2, qwen3, phi3, smollm3 or olmo2; zero: that
	// of Llama 2 7B. With Text.TieWordEmbeddings its output layer has the weight of its embedding.
	Text llama.Config

	// ImageTokenIndex is the id of the token that stands for a part of an image, below
	// Text.VocabSize; zero: 32000.
	ImageTokenIndex    int64
	ProjectorHiddenAct string // between the projector's layers, see [transformer.ActivationByName]; zero: gelu
	NoProjectorBias    bool   // the projector's layers have no bias: multimodal_projector_bias false
	// VisionFeatureLayers are the hidden states of the tower that the projector sees, side by side: 0
	// is the input of the first layer, -1 the output of the last. Nil: -2.
	VisionFeatureLayers FeatureLayers
	// VisionFeatureSelectStrategy says which tokens of an image count; zero: SelectDefault.
	VisionFeatureSelectStrategy SelectStrategy

	Attention transformer.Attention // of both parts; zero: SDPA. It is not in config.json

	// Extra has the other settings of config.json. They are written back.
	Extra pretrained.Document
}

// SelectStrategy is vision_feature_select_strategy.
type SelectStrategy string

// The strategies of transformers.
const (
	SelectDefault SelectStrategy = "default" // the patches of an image
	SelectFull    SelectStrategy = "full"    // also the token in front of them, which stands for the whole image
)

// FeatureLayers is vision_feature_layer of config.json: a number, or several.
type FeatureLayers []int64

// UnmarshalJSON reads a number or a list.
func (l *FeatureLayers) UnmarshalJSON(text []byte) error {
	var one int64
	if json.Unmarshal(text, &one) == nil {
		*l = FeatureLayers{one}
		return nil
	}
	var all []int64
	if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
		return errors.New("want a number, or a list of numbers")
	}
	*l = all
	return nil
}

// MarshalJSON writes a list, or the number that is alone in it.
func (l FeatureLayers) MarshalJSON() ([]byte, error) {
	if len(l) == 1 {
		return json.Marshal(l[0])
	}
	return json.Marshal([]int64(l))
}

const (
	modelType = "llava"
	class     = "Llava"
)

// decoders are the types of language models.
var decoders = []string{"llama", "mistral", "qwen2", "qwen3", "phi3", "smollm3", "olmo2"}

// defaultVision is the tower of LlavaConfig.
func defaultVision() clip.VisionConfig {
	return clip.VisionConfig{ImageSize: 336, PatchSize: 14, Layers: clip.Layers{HiddenSize: 1024, IntermediateSize: 4096,
		NumLayers: 24, NumHeads: 16}}
}

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) { return pretrained.ReadConfigAs(dir, modelType, decode) }

func (c *Config) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "image_token_index", Value: &c.ImageTokenIndex}, {Key: "projector_hidden_act", Value: &c.ProjectorHiddenAct},
		{Key: "multimodal_projector_bias", Value: (*pretrained.Opposite)(&c.NoProjectorBias)},
		{Key: "vision_feature_layer", Value: &c.VisionFeatureLayers},
		{Key: "vision_feature_select_strategy", Value: &c.VisionFeatureSelectStrategy},
	}
}

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := cmp.Or(d.Demand("model_type", `"`+modelType+`"`), d.Demand("ignore_index", "-100"),
		d.Demand("quantization_config", "null"),
		d.UseOwnNames(map[string]string{"image_token_id": "image_token_index"})); err != nil {
		return c, err
	}
	tied := false
	var vision, text pretrained.Document
	if err := d.Decode(append(c.fields(), pretrained.Field{Key: "vision_config", Value: &vision},
		pretrained.Field{Key: "text_config", Value: &text},
		pretrained.Field{Key: "tie_word_embeddings", Value: &tied})); err != nil {
		return c, err
	}
	if c.Vision = defaultVision(); vision != nil {
		if c.Vision, err = clip.DecodeVisionConfig(vision); err != nil {
			return c, fmt.Errorf("vision_config: %w", err)
		}
	}
	if err := c.decodeText(text); err != nil {
		return c, fmt.Errorf("text_config: %w", err)
	}
	c.Text.TieWordEmbeddings = c.Text.TieWordEmbeddings || tied
	c.Extra = d
	return c, nil
}

// decodeText decodes the language model. As in transformers, one that does not name its type is a
// llama.
func (c *Config) decodeText(d pretrained.Document) (err error) {
	d = maps.Clone(d)
	if d == nil {
		d = pretrained.Document{}
	}
	if kind := string(d["model_type"]); kind == "" || kind == "null" {
		d["model_type"] = json.RawMessage(`"llama"`)
	}
	if err := d.Demand("model_type", quoted(decoders)...); err != nil {
		return err
	}
	c.Text, err = llama.DecodeConfig(d)
	return err
}

func quoted(list []string) (all []string) {
	for _, s := range list {
		all = append(all, fmt.Sprintf("%q", s))
	}
	return all
}

// resolved fills in the defaults and checks the settings of the model itself; the parts do so with
// theirs.
func (c Config) resolved() (_ Config, err error) {
	if reflect.ValueOf(c.Vision).IsZero() {
		c.Vision = defaultVision()
	}
	if c.Vision, err = c.Vision.Resolved(); err != nil {
		return c, fmt.Errorf("vision_config: %w", err)
	}
	if c.Text.Type = cmp.Or(c.Text.Type, "llama"); !slices.Contains(decoders, c.Text.Type) {
		return c, fmt.Errorf("text_config: model_type is %q; want one of %q", c.Text.Type, decoders)
	}
	if c.Text.Bidirectional {
		return c, errors.New("text_config: is_causal is false; a decoder whose tokens attend to later ones writes no texts")
	}
	if c.Attention, err = c.Attention.Resolved(); err != nil {
		return c, err
	}
	c.Text.Attention = c.Attention
	c.ImageTokenIndex = cmp.Or(c.ImageTokenIndex, 32000)
	c.ProjectorHiddenAct = cmp.Or(c.ProjectorHiddenAct, "gelu")
	c.VisionFeatureSelectStrategy = cmp.Or(c.VisionFeatureSelectStrategy, SelectDefault)
	if c.VisionFeatureLayers == nil {
		c.VisionFeatureLayers = FeatureLayers{-2}
	}
	if _, err := transformer.ActivationByName(c.ProjectorHiddenAct); err != nil {
		return c, fmt.Errorf("projector_hidden_act: %w", err)
	}
	if s := c.VisionFeatureSelectStrategy; s != SelectDefault && s != SelectFull {
		return c, fmt.Errorf("vision_feature_select_strategy is %q; want %q or %q", s, SelectDefault, SelectFull)
	}
	if len(c.VisionFeatureLayers) == 0 {
		return c, errors.New("VisionFeatureLayers is empty; want the number of a hidden state, or nil for -2")
	}
	for _, n := range c.VisionFeatureLayers {
		if layers := c.Vision.NumLayers; n < -layers-1 || n > layers {
			return c, fmt.Errorf("vision_feature_layer has %d; the vision tower has the hidden states %d to %d", n, -layers-1,
				layers)
		}
	}
	return c, nil
}

// std is the standard deviation of the initial weights of the projector and the output layer.
func (c Config) std() float64 {
	std := c.Text.InitializerRange
	if raw, given := c.Extra["initializer_range"]; given {
		_ = json.Unmarshal(raw, &std) // Blueprint has checked it
	}
	return cmp.Or(std, 0.02)
}

// imageTokens are the tokens of an image in a text.
func (c Config) imageTokens() inputs.ImageTokens {
	n := c.Vision.Tokens()
	if c.VisionFeatureSelectStrategy == SelectDefault {
		n--
	}
	return inputs.ImageTokens{ID: c.ImageTokenIndex, PerImage: int(n)}
}

// document returns the config.json of a resolved config, given that of its language model.
func (c Config) document(architecture string, text pretrained.Document) (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	vision, err := c.Vision.Document()
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"architectures", "dtype"} { // those of the whole model count
		delete(text, key)
		delete(vision, key)
	}
	if _, given := d["image_seq_length"]; !given {
		d["image_seq_length"] = fmt.Append(nil, c.imageTokens().PerImage)
	}
	return d, d.EncodeModel(modelType, architecture, append(c.fields(),
		pretrained.Field{Key: "vision_config", Value: &vision}, pretrained.Field{Key: "text_config", Value: &text},
		pretrained.Field{Key: "tie_word_embeddings", Value: &c.Text.TieWordEmbeddings}))
}

// Blueprint returns the model described by a config.json, for package auto.
func Blueprint(d pretrained.Document, _ classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Attention = a
	return c.Blueprint()
}

// Blueprint returns the model described by c, for package auto.
func (c Config) Blueprint() (b transformer.Blueprint, err error) {
	if c, err = c.resolved(); err != nil {
		return b, err
	}
	decoder, err := c.Text.Blueprint()
	if err != nil {
		return b, fmt.Errorf("text_config: %w", err)
	}
	c.Text.HiddenSize, c.Text.VocabSize = decoder.HiddenSize, decoder.Limits.VocabSize
	c.Text.InitializerRange = decoder.InitializerRange
	limits := decoder.Limits
	switch {
	case c.ImageTokenIndex < 0 || c.ImageTokenIndex >= limits.VocabSize:
		return b, fmt.Errorf("image_token_index is %d; want an id below vocab_size of text_config, %d", c.ImageTokenIndex,
			limits.VocabSize)
	case limits.PadTokenID == c.ImageTokenIndex: // padding is masked, so any other id will do
		limits.PadTokenID = (c.ImageTokenIndex + 1) % min(2, limits.VocabSize)
	}
	vision := c.Vision
	return transformer.Blueprint{
		ModelType: modelType, Class: class, LanguageModel: class + "ForConditionalGeneration",
		HiddenSize: decoder.HiddenSize, EmbeddingSize: decoder.EmbeddingSize, InitializerRange: c.std(),
		EOSTokenIDs: decoder.EOSTokenIDs, PadTokenID: decoder.PadTokenID, Untied: decoder.Untied,
		NoWeights: decoder.NoWeights, Limits: limits, ImageTokens: c.imageTokens(),
		Rename: nameInFiles, InMemory: nameInMemory,
		Images:         classify.ImageLimits{Channels: vision.NumChannels, Height: vision.ImageSize, Width: vision.ImageSize},
		ImageProcessor: "CLIPImageProcessor",
		Document: func(architecture string) (pretrained.Document, error) {
			text, err := decoder.Document("")
			if err != nil {
				return nil, err
			}
			return c.document(architecture, text)
		},
		Build: func(builder transformer.Builder, _ bool) transformer.Backbone {
			return newModel(c, decoder, builder).backbone()
		},
	}, nil
}

func (m *Model) backbone() transformer.Backbone {
	written := m.LanguageModel.Model
	return transformer.Backbone{Module: m, InputEmbeddings: written.EmbedTokens, OutputEmbeddings: m.LanguageModel.LMHead,
		Decode: written.Decode, Rereads: written.Rereads(), DrawMissing: m.drawMissing,
		NewPast: func(texts, capacity int64) *transformer.Past {
			return written.NewPast(written.EmbedTokens.Weight, texts, capacity)
		},
		ImageTexts: &transformer.ImageTexts{Features: m.ImageFeatures,
			Forward: m.Forward, Decode: m.Decode},
		SetGradientCheckpointing: m.setGradientCheckpointing,
		FuseQKVProjections:       m.VisionTower.Encoder.FuseQKVProjections}
}

// names pairs what names begin with in the files of transformers 5.17 and in its memory, which
// releases from 4.52 on put into files.
var names = [][2]string{
	{"language_model.model", "model.language_model"}, {"language_model.lm_head", "lm_head"},
	{"vision_tower", "model.vision_tower"}, {"multi_modal_projector", "model.multi_modal_projector"},
}

// nameInMemory maps names in files to those in memory.
func nameInMemory(name string) string {
	for _, n := range names {
		if rest, found := cutName(name, n[0]); found {
			return n[1] + rest
		}
	}
	return name
}

// nameInFiles maps the names of older files to those of transformers 5.17. Older vision towers have
// their parts within a vision_model.
func nameInFiles(name string) string {
	for _, n := range names {
		if rest, found := cutName(name, n[1]); found {
			name = n[0] + rest
			break
		}
	}
	return strings.Replace(name, "vision_tower.vision_model.", "vision_tower.", 1)
}

// cutName cuts a module's name from the beginning of another name.
func cutName(name, module string) (rest string, found bool) {
	rest, found = strings.CutPrefix(name, module)
	return rest, found && (rest == "" || rest[0] == '.')
}
