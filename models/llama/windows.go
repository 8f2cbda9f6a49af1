package llama

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
)

// The types of layers, by what their tokens attend to.
const (
	FullAttention    = "full_attention"    // to all tokens before them
	SlidingAttention = "sliding_attention" // to those within SlidingWindow
)

// decodeWindows takes out of a config.json which layers have a sliding window, and its size.
func (c *Config) decodeWindows(d pretrained.Document, f family) error {
	if !slices.Contains(f.settings, "sliding_window") {
		return d.Demand("use_sliding_window", "false")
	}
	if f.windowSwitch {
		used := false
		if err := d.Decode([]pretrained.Field{{Key: "use_sliding_window", Value: &used}}); err != nil {
			return err
		}
		if _, given := d["sliding_window"]; used && !given {
			return fmt.Errorf("use_sliding_window is true, and there is no sliding_window")
		}
		if !used {
			delete(d, "sliding_window")
		}
	}
	if string(d["sliding_window"]) == "null" {
		c.SlidingWindow = -1
	}
	var err error
	if c.SlidingWindow >= 0 && f.windows != nil && len(d["layer_types"]) == 0 {
		c.LayerTypes, err = c.olderLayerTypes(d, f)
	}
	return err
}

// olderLayerTypes returns the layer types for a file of transformers 4, which may override the
// number in the pattern of its model type.
func (c *Config) olderLayerTypes(d pretrained.Document, f family) ([]string, error) {
	layers, p := f.defaults.NumLayers, *f.windows
	window := f.defaults.SlidingWindow
	d = maps.Clone(d) // the number must stay in d, to be written back
	if err := d.Decode([]pretrained.Field{{Key: "num_hidden_layers", Value: &layers}, {Key: p.key, Value: &p.number},
		{Key: "sliding_window", Value: &window}}); err != nil {
		return nil, err
	}
	if p.number < 0 || p.number == 0 && p.key != "max_window_layers" {
		return nil, fmt.Errorf("%s is %d; want a positive number", p.key, p.number)
	}
	return p.types(layers, window), nil
}

// types returns the types of the given number of layers. With a nil pattern, all layers have the
// window, if there is one.
func (p *pattern) types(layers, window int64) []string {
	types := make([]string, max(0, min(layers, transformer.MaxLayers)))
	for i := range types {
		types[i] = FullAttention
		if window > 0 && (p == nil || p.has(int64(i), p.number)) {
			types[i] = SlidingAttention
		}
	}
	return types
}

// checkWindows checks that each layer has a valid type, and that there is a window if a layer needs
// one.
func (c Config) checkWindows() error {
	if int64(len(c.LayerTypes)) != c.NumLayers {
		return fmt.Errorf("layer_types has %d types; want one for each of the %d layers", len(c.LayerTypes), c.NumLayers)
	}
	if c.SlidingWindow < -1 {
		return fmt.Errorf("SlidingWindow is %d; want a positive number, or -1 for none", c.SlidingWindow)
	}
	for i, kind := range c.LayerTypes {
		switch {
		case kind != FullAttention && kind != SlidingAttention:
			return fmt.Errorf("layer_types[%d] is %q; want %q or %q", i, kind, FullAttention, SlidingAttention)
		case kind == SlidingAttention && c.SlidingWindow < 0:
			return fmt.Errorf("layer_types[%d] is %q, and there is no sliding_window", i, kind)
		}
	}
	return nil
}
