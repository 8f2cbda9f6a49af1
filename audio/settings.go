package audio

import (
	"encoding/json"
	"fmt"
)

// parseSettings reads preprocessor_config.json of a feature extractor of the given class into
// fields, by their names there, and returns the other settings.
func parseSettings(text []byte, class string, fields map[string]any) (extra map[string]json.RawMessage, err error) {
	fail := func(err error) (map[string]json.RawMessage, error) {
		return nil, fmt.Errorf("audio: %s: %w", ConfigName, err)
	}
	if err := json.Unmarshal(text, &extra); err != nil {
		return fail(err)
	}
	var kind, side string
	decode := func(name string, field any) error {
		raw, found := extra[name]
		if !found {
			return nil
		}
		delete(extra, name)
		if err := json.Unmarshal(raw, field); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	for name, field := range fields {
		if err := decode(name, field); err != nil {
			return fail(err)
		}
	}
	if err := decode("feature_extractor_type", &kind); err != nil {
		return fail(err)
	}
	if err := decode("padding_side", &side); err != nil {
		return fail(err)
	}
	switch {
	case kind != "" && kind != class:
		return fail(fmt.Errorf("feature_extractor_type is %q; want %q", kind, class))
	case side != "" && side != "right":
		return fail(fmt.Errorf("padding_side is %q; want \"right\"", side))
	}
	return extra, nil
}
