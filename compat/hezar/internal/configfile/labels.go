package configfile

import (
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// Labels is id2label: the texts of the classes 0, 1, 2 and so on.
type Labels []string

// Encode returns the mapping in a file; nil if there are no labels.
func (l *Labels) Encode() any {
	if *l == nil {
		return nil
	}
	m := make(omegaconf.Map, len(*l))
	for i, label := range *l {
		m[i] = omegaconf.Item{Key: i, Value: label}
	}
	return m
}

func (l *Labels) Decode(v any) error {
	m, _ := v.(omegaconf.Map)
	if len(m) == 0 {
		return Want("a mapping from 0, 1, ... to texts")
	}
	*l = make(Labels, len(m))
	seen := make([]bool, len(m))
	for _, item := range m {
		id := -1
		key := fmt.Sprint(item.Key) // always a string in JSON
		if _, err := fmt.Sscanf(key, "%d", &id); err != nil || fmt.Sprint(id) != key {
			return Want("numbers for keys")
		}
		if id < 0 || id >= len(m) || seen[id] {
			return Want(fmt.Sprintf("each of the keys 0 to %d once", len(m)-1))
		}
		seen[id] = true
		(*l)[id] = fmt.Sprint(item.Value)
	}
	return nil
}
