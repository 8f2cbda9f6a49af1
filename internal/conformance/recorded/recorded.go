// Package recorded creates what recordings of Python programs describe: optimizers from keyword
// arguments, weights from a formula, configurations.
package recorded

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/torch"
)

// Try returns an error that run fails with through package spec or an operator of libtorch, for
// example because of a wrong shape.
func Try(run func()) (err error) {
	if failed := torch.Try(func() { err = spec.Try(run) }); failed != nil {
		return failed
	}
	return err
}

// TryAll is like [Try], for code under test: any panic is returned as an error.
func TryAll(run func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return Try(run)
}

// Load fails if libtorch cannot be loaded.
func Load() {
	if err := torch.Load(); err != nil {
		spec.Refusef("libtorch cannot be loaded: %v", err)
	}
}

// Tensors returns the tensors of a file by name.
func Tensors(path string) map[string]torch.Tensor {
	list, _ := spec.Must2(tensorio.Load(path))
	tensors := map[string]torch.Tensor{}
	for _, t := range list {
		tensors[t.Name] = t.Tensor
	}
	return tensors
}

// ByName returns tensors sorted by name.
func ByName(list []torch.Named) []torch.Named {
	return slices.SortedFunc(slices.Values(list),
		func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) })
}

// Hash returns the SHA-256 of tensors in the order of their names, each as contiguous little-endian
// bytes.
func Hash(list ...torch.Named) string {
	h := sha256.New()
	for _, t := range ByName(list) {
		h.Write(t.Tensor.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Config converts a JSON value to one of a configuration. Keys that are integers become integers.
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
