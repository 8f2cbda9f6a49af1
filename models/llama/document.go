package llama

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// ReadConfig reads config.json from dir and refuses settings that the model does not support.
func ReadConfig(dir string) (Config, error) {
	return pretrained.ReadConfigAs(dir, "llama", decode)
}

// fields returns the settings of a model type, by their keys in config.json.
func (c *Config) fields(f family) []pretrained.Field {
	fields := []pretrained.Field{
		{Key: "model_type", Value: &c.Type}, {Key: "vocab_size", Value: &c.VocabSize},
		{Key: "hidden_size", Value: &c.HiddenSize}, {Key: "intermediate_size", Value: &c.IntermediateSize},
		{Key: "num_hidden_layers", Value: &c.NumLayers}, {Key: "num_attention_heads", Value: &c.NumHeads},
		{Key: "num_key_value_heads", Value: &c.NumKeyValueHeads}, {Key: cmp.Or(f.actKey, "hidden_act"), Value: &c.HiddenAct},
		{Key: "max_position_embeddings", Value: &c.MaxPositions},
		{Key: "rms_norm_eps", Value: (*pretrained.Float)(&c.RMSNormEps)},
		{Key: "initializer_range", Value: (*pretrained.Float)(&c.InitializerRange)},
		{Key: "attention_dropout", Value: &c.AttentionDropout},
		{Key: "tie_word_embeddings", Value: &c.TieWordEmbeddings}, {Key: "pad_token_id", Value: &c.PadTokenID},
		{Key: "eos_token_id", Value: (*pretrained.TokenIDs)(&c.EOSTokenIDs)},
	}
	for _, o := range c.optional() {
		if slices.Contains(f.settings, o.Key) {
			if o.Key == "num_experts" {
				o.Key = f.moe.countKey
			}
			fields = append(fields, o)
		}
	}
	return fields
}

// optional returns the settings that only some model types have.
func (c *Config) optional() []pretrained.Field {
	return append([]pretrained.Field{
		{Key: "attention_bias", Value: &c.AttentionBias}, {Key: "mlp_bias", Value: &c.MLPBias},
		{Key: "qkv_bias", Value: (*pretrained.Opposite)(&c.NoQKVBias)},
		{Key: "head_dim", Value: &c.HeadDim}, {Key: "sliding_window", Value: &c.SlidingWindow},
		{Key: "layer_types", Value: &c.LayerTypes}, {Key: "resid_pdrop", Value: &c.ResidualDropout},
		{Key: "query_pre_attn_scalar", Value: &c.QueryPreAttnScalar},
		{Key: "attn_logit_softcapping", Value: (*pretrained.Float)(&c.AttnLogitSoftcapping)},
		{Key: "final_logit_softcapping", Value: (*pretrained.Float)(&c.FinalLogitSoftcapping)},
		{Key: "embedding_multiplier", Value: &c.EmbeddingMultiplier},
		{Key: "attention_multiplier", Value: &c.AttentionMultiplier},
		{Key: "residual_multiplier", Value: &c.ResidualMultiplier}, {Key: "logits_scaling", Value: &c.LogitsScaling},
		{Key: "no_rope_layers", Value: &c.NoRopeLayers},
	}, c.Experts.fields()...)
}

// bounds returns the settings that null turns off in config.json, for which -1 stands here.
func (c *Config) bounds() map[string]*float64 {
	return map[string]*float64{"attn_logit_softcapping": &c.AttnLogitSoftcapping,
		"final_logit_softcapping": &c.FinalLogitSoftcapping}
}

// DecodeConfig decodes a config.json, as models that contain a decoder have it too, and refuses
// settings that the model does not support. Defaults are not filled in.
func DecodeConfig(d pretrained.Document) (Config, error) { return decode(d) }

