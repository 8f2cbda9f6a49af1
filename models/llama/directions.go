package llama

import (
	"encoding/json"
	"strconv"

	"github.com/gotrainer/gotrainer/models/pretrained"
)

// The settings of config.json that let tokens attend to later ones.
const (
	causalKey        = "is_causal"
	bidirectionalKey = "use_bidirectional_attention"
)

// decodeDirections takes out of a config.json whether tokens attend to later ones. The setting that
// the type's class in transformers does not have must not ask for it.
func (c *Config) decodeDirections(d pretrained.Document, f family) error {
	if f.halvesWindow {
		if err := d.Demand(causalKey, "true"); err != nil {
			return err
		}
		return d.Decode([]pretrained.Field{{Key: bidirectionalKey, Value: &c.Bidirectional}})
	}
	if err := d.Demand(bidirectionalKey, "false"); err != nil {
		return err
	}
	causal := true
	if err := d.Decode([]pretrained.Field{{Key: causalKey, Value: &causal}}); err != nil {
		return err
	}
	c.Bidirectional = !causal
	return nil
}

// encodeDirections puts into a config.json what decodeDirections takes out of it.
func (c Config) encodeDirections(d pretrained.Document, f family) {
	switch {
	case f.halvesWindow:
		d[bidirectionalKey] = strconv.AppendBool(nil, c.Bidirectional)
	case c.Bidirectional:
		d[causalKey] = json.RawMessage("false")
	}
}

// window returns how many tokens a token attends to in a layer with a window, including itself; if
// it also attends to later ones, on each side. Gemma3TextConfig takes the window of an encoder for
// both sides together, and the other classes for each side, without the token itself.
func (c Config) window() int64 {
	switch {
	case c.Bidirectional && families[c.Type].halvesWindow:
		return c.SlidingWindow/2 + 1
	case c.Bidirectional:
		return c.SlidingWindow + 1
	}
	return c.SlidingWindow
}
