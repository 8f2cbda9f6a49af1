package repository

import (
	_ "embed"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// ConfigFile is Hezar's name for the file.
const ConfigFile = "model_config.yaml"

// configs holds the configs of the supported Hezar models, with the defaults of their classes.
//
//go:embed configs.yaml
var configs []byte

// Kinds returns the names of the supported models, as in their model_config.yaml.
func Kinds() (names []string) {
	all, _ := omegaconf.Unmarshal(configs) // embedded, so always valid
	for _, item := range all {
		names = append(names, fmt.Sprint(item.Key))
	}
	return names
}

// Settings are fields of Hezar's configs under their names; id2label may be a []string, and GPT-2's
// generation may be Settings.
type Settings map[string]any

// ordered returns the settings as in a file.
func (s Settings) ordered() (m omegaconf.Map) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		m.Set(key, s[key])
	}
	return m
}

// NewConfig returns the default config of a kind of model with some settings changed, like Hezar's
// classes: CRNNImage2TextConfig(id2label=...).
func NewConfig(kind string, s Settings) (omegaconf.Map, error) {
	config, err := defaults(kind)
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	return update(config, s)
}

// LoadConfig returns the config in a folder with some settings changed:
// CRNNImage2TextConfig.load(folder, id2label=...).
func LoadConfig(dir string, s Settings) (omegaconf.Map, error) {
	config, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	return update(config, s)
}

// ReadConfig reads the model_config.yaml in a folder. Missing settings have Hezar's defaults;
// unknown keys are ignored, as in Hezar.
func ReadConfig(dir string) (omegaconf.Map, error) {
	path := filepath.Join(dir, ConfigFile)
	file, err := configfile.Load(path)
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	var kind string
	var config omegaconf.Map
	if err = configfile.Decode(file, configfile.Fields("config_type", configfile.Const("model"), "name",
		&kind)); err == nil {
		config, err = defaults(kind)
	}
	if err != nil {
		return nil, named(dir, err)
	}
	for i, item := range config {
		if v, ok := file.Get(item.Key.(string)); ok {
			config[i].Value = v
		}
	}
	return config, nil
}

// named adds the path of the config file to an error.
func named(dir string, err error) error {
	if err != nil {
		err = fmt.Errorf("repository: %s: %w", filepath.Join(dir, ConfigFile), err)
	}
	return err
}

func defaults(kind string) (omegaconf.Map, error) {
	all, err := omegaconf.Unmarshal(configs)
	if err != nil {
		return nil, err
	}
	config, ok := all.Get(kind)
	if !ok {
		return nil, fmt.Errorf("name is %q; want one of %s", kind, strings.Join(Kinds(), ", "))
	}
	return config.(omegaconf.Map), nil
}

// update applies settings to a config. A new id2label also replaces num_labels.
func update(config omegaconf.Map, s Settings) (_ omegaconf.Map, err error) {
	kind, _ := config.Get("name")
	for key, v := range s {
		if _, ok := config.Get(key); !ok || key == "name" || key == "config_type" {
			var known []string
			for _, item := range config[2:] {
				known = append(known, item.Key.(string))
			}
			slices.Sort(known)
			return nil, fmt.Errorf("repository: %v has no setting %q; there are %s", kind, key,
				strings.Join(known, ", "))
		}
		if texts, ok := v.([]string); ok && key == "id2label" {
			v = (*configfile.Labels)(&texts).Encode()
		}
		if inner, ok := v.(Settings); ok {
			v = inner.ordered()
		}
		config.Set(key, v)
	}
	_, ofLabels := s["id2label"]
	if _, given := s["num_labels"]; ofLabels && !given {
		if _, counted := config.Get("num_labels"); counted {
			config.Set("num_labels", nil)
		}
	}
	if config, err = normalized(config); err != nil {
		err = fmt.Errorf("repository: %w", err)
	}
	return config, err
}

// normalized converts values to the types that they have when read from a file.
func normalized(m omegaconf.Map) (omegaconf.Map, error) {
	text, err := omegaconf.Marshal(m)
	if err != nil {
		return nil, err
	}
	return omegaconf.Unmarshal(text)
}

// withoutNulls returns a config without the settings that have no value.
func withoutNulls(config omegaconf.Map) omegaconf.Map {
	return slices.DeleteFunc(slices.Clone(config), func(item omegaconf.Item) bool { return item.Value == nil })
}
