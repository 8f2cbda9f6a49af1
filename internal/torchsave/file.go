package torchsave

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// WriteFile atomically writes a value in the form of [Value]: in the format of torch.save or, if
// the name ends in .safetensors, as safetensors with everything that is not a tensor as JSON in the
// header.
func WriteFile(path string, v any) error {
	v, err := Value("", v)
	if err != nil {
		return err
	}
	if filepath.Ext(path) != ".safetensors" {
		return pickle.WriteFile(path, v)
	}
	entries, metadata, err := entriesOf(v)
	if err != nil {
		return err
	}
	return safetensors.WriteFile(path, entries, metadata)
}

// entriesOf returns the tensors and metadata of a safetensors file for a value.
func entriesOf(v any) (entries []safetensors.Entry, metadata map[string]string, err error) {
	text, err := json.Marshal(strip("", v, &entries))
	return entries, map[string]string{"format": "pt", stateKey: string(text)}, err
}

// Marshal returns what WriteFile writes into a safetensors file.
func Marshal(v any) ([]byte, error) {
	v, err := Value("", v)
	if err != nil {
		return nil, err
	}
	entries, metadata, err := entriesOf(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = safetensors.Write(&b, entries, metadata)
	return b.Bytes(), err
}

// Unmarshal decodes what Marshal returned. The tensors belong to the current scope.
func Unmarshal(raw []byte) (v any, err error) {
	r, err := safetensors.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	return readFrom(r)
}

// ReadFile reads what WriteFile or torch.save wrote, without executing anything in it. Its values
// are those that [Value] accepts. The tensors are kept; the caller must free them.
func ReadFile(path string) (state map[string]any, err error) {
	read := readTorch
	if filepath.Ext(path) == ".safetensors" {
		read = readSafetensors
	}
	panicked := torch.Try(func() {
		torch.Scope(func() {
			var v any
			if v, err = read(path); err != nil {
				return
			}
			var ok bool
			if state, ok = v.(map[string]any); !ok {
				err = fmt.Errorf("it holds a %T, want a dictionary with names", v)
				return
			}
			EachTensor(v, func(t torch.Tensor) { t.Keep() })
		})
	})
	return state, errors.Join(panicked, err)
}

// EachTensor calls f with all tensors in a value.
func EachTensor(v any, f func(torch.Tensor)) {
	switch v := v.(type) {
	case torch.Tensor:
		f(v)
	case map[string]any:
		for _, x := range v {
			EachTensor(x, f)
		}
	case map[int]any:
		for _, x := range v {
			EachTensor(x, f)
		}
	case []any:
		for _, x := range v {
			EachTensor(x, f)
		}
	}
}

func readTorch(path string) (any, error) {
	f, err := pickle.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return value("", f.Value(), func(at string, _ *pickle.Tensor) (torch.Tensor, error) { return Tensor(f.Reader, at) })
}

func readSafetensors(path string) (any, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readFrom(f.Reader)
}

func readFrom(r *safetensors.Reader) (v any, err error) {
	if text, ok := r.Metadata()[stateKey]; ok {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber() // a float64 cannot represent every int64
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("its state: %w", err)
		}
		if v, err = dress(v); err != nil {
			return nil, fmt.Errorf("its state has %w", err)
		}
	} else { // a plain file of weights
		weights := &pickle.Dict{}
		for _, info := range r.Tensors() {
			Set(weights, info.Name, &pickle.Tensor{Name: info.Name})
		}
		v = weights
	}
	return value("", v, func(_ string, t *pickle.Tensor) (torch.Tensor, error) {
		return tensorio.Read(r, t.Name)
	})
}

