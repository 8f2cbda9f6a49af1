package sentence

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/gotrainer/gotrainer/models/internal/sbert"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// The settings of a model and of the texts that its encoder takes.

// encoder is what sentence_bert_config.json says of a text encoder.
var encoder = sbert.Expected{Task: `"feature-extraction"`,
	Modality: `{"text":{"method":"forward","method_output_name":"last_hidden_state"}}`, Output: `"token_embeddings"`}

// readEncoderSettings reads sentence_bert_config.json, which may be missing.
func (m *Transformer) readEncoderSettings(dir string) error {
	s, err := sbert.ReadEncoderSettings(dir, m.Limits().MaxLength, encoder)
	if err == nil && s.LowerCase {
		m.lowerCase = true
		m.Tokenizer, err = sbert.Lowercasing(m.Tokenizer)
	}
	if err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	m.MaxSeqLength = s.MaxSeqLength
	return nil
}

func (m *Transformer) prompts() sbert.Prompts {
	return sbert.Prompts{ByName: m.Prompts, Default: m.DefaultPromptName}
}

// readSettings reads config_sentence_transformers.json, which may be missing.
func (m *Transformer) readSettings(dir string) error {
	d := pretrained.Document{}
	if err := sbert.ReadJSON(dir, sbert.SettingsName, &d); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	p := m.prompts()
	err := d.Demand("model_type", `"SentenceTransformer"`)
	if err == nil {
		err = p.Decode(d)
	}
	if err == nil {
		m.Prompts, m.DefaultPromptName = p.ByName, p.Default
		err = d.Decode([]pretrained.Field{{Key: "truncate_dim", Value: &m.TruncateDim},
			{Key: "similarity_fn_name", Value: &m.SimilarityFn}})
	}
	if err == nil {
		m.SimilarityFn, err = m.SimilarityFn.check()
	}
	if err == nil && m.TruncateDim < 0 {
		err = fmt.Errorf("truncate_dim is %d; want a number of dimensions", m.TruncateDim)
	}
	if err != nil {
		return fmt.Errorf("sentence: %s: %w", filepath.Join(dir, sbert.SettingsName), err)
	}
	return nil
}
