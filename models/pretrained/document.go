package pretrained

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// The names of files that describe a model.
const (
	ConfigName      = "config.json"
	HezarConfigName = "model_config.yaml"
)

// Document is the content of config.json by its keys.
type Document map[string]json.RawMessage

// Field ties a key of a [Document] to a variable.
type Field struct {
	Key   string
	Value any // a pointer
}

// maxConfig is a size limit far above that of any config.json.
const maxConfig = 4 << 20

// ReadConfig reads config.json from dir or, if there is none, Hezar's model_config.yaml.
func ReadConfig(dir string) (Document, error) {
	d, _, err := readConfig(dir)
	return d, err
}

// readConfig is like [ReadConfig], but also returns the path of the file it read.
func readConfig(dir string) (d Document, path string, err error) {
	path = filepath.Join(dir, ConfigName)
	text, err := regularfile.ReadFile(path, maxConfig)
	parse := ParseConfig
	if hezar := filepath.Join(dir, HezarConfigName); errors.Is(err, fs.ErrNotExist) {
		if yaml, err2 := regularfile.ReadFile(hezar, maxConfig); !errors.Is(err2, fs.ErrNotExist) {
			path, text, err, parse = hezar, yaml, err2, ParseYAML
		}
	}
	if err != nil {
		return nil, path, fmt.Errorf("pretrained: %w", err)
	}
	if d, err = parse(text); err != nil {
		return nil, path, fmt.Errorf("pretrained: %s: %w", path, err)
	}
	return d, path, nil
}

// ReadConfigAs is [ReadConfig] for a kind of model, whose name prefixes the errors of decode.
func ReadConfigAs[C any](dir, kind string, decode func(Document) (C, error)) (c C, err error) {
	d, path, err := readConfig(dir)
	if err != nil {
		return c, err
	}
	if c, err = decode(d); err != nil {
		return *new(C), fmt.Errorf("%s: %s: %w", kind, path, err)
	}
	return c, nil
}

// ParseConfig is [ReadConfig] for the content of a file.
func ParseConfig(text []byte) (Document, error) {
	var d Document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	if d == nil {
		return nil, errors.New("want an object, found null")
	}
	return d, nil
}

// Decode decodes keys into variables and removes them from the document. If a key is absent or
// null, its variable does not change.
func (d Document) Decode(fields []Field) error {
	for _, f := range fields {
		raw, ok := d[f.Key]
		if !ok {
			continue
		}
		if !isNull(raw) {
			if err := json.Unmarshal(raw, f.Value); err != nil {
				return fmt.Errorf("%s is %s: %w", f.Key, brief(raw), err)
			}
		}
		delete(d, f.Key)
	}
	return nil
}

// Encode stores variables under their keys.
func (d Document) Encode(fields []Field) error {
	for _, f := range fields {
		raw, err := json.Marshal(reflect.ValueOf(f.Value).Elem().Interface())
		if err != nil {
			return fmt.Errorf("%s: %w", f.Key, err)
		}
		d[f.Key] = raw
	}
	return nil
}

// UseOwnNames renames settings given under the names of other models, which transformers' class
// accepts too (attribute_map), to its own names.
func (d Document) UseOwnNames(own map[string]string) error {
	for other, name := range own {
		value, found := d[other]
		if !found {
			continue
		}
		if is, both := d[name]; both && string(is) != string(value) {
			return fmt.Errorf("%s is %s, but %s, which means the same, is %s", name, is, other, value)
		}
		d[name] = value
		delete(d, other)
	}
	return nil
}

// EncodeModel stores the fields of a model of the given model_type, for transformers' class of
// that name.
func (d Document) EncodeModel(modelType, architecture string, fields []Field) error {
	err := d.Encode(append(fields, Field{"model_type", &modelType}, Field{"architectures", &[]string{architecture}},
		Field{"dtype", new("float32")}))
	delete(d, "torch_dtype") // the older name of dtype
	return err
}

// Demand refuses a document in which a key has none of the wanted values, given as JSON; an absent
// or null key has the first. It is for settings that change what a model computes and are not
// supported.
func (d Document) Demand(key string, wanted ...string) error {
	raw, ok := d[key]
	if !ok || isNull(raw) {
		return nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil {
		return err
	}
	for _, w := range wanted {
		if text.String() == w {
			return nil
		}
	}
	return fmt.Errorf("%s is %s; only %s is supported", key, brief(raw), strings.Join(wanted, " or "))
}

// Write writes config.json into dir, with keys in alphabetical order as in transformers.
func (d Document) Write(dir string) error { return WriteJSON(dir, ConfigName, d) }

// WriteJSON atomically writes a value into a file in a folder.
func WriteJSON(dir, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("pretrained: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return fmt.Errorf("pretrained: %w", err)
	}
	b.WriteByte('\n')
	if err := renameio.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644, renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("pretrained: %w", err)
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// brief returns a value shortened for an error.
func brief(raw json.RawMessage) string {
	const most = 80
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}
