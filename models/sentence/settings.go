package sentence

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/models/pretrained"
)

// The settings of a model and of the texts that its encoder takes.

// encoderNames are the current and former names of encoderName.
var encoderNames = []string{encoderName, "sentence_roberta_config.json", "sentence_distilbert_config.json",
	"sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
	"sentence_xlnet_config.json"}

// readEncoderSettings reads sentence_bert_config.json, which may be missing.
func (m *Transformer) readEncoderSettings(dir string) error {
	d := pretrained.Document{}
	for _, name := range encoderNames {
		err := readJSON(dir, name, &d)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			if err = m.decodeEncoderSettings(d); err != nil {
				err = fmt.Errorf("sentence: %s: %w", filepath.Join(dir, name), err)
			}
		}
		if err != nil {
			return err
		}
		break
	}
	if m.MaxSeqLength > 0 {
		return nil
	}
	return m.readMaxLength(dir)
}

// onText is the modality_config of a text encoder.
const onText = `{"text":{"method":"forward","method_output_name":"last_hidden_state"}}`

func (m *Transformer) decodeEncoderSettings(d pretrained.Document) error {
	var lower bool
	if err := d.Decode([]pretrained.Field{{Key: "max_seq_length", Value: &m.MaxSeqLength},
		{Key: "do_lower_case", Value: &lower}}); err != nil {
		return err
	}
	delete(d, "unpad_inputs") // affects only how it is computed
	for _, key := range slices.Sorted(maps.Keys(d)) {
		wanted := map[string]string{"transformer_task": `"feature-extraction"`, "modality_config": onText,
			"module_output_name": `"token_embeddings"`}[key]
		if wanted == "" { // changes the texts or the model, which is not supported
			wanted = "{}"
		}
		if err := d.Demand(key, wanted); err != nil {
			return err
		}
	}
	if m.MaxSeqLength < 0 {
		return fmt.Errorf("max_seq_length is %d; want the most tokens of a text", m.MaxSeqLength)
	}
	if lower {
		return m.lowercaseFirst()
	}
	return nil
}

// readMaxLength reads the maximum length of texts from tokenizer_config.json, which may be missing.
func (m *Transformer) readMaxLength(dir string) error {
	var c struct {
		Length float64 `json:"model_max_length"` // more than 1e29 if there is no limit
	}
	if err := readJSON(dir, tokenizerName, &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.Length >= 1 && c.Length < float64(m.Limits().MaxLength) {
		m.MaxSeqLength = int(c.Length)
	}
	return nil
}

// readSettings reads config_sentence_transformers.json, which may be missing.
func (m *Transformer) readSettings(dir string) error {
	d := pretrained.Document{}
	if err := readJSON(dir, settingsName, &d); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	err := d.Demand("model_type", `"SentenceTransformer"`)
	if err == nil {
		err = d.Decode([]pretrained.Field{{Key: "prompts", Value: &m.Prompts},
			{Key: "default_prompt_name", Value: &m.DefaultPromptName}, {Key: "truncate_dim", Value: &m.TruncateDim},
			{Key: "similarity_fn_name", Value: &m.SimilarityFn}})
	}
	if err == nil {
		m.SimilarityFn, err = m.SimilarityFn.check()
	}
	if _, ok := m.Prompts[m.DefaultPromptName]; err == nil && !ok && m.DefaultPromptName != "" {
		err = fmt.Errorf("default_prompt_name is %q, which is none of prompts", m.DefaultPromptName)
	}
	if err == nil && m.TruncateDim < 0 {
		err = fmt.Errorf("truncate_dim is %d; want a number of dimensions", m.TruncateDim)
	}
	if err != nil {
		return fmt.Errorf("sentence: %s: %w", filepath.Join(dir, settingsName), err)
	}
	return nil
}
