package auto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
)

// Save writes config.json, model.safetensors and the files of the tokenizer, image processor or
// feature extractor into dir, which it creates if needed. transformers' from_pretrained and this
// package read them. For a model with an adapter it writes adapter_config.json and
// adapter_model.safetensors instead, for peft, transformers and this package.
func (m *Model) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	if err := m.WriteConfig(dir); err != nil {
		return err
	}
	if m.adapter != nil {
		name, tensors, metadata := m.AdapterState()
		return nn.SaveTensors(filepath.Join(dir, name), tensors, metadata)
	}
	return nn.Save(filepath.Join(dir, pretrained.SafetensorsName), m, nil)
}

// WriteConfig writes into dir the files that every checkpoint of a run has besides the weights:
// config.json, the tokenizer's files or preprocessor_config.json, and generation_config.json if
// there is one. For a model with an adapter it writes adapter_config.json and the tokenizer's
// files.
//
// The files are those of the folder that the model came from. If Tokenizer is another one,
// tokenizer.json and tokenizer_config.json are those of [text.Tokenizer.Save], and the other
// settings of the folder's tokenizer_config.json are kept.
func (m *Model) WriteConfig(dir string) error {
	if err := m.writeConfig(dir); err != nil {
		return err
	}
	if m.LlavaProcessor != nil {
		if err := pretrained.WriteJSON(dir, processorName, m.LlavaProcessor); err != nil {
			return err
		}
	}
	if m.ImageProcessor != nil {
		if err := m.writeImageProcessor(dir); err != nil {
			return err
		}
	}
	if m.FeatureExtractor != nil {
		if err := writeProcessor(dir, featureExtractorKey, m.FeatureExtractor); err != nil {
			return err
		}
	}
	if m.WaveformExtractor != nil {
		if err := writeProcessor(dir, featureExtractorKey, m.WaveformExtractor); err != nil {
			return err
		}
	}
	if m.CTCTokenizer != nil {
		if err := m.writeCTCTokenizer(dir); err != nil {
			return fmt.Errorf("auto: the tokenizer's files: %w", err)
		}
	}
	if m.Tokenizer == nil {
		return nil
	}
	err := m.writeTokenizer(dir)
	if err == nil {
		err = m.writeLanguages(dir)
	}
	if err == nil {
		err = m.writeSpeechLanguage(dir)
	}
	if err == nil {
		err = m.writeChatTemplate(dir)
	}
	if err != nil {
		return fmt.Errorf("auto: the tokenizer's files: %w", err)
	}
	return nil
}

func (m *Model) writeConfig(dir string) error {
	if m.adapter != nil {
		return m.adapter.WriteConfig(dir)
	}
	d, err := m.blueprint.Document(m.Architecture())
	if err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	fields := []pretrained.Field{{Key: "dtype", Value: new(m.dtype().String())}}
	if m.quantization != nil {
		fields = append(fields, pretrained.Field{Key: quantizationKey, Value: m.quantization})
	}
	if m.padTokenID != nil {
		fields = append(fields, pretrained.Field{Key: padTokenKey, Value: m.padTokenID})
	}
	fields = append(fields, m.languages.beginning()...)
	if err := d.Encode(fields); err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	if err := d.Write(dir); err != nil {
		return err
	}
	if err = copyFiles(m.dir, dir, []string{generationConfigName}); err == nil {
		err = changeFile(dir, generationConfigName, append(m.languages.beginning(), m.speech.fields()...))
	}
	if err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	return nil
}

func (m *Model) writeTokenizer(dir string) error {
	asLoaded, err := m.tokenizerAsLoaded()
	if err != nil {
		return err
	}
	if !asLoaded || m.spaced {
		files := tokenizerFiles
		if !asLoaded { // the other files are for another vocabulary
			files = []string{tokenizerConfigName}
		}
		if err := copyFiles(m.tokenizerDir, dir, files); err != nil {
			return err
		}
		if asLoaded {
			return m.saveTokenizer(m.loaded, dir)
		}
		return m.saveTokenizer(m.Tokenizer, dir)
	}
	for _, name := range []string{tokenizerName, tokenizerConfigName} {
		// Readers prefer tokenizer.json to vocab.txt, and transformers needs both files, so older
		// ones with these names in dir must be replaced.
		if _, err := os.Stat(filepath.Join(m.tokenizerDir, name)); errors.Is(err, fs.ErrNotExist) {
			if err := m.saveTokenizer(m.loaded, dir); err != nil {
				return err
			}
			break
		}
	}
	return copyFiles(m.tokenizerDir, dir, tokenizerFiles)
}

// saveTokenizer writes tokenizer.json and tokenizer_config.json, with the tokenizer's outputs that
// the model takes as input.
func (m *Model) saveTokenizer(t *text.Tokenizer, dir string) error {
	if err := t.Save(dir); err != nil {
		return err
	}
	if m.Limits().TypeVocabSize > 1 {
		return nil
	}
	path := filepath.Join(dir, tokenizerConfigName)
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c := map[string]json.RawMessage{}
	if err := json.Unmarshal(content, &c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c["model_input_names"] = json.RawMessage(`["input_ids","attention_mask"]`)
	if content, err = json.MarshalIndent(c, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o666)
}

// tokenizerAsLoaded reports whether the tokenizer is the one of the model's folder, apart from
// padding and truncation, which programs set as they need them.
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
	same := reflect.DeepEqual(t.Config(), m.loaded.Config())
	sided := func(t *text.Tokenizer) bool { return t.Target() != t } // a MarianTokenizer, which has no tokenizer.json
	switch {
	case same:
		m.asLoaded = m.Tokenizer
		return true, nil
	case sided(t) || sided(m.loaded):
		return false, nil
	}
	now, err := t.MarshalJSON()
	if err != nil {
		return false, err
	}
	loaded, err := m.loaded.MarshalJSON()
	if err != nil || !bytes.Equal(now, loaded) {
		return false, err
	}
	m.asLoaded = m.Tokenizer // avoids comparing large vocabularies again for every checkpoint
	return true, nil
}

// copyFiles copies files, replacing each one atomically. from and to may be the same folder. If
// from is empty, it does nothing.
func copyFiles(from, to string, files []string) error {
	if from == "" {
		return nil
	}
	for _, name := range files {
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
