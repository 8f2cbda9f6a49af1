package pymarlin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/compat/internal/torchsave"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// WriteState writes a state into a file, which is whole or not there: as torch.save does, or, if
// its name ends in .safetensors, as safetensors with what is no tensor as JSON in the header.
func WriteState(path string, s State) error {
	err := writeState(path, s)
	if err != nil {
		return fmt.Errorf("pymarlin: write %s: %w", path, err)
	}
	return nil
}

func writeState(path string, s State) error {
	if filepath.Ext(path) == ".safetensors" {
		return writeSafetensors(path, s)
	}
	value, err := torchsave.Value("", s)
	if err != nil {
		return err
	}
	return pickle.WriteFile(path, value)
}

// ReadState reads what WriteState or torch.save wrote; nothing in it is run. Its tensors are the
// caller's to free.
func ReadState(path string) (State, error) {
	s, err := readState(path)
	if err != nil {
		return nil, fmt.Errorf("pymarlin: read %s: %w", path, err)
	}
	return s, nil
}

func readState(path string) (State, error) {
	if filepath.Ext(path) == ".safetensors" {
		return readSafetensors(path)
	}
	f, err := pickle.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	v, err := fromPickle(f.Reader, "", f.Value())
	if err != nil {
		eachTensor(v, torch.Tensor.Free)
		return nil, err
	}
	s, ok := v.(State)
	if !ok {
		eachTensor(v, torch.Tensor.Free)
		return nil, fmt.Errorf("it holds a %T, want a dictionary with names", v)
	}
	return s, nil
}

// fromPickle turns what package pickle read into a state. What was made before an error comes with
// it.
func fromPickle(r *pickle.Reader, at string, v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, float64, string:
		return v, nil
	case int64:
		return int(v), nil
	case pickle.Name:
		return string(v), nil
	case *pickle.Tensor:
		t, err := torchsave.Tensor(r, at)
		if err != nil {
			return nil, err
		}
		return t.Keep(), nil
	case pickle.Tuple:
		return fromPickleList(r, at, v)
	case *pickle.List:
		return fromPickleList(r, at, v.Items)
	case *pickle.Dict:
		return fromPickleDict(r, at, v)
	}
	return nil, fmt.Errorf("it holds a %T, which no checkpoint has", v)
}