func decode(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := maps.Clone(d).Decode([]pretrained.Field{{Key: "model_type", Value: &c.Type}}); err != nil {
		return c, err
	}
	f, err := c.family()
	if err != nil {
		return c, err
	}
	if string(d["eos_token_id"]) == "null" {
		c.EOSTokenIDs = []int64{}
	}
	if _, given := d["pad_token_id"]; !given {
		c.PadTokenID = f.defaults.PadTokenID
	}
	for key, bound := range c.bounds() {
		if string(d[key]) == "null" && slices.Contains(f.settings, key) {
			*bound = -1
		}
	}
	c.TieWordEmbeddings = f.defaults.TieWordEmbeddings
	if f.tied {
		if err := d.Demand("tie_word_embeddings", "true"); err != nil {
			return c, err
		}
	}
	if !slices.Contains(f.settings, "attn_logit_softcapping") { // Gemma3ForCausalLM does not use it
		if err := d.Demand("attn_logit_softcapping", "null"); err != nil {
			return c, err
		}
	}
	if err := c.decodeWindows(d, f); err != nil {
		return c, err
	}
	if err := c.decodeDirections(d, f); err != nil {
		return c, err
	}
	if err := f.moe.decode(d); err != nil {
		return c, err
	}
	if err := d.Decode(c.fields(f)); err != nil {
		return c, err
	}
	if err := c.decodeRopes(d, f); err != nil {
		return c, err
	}
	if err := c.decodeRest(d, f); err != nil {
		return c, err
	}
	for key, wanted := range map[string]string{"is_encoder_decoder": "false", "quantization_config": "null"} {
		if err := d.Demand(key, wanted); err != nil {
			return c, err
		}
	}
	c.Extra = d
	return c, nil
}

// decodeRest reads settings that remain in the document, so that they are written back as they
// were.
func (c *Config) decodeRest(d pretrained.Document, f family) error {
	size, interval := int64(0), int64(4)
	fields := []pretrained.Field{{Key: "head_dim", Value: &size}, {Key: "no_rope_layer_interval", Value: &interval}}
	if c.Rope.Type == longRope { // it takes precedence over rope_parameters
		fields = append(fields, pretrained.Field{Key: "original_max_position_embeddings",
			Value: &c.Rope.OriginalMaxPositions})
	}
	if err := maps.Clone(d).Decode(fields); err != nil {
		return err
	}
	layers, heads := cmp.Or(c.NumLayers, f.defaults.NumLayers), cmp.Or(c.NumHeads, f.defaults.NumHeads)
	hidden := cmp.Or(c.HiddenSize, f.defaults.HiddenSize)
	switch without := c.NoRopeLayers == nil && slices.Contains(f.settings, "no_rope_layers"); {
	case size != 0 && size*heads != hidden:
		return fmt.Errorf("head_dim is %d; %s supports only that of hidden_size, %d, and %d heads", size, c.Type, hidden,
			heads)
	case without && interval < 1:
		return fmt.Errorf("no_rope_layer_interval is %d; want a positive number", interval)
	case without:
		c.NoRopeLayers = ropeLayers(layers, interval)
	}
	return nil
}

// ropeLayers returns 1 for each layer, but 0 for every interval-th one.
func ropeLayers(layers, interval int64) []int64 {
	turn := make([]int64, max(0, min(layers, transformer.MaxLayers)))
	for i := range turn {
		turn[i] = min(1, (int64(i)+1)%interval)
	}
	return turn
}

// document returns the config.json of a resolved config.
func (c Config) document(architecture string) (pretrained.Document, error) {
	d, f := pretrained.Document{}, families[c.Type]
	maps.Copy(d, c.Extra)
	rope := pretrained.Field{Key: "rope_parameters", Value: &c.Rope}
	if f.twoRopes {
		rope.Value = &map[string]Rope{FullAttention: c.Rope, SlidingAttention: c.LocalRope}
	}
	fields := append(c.fields(f), rope)
	if f.windowSwitch {
		fields = append(fields, pretrained.Field{Key: "use_sliding_window", Value: new(c.SlidingWindow > 0)})
	}
	if err := d.EncodeModel(c.Type, architecture, fields); err != nil {
		return nil, fmt.Errorf("llama: %w", err)
	}
	c.encodeDirections(d, f)
	if c.Rope.Type == longRope {
		d["original_max_position_embeddings"] = fmt.Append(nil, c.Rope.OriginalMaxPositions)
	}
	off := map[string]bool{"sliding_window": c.SlidingWindow < 0}
	for key, bound := range c.bounds() {
		off[key] = *bound < 0
	}
	for key, off := range off {
		if off && slices.Contains(f.settings, key) {
			d[key] = json.RawMessage(cmp.Or(f.noWindow, "null"))
		}
	}
	return d, nil
}

// Blueprint returns the decoder described by a config.json, for package auto.
func Blueprint(d pretrained.Document, _ classify.Head, a transformer.Attention) (b transformer.Blueprint, err error) {
	c, err := decode(d)
	if err != nil {
		return b, err
	}
	c.Attention = a
	return c.Blueprint()
}
