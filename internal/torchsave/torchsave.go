// Package torchsave converts values of training programs to and from those in files of torch.save:
// the state dicts of modules, optimizers and schedulers. Package pickle reads and writes the files
// themselves.
package torchsave

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// Dict makes a dictionary from alternating keys and values, in this order.
func Dict(items ...any) *pickle.Dict {
	d := &pickle.Dict{}
	for i := 0; i < len(items); i += 2 {
		Set(d, items[i], items[i+1])
	}
	return d
}

// Set adds an item to a dictionary. The key must be a string or an integer.
func Set(d *pickle.Dict, key, value any) {
	_ = d.Set(key, value) // other keys are an error
}

// Module returns module.state_dict(). Tied tensors are stored once.
func Module(module any) (*pickle.Dict, error) {
	tensors := nn.StateDict(module)
	entries, err := tensorio.Entries(tensors)
	if err != nil {
		return nil, err
	}
	d, err := pickle.StateDict(entries)
	if err != nil {
		return nil, err
	}
	first := map[torch.Tensor]int{}
	for i, t := range tensors {
		if at, again := first[t.Tensor]; again {
			Set(d, t.Name, &entries[at])
		} else {
			first[t.Tensor] = i
		}
	}
	return d, nil
}

// WriteModule is torch.save(module.state_dict(), path).
func WriteModule(path string, module any) error {
	state, err := Module(module)
	if err != nil {
		return err
	}
	return pickle.WriteFile(path, state)
}

// StateKey parses a name such as "state.0.exp_avg".
func StateKey(name string) (number int, kind string, err error) {
	if parts := strings.SplitN(name, ".", 3); len(parts) == 3 {
		if n, err := strconv.Atoi(parts[1]); err == nil {
			return n, parts[2], nil
		}
	}
	return 0, "", fmt.Errorf("the state %q has no name of the form state.0.exp_avg", name)
}

// Tensor reads a tensor of a file into CPU memory.
func Tensor(r *pickle.Reader, name string) (t torch.Tensor, err error) {
	info, ok := r.Tensor(name)
	if !ok {
		return t, fmt.Errorf("it has no tensor %q", name)
	}
	dtype, ok := tensorio.TorchDType(info.DType)
	if !ok {
		return t, fmt.Errorf("tensor %q has dtype %s, which tensors here cannot have", name, info.DType)
	}
	raw, err := r.Read(name)
	if err != nil {
		return t, err
	}
	err = torch.Try(func() { t = torch.FromBytes(raw, dtype, info.Shape...) })
	return t, err
}

// Value converts a Go value to the form that files hold: from nil, bool, string, int, int64,
// float64, json.Number, torch.Tensor, []any, map[string]any and map[int]any. Keys are sorted, so
// that equal values make equal files. Dictionaries of package pickle are unchanged. at is the
// position of the value in the file, for messages.
func Value(at string, v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, int, int64, float64:
		return v, nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case torch.Tensor:
		if !v.Defined() {
			return nil, fmt.Errorf("%s is an undefined tensor", at)
		}
		e, err := tensorio.Entry(at, v)
		return &e, err
	case []any:
		list := &pickle.List{}
		for i, x := range v {
			item, err := Value(Below(at, i), x)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, item)
		}
		return list, nil
	case map[string]any:
		return dict(at, v)
	case map[int]any:
		return dict(at, v)
	case *pickle.Dict:
		return v, nil
	}
	return nil, fmt.Errorf("%s is a %T; a file holds nil, bool, int, float64, string, torch.Tensor, []any, and "+
		"map[string]any and map[int]any of these", at, v)
}

func dict[K string | int](at string, m map[K]any) (*pickle.Dict, error) {
	d := &pickle.Dict{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		item, err := Value(Below(at, key), m[key])
		if err != nil {
			return nil, err
		}
		Set(d, key, item)
	}
	return d, nil
}

// Below returns the name of an element in a container, under which package pickle finds tensors.
func Below(at string, key any) string {
	if at == "" {
		return fmt.Sprint(key)
	}
	return fmt.Sprintf("%s.%v", at, key)
}

// Plain converts a file's value to what package json reads and writes: numbers become float64,
// those that are not finite strings, as in package lr; tensors, such as a rate on a device, become
// nil.
func Plain(v any) any {
	list := func(items []any) []any {
		out := make([]any, len(items))
		for i, item := range items {
			out[i] = Plain(item)
		}
		return out
	}
	switch v := v.(type) {
	case pickle.Tuple:
		return list(v)
	case *pickle.List:
		return list(v.Items)
	case *pickle.Dict:
		m := map[string]any{}
		for i, key := range v.Keys {
			m[fmt.Sprint(key)] = Plain(v.Values[i])
		}
		return m
	case bool, string, *big.Int:
		return v
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		if _, err := json.Marshal(v); err != nil {
			return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
		}
		return v
	}
	return nil
}