func fromPickleList(r *pickle.Reader, at string, items []any) (any, error) {
	out := make([]any, 0, len(items))
	for i, x := range items {
		item, err := fromPickle(r, torchsave.Below(at, i), x)
		out = append(out, item)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// fromPickleDict makes a map[int]any of a dictionary whose keys are numbers, such as the states of
// an optimizer. An empty one is a State.
func fromPickleDict(r *pickle.Reader, at string, d *pickle.Dict) (any, error) {
	named, numbered := State{}, map[int]any{}
	both := func() any { return []any{named, numbered} }
	for i, key := range d.Keys {
		item, err := fromPickle(r, torchsave.Below(at, key), d.Values[i])
		switch key := key.(type) {
		case string:
			named[key] = item
		case int64:
			numbered[int(key)] = item
		default:
			err = errors.Join(err, fmt.Errorf("a dictionary has the key %v, want names or numbers", key))
		}
		if err != nil {
			return both(), err
		}
	}
	switch {
	case len(numbered) == 0:
		return named, nil
	case len(named) == 0:
		return numbered, nil
	}
	return both(), errors.New("a dictionary has names and numbers for keys, want one of them")
}

// stateKeyJSON is where a safetensors file has what is no tensor.
const stateKeyJSON = "state"

func writeSafetensors(path string, s State) error {
	var tensors []torch.Named
	skeleton, err := strip("", s, &tensors)
	if err != nil {
		return err
	}
	text, err := json.Marshal(skeleton)
	if err != nil {
		return err
	}
	entries, err := tensorio.Entries(tensors)
	if err != nil {
		return err
	}
	return safetensors.WriteFile(path, entries, map[string]string{"format": "pt", stateKeyJSON: string(text)})
}

// The tags of a skeleton's values that JSON cannot tell apart.
const (
	tensorTag = "tensor" // the name of a tensor
	dictTag   = "dict"   // names to values
	numberTag = "number" // numbers to values
	floatTag  = "float"  // as text, so that 1.0 is no int, and NaN is there
)

// strip takes the tensors out of a state and leaves what JSON can hold: plain values as they are,
// lists as lists, the rest as an object with one tag.
func strip(at string, v any, tensors *[]torch.Named) (any, error) {
	join := func(key string) string { return torchsave.Below(at, key) }
	switch v := v.(type) {
	case nil, bool, int, string:
		return v, nil
	case float64:
		return map[string]any{floatTag: strconv.FormatFloat(v, 'g', -1, 64)}, nil
	case torch.Tensor:
		*tensors = append(*tensors, torch.Named{Name: at, Tensor: v})
		return map[string]any{tensorTag: at}, nil
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			var err error
			if out[i], err = strip(join(strconv.Itoa(i)), x, tensors); err != nil {
				return nil, err
			}
		}
		return out, nil
	case State:
		return stripMap(dictTag, slices.Sorted(maps.Keys(v)), func(k string) any { return v[k] },
			func(k string) string { return k }, join, tensors)
	case map[int]any:
		return stripMap(numberTag, slices.Sorted(maps.Keys(v)), func(k int) any { return v[k] }, strconv.Itoa, join,
			tensors)
	}
	return nil, fmt.Errorf("%s is a %T; a state holds nil, bool, int, float64, string, torch.Tensor, []any, State "+
		"and map[int]any", at, v)
}

func stripMap[K any](tag string, keys []K, get func(K) any, name func(K) string, join func(string) string,
	tensors *[]torch.Named) (any, error) {
	out := map[string]any{}
	for _, k := range keys {
		x, err := strip(join(name(k)), get(k), tensors)
		if err != nil {
			return nil, err
		}
		out[name(k)] = x
	}
	return map[string]any{tag: out}, nil
}

func readSafetensors(path string) (State, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	s := State{}
	text, ok := f.Metadata()[stateKeyJSON]
	if !ok { // a plain file of weights
		for _, info := range f.Tensors() {
			t, err := tensorio.Read(f.Reader, info.Name)
			if err != nil {
				s.free()
				return nil, err
			}
			s[info.Name] = t.Keep()
		}
		return s, nil
	}
	skeleton, err := decodeSkeleton(text)
	if err != nil {
		return nil, err
	}
	v, err := dress(f.Reader, skeleton)
	s, ok = v.(State)
	if err == nil && !ok {
		err = fmt.Errorf("its state is a %T, want a dictionary with names", v)
	}
	if err != nil {
		eachTensor(v, torch.Tensor.Free)
		return nil, err
	}
	return s, nil
}

func decodeSkeleton(text string) (any, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("its state: %w", err)
	}
	return v, nil
}

// dress puts the tensors into a skeleton. What was made before an error comes with it.
func dress(r *safetensors.Reader, v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case float64: // JSON's number: an int, since floats are tagged
		if n := int(v); float64(n) == v {
			return n, nil
		}
		return nil, fmt.Errorf("its state has the number %v, want a whole one", v)
	case []any:
		out := make([]any, 0, len(v))
		for _, x := range v {
			item, err := dress(r, x)
			out = append(out, item)
			if err != nil {
				return out, err
			}
		}
		return out, nil
	case map[string]any:
		if len(v) == 1 {
			for tag, x := range v {
				return dressTagged(r, tag, x)
			}
		}
	}
	return nil, fmt.Errorf("its state has %v, want a value with one tag", v)
}

func dressTagged(r *safetensors.Reader, tag string, x any) (any, error) {
	text, isText := x.(string)
	values, isMap := x.(map[string]any)
	switch {
	case tag == tensorTag && isText:
		t, err := tensorio.Read(r, text)
		if err != nil {
			return nil, err
		}
		return t.Keep(), nil
	case tag == floatTag && isText:
		f, err := strconv.ParseFloat(text, 64)
		return f, err
	case tag == dictTag && isMap:
		out := State{}
		for k, value := range values {
			item, err := dress(r, value)
			out[k] = item
			if err != nil {
				return out, err
			}
		}
		return out, nil
	case tag == numberTag && isMap:
		out := map[int]any{}
		for k, value := range values {
			n, err := strconv.Atoi(k)
			if err != nil {
				return out, err
			}
			item, err := dress(r, value)
			out[n] = item
			if err != nil {
				return out, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("its state has the tag %q over a %T", tag, x)
}
