package repository

import (
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// values takes values out of a config and keeps the first mistake.
type values struct {
	m   omegaconf.Map
	err error
}

func (v *values) fail(key, want string) {
	if v.err == nil {
		found, _ := v.m.Get(key)
		v.err = fmt.Errorf("%s is %v; want %s", key, found, want)
	}
}

func (v *values) integer(key string, fallback int64) int64 {
	found, ok := v.m.Get(key)
	if !ok || found == nil {
		return fallback
	}
	n, ok := found.(int64)
	if !ok {
		v.fail(key, "an integer")
	}
	return n
}

func (v *values) boolean(key string) bool {
	found, ok := v.m.Get(key)
	if !ok || found == nil {
		return false
	}
	b, ok := found.(bool)
	if !ok {
		v.fail(key, "true or false")
	}
	return b
}

// labels is id2label: the texts of the numbers 0, 1, 2 and so on.
func (v *values) labels() []string {
	found, ok := v.m.Get("id2label")
	m, isMap := found.(omegaconf.Map)
	if !ok || !isMap || len(m) == 0 {
		v.fail("id2label", "a mapping from 0, 1, ... to texts")
		return nil
	}
	labels, seen := make([]string, len(m)), make([]bool, len(m))
	for _, item := range m {
		var id int64
		switch key := item.Key.(type) {
		case int64:
			id = key
		case int:
			id = int64(key)
		case string: // JSON has no other keys
			if _, err := fmt.Sscanf(key, "%d", &id); err != nil || fmt.Sprint(id) != key {
				v.fail("id2label", "numbers for keys")
				return nil
			}
		}
		if id < 0 || id >= int64(len(m)) || seen[id] {
			v.fail("id2label", fmt.Sprintf("each of the keys 0 to %d once", len(m)-1))
			return nil
		}
		seen[id] = true
		labels[id] = fmt.Sprint(item.Value)
	}
	return labels
}

func labelMap(labels []string) omegaconf.Map {
	m := make(omegaconf.Map, len(labels))
	for i, label := range labels {
		m[i] = omegaconf.Item{Key: i, Value: label}
	}
	return m
}