// value is the inverse of Value. A dictionary with integer keys, such as the states of an
// optimizer, becomes a map[int]any, an empty one a map[string]any.
func value(at string, v any, read func(at string, t *pickle.Tensor) (torch.Tensor, error)) (any, error) {
	switch v := v.(type) {
	case nil, bool, float64, string:
		return v, nil
	case int64:
		return int(v), nil
	case pickle.Name:
		return string(v), nil
	case *pickle.Tensor:
		return read(at, v)
	case pickle.Tuple:
		return value(at, &pickle.List{Items: v}, read)
	case *pickle.List:
		out := make([]any, len(v.Items))
		for i, x := range v.Items {
			var err error
			if out[i], err = value(Below(at, i), x, read); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *pickle.Dict:
		named, numbered := map[string]any{}, map[int]any{}
		for i, key := range v.Keys {
			item, err := value(Below(at, key), v.Values[i], read)
			if err != nil {
				return nil, err
			}
			switch key := key.(type) {
			case string:
				named[key] = item
			case int64:
				numbered[int(key)] = item
			default:
				return nil, fmt.Errorf("a dictionary has the key %v, want names or numbers", key)
			}
		}
		switch {
		case len(numbered) == 0:
			return named, nil
		case len(named) == 0:
			return numbered, nil
		}
		return nil, errors.New("a dictionary has names and numbers for keys, want one of them")
	}
	return nil, fmt.Errorf("it holds a %T, which no checkpoint has", v)
}

// stateKey is the key in a safetensors header of everything that is not a tensor.
const stateKey = "state"

// Tags for values that JSON does not distinguish.
const (
	tensorTag = "tensor" // the name of a tensor
	dictTag   = "dict"   // names to values
	numberTag = "number" // integers to values
	floatTag  = "float"  // as text, to distinguish 1.0 from an int and to represent NaN
)

// strip removes the tensors from a file's value and returns what JSON can represent: plain values
// unchanged, lists as lists, the rest as an object with one tag.
func strip(at string, v any, tensors *[]safetensors.Entry) any {
	switch v := v.(type) {
	case float64:
		return map[string]any{floatTag: strconv.FormatFloat(v, 'g', -1, 64)}
	case *safetensors.Entry:
		entry := *v
		entry.Name = at
		*tensors = append(*tensors, entry)
		return map[string]any{tensorTag: at}
	case *pickle.List:
		out := make([]any, len(v.Items))
		for i, x := range v.Items {
			out[i] = strip(Below(at, i), x, tensors)
		}
		return out
	case *pickle.Dict:
		tag, out := dictTag, map[string]any{}
		for i, key := range v.Keys {
			if _, ok := key.(int64); ok {
				tag = numberTag
			}
			out[fmt.Sprint(key)] = strip(Below(at, key), v.Values[i], tensors)
		}
		return map[string]any{tag: out}
	}
	return v
}

// dress is the inverse of strip; tensors have only names.
func dress(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number: // an int, since floats are tagged
		n, err := v.Int64()
		if err != nil {
			return nil, fmt.Errorf("the number %s, want a whole one of 64 bits", v)
		}
		return n, nil
	case []any:
		for i, x := range v {
			var err error
			if v[i], err = dress(x); err != nil {
				return nil, err
			}
		}
		return &pickle.List{Items: v}, nil
	case map[string]any:
		if len(v) == 1 {
			for tag, x := range v {
				return dressTagged(tag, x)
			}
		}
	}
	return nil, fmt.Errorf("%v, want a value with one tag", v)
}

func dressTagged(tag string, x any) (any, error) {
	text, isText := x.(string)
	values, isMap := x.(map[string]any)
	switch {
	case tag == tensorTag && isText:
		return &pickle.Tensor{Name: text}, nil
	case tag == floatTag && isText:
		return strconv.ParseFloat(text, 64)
	case isMap && (tag == dictTag || tag == numberTag):
		out := &pickle.Dict{}
		for name, x := range values {
			var key any = name
			var err error
			if tag == numberTag {
				if key, err = strconv.Atoi(name); err != nil {
					return nil, err
				}
			}
			if x, err = dress(x); err != nil {
				return nil, err
			}
			Set(out, key, x)
		}
		return out, nil
	}
	return nil, fmt.Errorf("the tag %q over a %T", tag, x)
}
