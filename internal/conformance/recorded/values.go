package recorded

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// Config turns a JSON value into one of a configuration. Keys that are whole numbers become
// numbers.
func Config(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := omegaconf.Map{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			item := omegaconf.Item{Key: key, Value: Config(v[key])}
			if n, err := strconv.ParseInt(key, 10, 64); err == nil {
				item.Key = n
			}
			m = append(m, item)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = Config(v[i])
		}
		return list
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	}
	return v
}
