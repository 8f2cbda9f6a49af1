package auto

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/models/pretrained"
)

// sizes are the settings of config.json that no model has as 0. Without this list a 0 would mean
// the default, since it is the zero value of a field.
var sizes = strings.Fields(`
	vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
	intermediate_size max_position_embeddings embedding_size
	dim n_layers n_heads hidden_dim n_embd n_layer n_head n_positions
	d_model d_kv d_ff num_layers num_heads num_decoder_layers
	encoder_layers encoder_attention_heads encoder_ffn_dim
	decoder_layers decoder_attention_heads decoder_ffn_dim
	max_source_positions max_target_positions num_mel_bins
	image_size patch_size num_channels decoder_hidden_size num_queries num_detection_tokens`)

// parts are the settings of config.json that describe a part of the model.
var parts = []string{"text_config", "vision_config", "encoder", "decoder", "backbone_config"}

// demandSizes returns an error for a size of 0.
func demandSizes(d pretrained.Document) error {
	for _, key := range sizes {
		if string(d[key]) == "0" {
			return fmt.Errorf("%s is 0; want a positive number, or leave it out for the default", key)
		}
	}
	for _, key := range parts {
		var part pretrained.Document
		if json.Unmarshal(d[key], &part) != nil {
			continue // there is none, or what reads it says what is wrong with it
		}
		if err := demandSizes(part); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}
