package sentence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// The files in a folder of sentence-transformers, besides those of the encoder.
const (
	modulesName   = "modules.json"
	settingsName  = "config_sentence_transformers.json"
	encoderName   = "sentence_bert_config.json"
	tokenizerName = "tokenizer_config.json"
)

// moduleEntry is a module in modules.json.
type moduleEntry struct {
	Index int    `json:"idx"`
	Name  string `json:"name"`
	Path  string `json:"path"`
	Type  string `json:"type"`
}

// Load reads a model from a folder or, by name, from the Hub. A folder without modules.json is an
// encoder's, and its hidden states are averaged. The options are the encoder's. It is an error if a
// file that the model needs is missing, or if a module or setting is not supported.
func Load(ctx context.Context, model string, o auto.Options) (*Transformer, error) {
	files := append(slices.Clone(encoderNames), modulesName, settingsName, "[0-9]*_*/*")
	dir, err := auto.Find(ctx, model, o.Revision, files...)
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
	encoder, err := auto.Encoder(ctx, model, o)
	if err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	p, rest, err := loadModules(dir, modules, encoder)
	if err != nil {
		return nil, err
	}
	m, err := New(encoder, p, rest...)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, filepath.Join(dir, modulesName))
	}
	if err := m.readEncoderSettings(filepath.Join(dir, modules[0].Path)); err != nil {
		return nil, err
	}
	return m, m.readSettings(dir)
}

// loadPlain loads a folder that contains only an encoder.
func loadPlain(ctx context.Context, dir, model string, o auto.Options) (*Transformer, error) {
	encoder, err := auto.Encoder(ctx, model, o)
	if err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	m, err := New(encoder, Pooling{})
	if err != nil {
		return nil, err
	}
	return m, m.readMaxLength(dir)
}

// readJSON reads a file of settings into a document or a list.
func readJSON(dir, name string, value any) error {
	file := filepath.Join(dir, name)
	content, err := regularfile.ReadFile(file, 4<<20)
	if err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("sentence: %s: %w", file, err)
	}
	return nil
}

// readModules reads modules.json, which must list an encoder, a pooling, and supported modules
// after them.
func readModules(dir string) (modules []moduleEntry, err error) {
	if err := readJSON(dir, modulesName, &modules); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, modulesName)
	if len(modules) < firstModule || modules[0].kind() != "Transformer" || modules[1].kind() != "Pooling" {
		return nil, fmt.Errorf("sentence: %s has the modules %q; want a Transformer, a Pooling, and Dense and Normalize "+
			"after them, of sentence_transformers", file, typesOf(modules))
	}
	for i, m := range modules {
		switch k := m.kind(); {
		case i >= firstModule && k != "Dense" && k != "Normalize":
			return nil, fmt.Errorf("sentence: %s: module %d is a %s; after the pooling there may be Dense and Normalize of "+
				"sentence_transformers", file, i, m.Type)
		case m.Path != "" && !filepath.IsLocal(m.Path):
			return nil, fmt.Errorf("sentence: %s: the path of module %d is %q, which leads out of the folder", file, i, m.Path)
		}
	}
	return modules, nil
}

func typesOf(modules []moduleEntry) (types []string) {
	for _, m := range modules {
		types = append(types, m.Type)
	}
	return types
}

// kind returns the class name of a module of sentence_transformers, or the empty string for classes
// of other packages.
func (m moduleEntry) kind() string {
	if !strings.HasPrefix(m.Type, "sentence_transformers.") {
		return ""
	}
	return m.Type[strings.LastIndex(m.Type, ".")+1:]
}

// loadModules loads the modules after the encoder.
func loadModules(dir string, entries []moduleEntry, e *auto.EncoderModel) (p Pooling, rest []Module, err error) {
	if p, err = readPooling(filepath.Join(dir, entries[1].Path), e.HiddenSize()); err != nil {
		return p, nil, err
	}
	for _, entry := range entries[firstModule:] {
		in := filepath.Join(dir, entry.Path)
		var m Module = Normalize{}
		if entry.kind() == "Dense" {
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
	settings := map[string]any{"model_type": "SentenceTransformer", "prompts": m.Prompts, "default_prompt_name": nil,
		"similarity_fn_name": similarity}
	if m.DefaultPromptName != "" {
		settings["default_prompt_name"] = m.DefaultPromptName
	}
	if m.TruncateDim > 0 {
		settings["truncate_dim"] = m.TruncateDim
	}
	length := m.MaxSeqLength
	if length == 0 {
		length = int(m.Limits().MaxLength)
	}
	modules := []moduleEntry{{0, "0", "", classOf("Transformer")}}
	add := func(kind string) (folder string, err error) {
		n := len(modules)
		folder = strconv.Itoa(n) + "_" + kind
		modules = append(modules, moduleEntry{n, strconv.Itoa(n), folder, classOf(kind)})
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
		{encoderName, map[string]any{"max_seq_length": length, "do_lower_case": m.lowerCase}},
		{settingsName, settings}, {modulesName, modules},
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

// classOf returns a class name that all versions of sentence-transformers know.
func classOf(kind string) string { return "sentence_transformers.models." + kind }
