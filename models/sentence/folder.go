package sentence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/sbert"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// Load reads a model from a folder or, by name, from the Hub. A folder without modules.json is an
// encoder's, and its hidden states are averaged; of a language model (Qwen3ForCausalLM), the last
// token is taken. The options are the encoder's. It is an error if a file that the model needs is
// missing, if a module or setting is not supported, or if the tokenizer of a decoder has no
// pad_token, without which sentence-transformers encodes nothing.
func Load(ctx context.Context, model string, o auto.Options) (*Transformer, error) {
	dir, err := auto.Find(ctx, model, o.Revision, append(sbert.Files(), "[0-9]*_*/*")...)
	if err != nil && !strings.ContainsAny(model, `/\`) {
		err = fmt.Errorf("%w; names without an owner are not those of sentence-transformers here: that model is "+
			"sentence-transformers/%s", err, model)
	}
	if err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	modules, err := readModules(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return loadPlain(ctx, dir, model, o)
	}
	if err != nil {
		return nil, err
	}
	if first := modules[0].Path; first != "" {
		model = filepath.Join(dir, first)
	}
	encoder, err := loadEncoder(ctx, model, o)
	if err != nil {
		return nil, err
	}
	p, rest, err := loadModules(dir, modules, encoder)
	if err != nil {
		return nil, err
	}
	m, err := New(encoder, p, rest...)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, filepath.Join(dir, sbert.ModulesName))
	}
	if err := m.readEncoderSettings(filepath.Join(dir, modules[0].Path)); err != nil {
		return nil, err
	}
	return m, m.readSettings(dir)
}

// loadEncoder loads what maps texts to hidden states.
func loadEncoder(ctx context.Context, model string, o auto.Options) (*auto.EncoderModel, error) {
	encoder, err := auto.Encoder(ctx, model, o)
	if err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	if encoder.IsDecoder() && encoder.Tokenizer != nil && encoder.PadToken() == "" {
		return nil, fmt.Errorf("sentence: the tokenizer of %s has no pad_token, without which sentence-transformers encodes "+
			"no texts; name one of its tokens in tokenizer_config.json, often that of eos_token", model)
	}
	return encoder, nil
}

// loadPlain loads a folder that contains only an encoder.
func loadPlain(ctx context.Context, dir, model string, o auto.Options) (*Transformer, error) {
	encoder, err := loadEncoder(ctx, model, o)
	if err != nil {
		return nil, err
	}
	if encoder.ChatTemplate != nil {
		return nil, fmt.Errorf("sentence: %s has no %s, and its tokenizer has a chat template; sentence-transformers writes "+
			"each text into that template, which is not supported here: put a pooling after the encoder of auto.Encoder with "+
			"sentence.New, for texts as they are", dir, sbert.ModulesName)
	}
	p := Pooling{}
	if encoder.FromLanguageModel() {
		p.Modes = []PoolingMode{LastToken}
	}
	m, err := New(encoder, p)
	if err != nil {
		return nil, err
	}
	if m.MaxSeqLength, err = sbert.ReadMaxLength(dir, m.Limits().MaxLength); err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	return m, nil
}

// readModules reads modules.json, which must list an encoder, a pooling, and supported modules
// after them.
func readModules(dir string) ([]sbert.Module, error) {
	modules, err := sbert.ReadModules(dir)
	if err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	file := filepath.Join(dir, sbert.ModulesName)
	if len(modules) < firstModule || modules[0].Kind() != "Transformer" || modules[1].Kind() != "Pooling" {
		return nil, fmt.Errorf("sentence: %s has the modules %q; want a Transformer, a Pooling, and Dense and Normalize "+
			"after them, of sentence_transformers", file, sbert.TypesOf(modules))
	}
	for i, m := range modules[firstModule:] {
		if k := m.Kind(); k != "Dense" && k != "Normalize" {
			return nil, fmt.Errorf("sentence: %s: module %d is a %s; after the pooling there may be Dense and Normalize of "+
				"sentence_transformers", file, i+firstModule, m.Type)
		}
	}
	return modules, nil
}

// loadModules loads the modules after the encoder.
func loadModules(dir string, entries []sbert.Module, e *auto.EncoderModel) (p Pooling, rest []Module, err error) {
	if p, err = readPooling(filepath.Join(dir, entries[1].Path), e.HiddenSize()); err != nil {
		return p, nil, err
	}
	for _, entry := range entries[firstModule:] {
		in := filepath.Join(dir, entry.Path)
		var m Module = Normalize{}
		if entry.Kind() == "Dense" {
			m, err = readDense(in, e)
		} else {
			err = readNormalize(in)
		}
		if err != nil {
			return p, nil, err
		}
		rest = append(rest, m)
	}
	return p, rest, nil
}

// Save writes a folder that [Load] and sentence-transformers read: the encoder with its tokenizer,
// modules.json, and a folder for each module.
func (m *Transformer) Save(dir string) error {
	if err := m.EncoderModel.Save(dir); err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	return m.saveModules(dir)
}

// WriteConfig writes everything in a folder except the weights of the encoder, which a checkpoint
// has anyway.
func (m *Transformer) WriteConfig(dir string) error {
	if err := m.EncoderModel.WriteConfig(dir); err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	return m.saveModules(dir)
}

// saveModules writes everything except the encoder.
func (m *Transformer) saveModules(dir string) error {
	similarity, err := m.SimilarityFn.check()
	if err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	settings := map[string]any{"model_type": "SentenceTransformer", "similarity_fn_name": similarity}
	m.prompts().Encode(settings)
	if m.TruncateDim > 0 {
		settings["truncate_dim"] = m.TruncateDim
	}
	length := m.MaxSeqLength
	if length == 0 {
		length = int(m.Limits().MaxLength)
	}
	modules := []sbert.Module{{Name: "0", Type: sbert.ClassOf("Transformer")}}
	add := func(kind string) (folder string, err error) {
		n := len(modules)
		folder = strconv.Itoa(n) + "_" + kind
		modules = append(modules, sbert.Module{Index: n, Name: strconv.Itoa(n), Path: folder, Type: sbert.ClassOf(kind)})
		return filepath.Join(dir, folder), os.MkdirAll(filepath.Join(dir, folder), 0o777)
	}
	folder, err := add("Pooling")
	if err == nil {
		err = pretrained.WriteJSON(folder, pretrained.ConfigName, m.Pooling.document(m.HiddenSize()))
	}
	for _, module := range m.Modules {
		if err != nil {
			break
		}
		switch module := module.(type) {
		case *Dense:
			if folder, err = add("Dense"); err == nil {
				err = module.save(folder)
			}
		case Normalize:
			if folder, err = add("Normalize"); err == nil {
				err = pretrained.WriteJSON(folder, pretrained.ConfigName, map[string]any{})
			}
		}
	}
	for _, file := range []struct {
		name  string
		value any
	}{
		{sbert.EncoderSettingsName, map[string]any{"max_seq_length": length, "do_lower_case": m.lowerCase}},
		{sbert.SettingsName, settings}, {sbert.ModulesName, modules},
	} {
		if err == nil {
			err = pretrained.WriteJSON(dir, file.name, file.value)
		}
	}
	if err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	return nil
}
