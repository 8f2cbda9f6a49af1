package auto

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
)

// Save writes config.json, model.safetensors and the tokenizer's files into dir, which it makes if
// need be, for transformers' from_pretrained and this package to read.
func (m *Model) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	if err := m.WriteConfig(dir); err != nil {
		return err
	}
	return nn.Save(filepath.Join(dir, pretrained.SafetensorsName), m, nil)
}

// WriteConfig writes config.json and the tokenizer's files into dir, so that every checkpoint of a
// run has them.
func (m *Model) WriteConfig(dir string) error {
	d, err := m.blueprint.Document(m.Architecture())
	if err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	if err := d.Write(dir); err != nil {
		return err
	}
	if m.Tokenizer == nil {
		return nil
	}
	for _, name := range tokenizerFiles {
		content, err := os.ReadFile(filepath.Join(m.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o666)
		}
		if err != nil {
			return fmt.Errorf("auto: the tokenizer's files: %w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, tokenizerFiles[0])); errors.Is(err, fs.ErrNotExist) {
		return m.Tokenizer.Save(dir)
	}
	return nil
}
