package sbert

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// The files in a folder of sentence-transformers, besides those of the encoder.
const (
	ModulesName         = "modules.json"
	SettingsName        = "config_sentence_transformers.json"
	EncoderSettingsName = "sentence_bert_config.json"
	tokenizerName       = "tokenizer_config.json"
)

// encoderSettingsNames are the current and former names of EncoderSettingsName.
var encoderSettingsNames = []string{EncoderSettingsName, "sentence_roberta_config.json",
	"sentence_distilbert_config.json", "sentence_camembert_config.json", "sentence_albert_config.json",
	"sentence_xlm-roberta_config.json", "sentence_xlnet_config.json"}

// Files returns the names of all these files, to fetch them from the Hub.
func Files() []string { return append([]string{ModulesName, SettingsName}, encoderSettingsNames...) }

// ReadJSON reads a file of settings into a document or a list.
func ReadJSON(dir, name string, value any) error {
	file := filepath.Join(dir, name)
	content, err := regularfile.ReadFile(file, 4<<20)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Module is a module in modules.json.
type Module struct {
	Index int    `json:"idx"`
	Name  string `json:"name"`
	Path  string `json:"path"`
	Type  string `json:"type"`
}

// ReadModules reads modules.json. Paths must stay within the folder.
func ReadModules(dir string) (modules []Module, err error) {
	if err := ReadJSON(dir, ModulesName, &modules); err != nil {
		return nil, err
	}
	for i, m := range modules {
		if m.Path != "" && !filepath.IsLocal(m.Path) {
			return nil, fmt.Errorf("%s: the path of module %d is %q, which leads out of the folder",
				filepath.Join(dir, ModulesName), i, m.Path)
		}
	}
	return modules, nil
}

// TypesOf returns the types of modules.
func TypesOf(modules []Module) (types []string) {
	for _, m := range modules {
		types = append(types, m.Type)
	}
	return types
}

// Kind returns the class name of a module of sentence_transformers, or the empty string for classes
// of other packages.
func (m Module) Kind() string {
	if !strings.HasPrefix(m.Type, "sentence_transformers.") {
		return ""
	}
	return m.Type[strings.LastIndex(m.Type, ".")+1:]
}

// ClassOf returns a class name that all versions of sentence-transformers know.
func ClassOf(kind string) string { return "sentence_transformers.models." + kind }
