package auto

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

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
// run has them. The files are those of the folder that the model came from, unless Tokenizer is
// another one.
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
	asLoaded, err := m.tokenizerAsLoaded()
	if err != nil {
		return fmt.Errorf("auto: the tokenizer: %w", err)
	}
	if !asLoaded {
		return m.Tokenizer.Save(dir)
	}
	if err := copyTokenizer(m.dir, dir); err != nil {
		return fmt.Errorf("auto: the tokenizer's files: %w", err)
	}
	// An older file of this name may be in dir, and readers prefer it to vocab.txt.
	if _, err := os.Stat(filepath.Join(m.dir, tokenizerFiles[0])); errors.Is(err, fs.ErrNotExist) {
		return m.Tokenizer.Save(dir)
	}
	return nil
}

// tokenizerAsLoaded tells whether the tokenizer is the one whose files are in the model's folder,
// apart from padding and truncation, which programs set as they need them.
func (m *Model) tokenizerAsLoaded() (bool, error) {
	if m.loaded == nil || m.Tokenizer == m.loaded || m.Tokenizer == m.asLoaded {
		return m.loaded != nil, nil
	}
	t, err := m.Tokenizer.WithPadding(nil)
	if err == nil {
		t, err = t.WithTruncation(nil)
	}
	if err != nil {
		return false, err
	}
	now, err := t.MarshalJSON()
	if err != nil {
		return false, err
	}
	loaded, err := m.loaded.MarshalJSON()
	if err != nil || !bytes.Equal(now, loaded) {
		return false, err
	}
	m.asLoaded = m.Tokenizer // large vocabularies are not written again for every checkpoint
	return true, nil
}

// copyTokenizer replaces the files as wholes; from and to may be the same folder.
func copyTokenizer(from, to string) error {
	for _, name := range tokenizerFiles {
		content, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = renameio.WriteFile(filepath.Join(to, name), content, 0o666, renameio.WithTempDir(to))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
