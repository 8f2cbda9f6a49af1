package pretrained

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// ParseYAML parses Hezar's description of a model. Numeric keys, as in id2label, become strings,
// as in JSON.
func ParseYAML(text []byte) (Document, error) {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	m, ok := stringKeys(v).(map[string]any)
	if !ok {
		return nil, errors.New("want a mapping of settings")
	}
	d := Document{}
	for key, value := range m {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		d[key] = raw
	}
	return d, nil
}

func stringKeys(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[fmt.Sprint(key)] = stringKeys(value)
		}
		return m
	case map[string]any:
		for key, value := range v {
			v[key] = stringKeys(value)
		}
	case []any:
		for i, item := range v {
			v[i] = stringKeys(item)
		}
	}
	return v
}
