package crossencoder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/sbert"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

const tokenizerName = "tokenizer_config.json"

// The keys of config.json for the activation function: of versions 4 and 5 of
// sentence-transformers, and of older ones.
const (
	ownKey         = "sentence_transformers"
	activationKey  = "activation_fn"
	oldActivations = "sbert_ce_default_activation_function"
)

// Load reads a model from a folder or, by name, from the Hub. The options are the classifier's.
//
//   - The folder of a classifier has as many labels as its config.json says.
//   - Any other encoder gets a new head, with one label or those of Options.ID2Label.
//
// It is an error if a file that the model needs is missing, or if a module or setting is not
// supported.
func Load(ctx context.Context, model string, o auto.Options) (*CrossEncoder, error) {
	m, err := load(ctx, model, o)
	if err != nil {
		return nil, fmt.Errorf("crossencoder: %w", err)
	}
	return m, nil
}

func load(ctx context.Context, model string, o auto.Options) (*CrossEncoder, error) {
	dir, err := auto.Find(ctx, model, o.Revision, append(sbert.Files(), "[0-9]*_*/*")...)
	if err != nil && !strings.ContainsAny(model, `/\`) {
		err = fmt.Errorf("%w; names without an owner are not those of sentence-transformers here: that model is "+
			"cross-encoder/%s", err, model)
	}
	if err != nil {
		return nil, err
	}
	settings, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	root := dir // of the classifier
	if settings != nil {
		folder, err := readModules(dir)
		if err != nil {
			return nil, err
		}
		if folder != "" {
			root = filepath.Join(dir, folder)
			model = root
		}
	}
	classifier, err := auto.CrossEncoder(ctx, model, o)
	if err != nil {
		return nil, err
	}
	m, err := New(classifier)
	if err != nil {
		return nil, err
	}
	if err := m.padsRight(root); err != nil {
		return nil, err
	}
	if settings == nil {
		err = m.plain(root)
	} else {
		err = m.configured(root, filepath.Join(dir, sbert.SettingsName), settings)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// readSettings reads config_sentence_transformers.json of a folder with modules.json. It returns
// nil for the folder of a plain classifier or encoder, and for that of another kind of model, from
// which only its encoder is taken.
func readSettings(dir string) (pretrained.Document, error) {
	var modules []sbert.Module
	if err := sbert.ReadJSON(dir, sbert.ModulesName, &modules); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	d := pretrained.Document{}
	if err := sbert.ReadJSON(dir, sbert.SettingsName, &d); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var kind string
	if err := d.Decode([]pretrained.Field{{Key: "model_type", Value: &kind}}); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, sbert.SettingsName), err)
	}
	if kind != "CrossEncoder" {
		return nil, nil
	}
	return d, nil
}

// readModules reads modules.json, which must list one classifier, and returns its folder.
func readModules(dir string) (folder string, err error) {
	modules, err := sbert.ReadModules(dir)
	if err != nil {
		return "", err
	}
	if len(modules) != 1 || modules[0].Kind() != "Transformer" {
		return "", fmt.Errorf("%s has the modules %q; want one Transformer of sentence_transformers, which classifies texts",
			filepath.Join(dir, sbert.ModulesName), sbert.TypesOf(modules))
	}
	return modules[0].Path, nil
}

// padsRight refuses tokenizers that pad on the left, on which what the model computes depends.
func (m *CrossEncoder) padsRight(dir string) error {
	var c struct {
		Side string `json:"padding_side"`
	}
	if err := sbert.ReadJSON(dir, tokenizerName, &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.Side == "left" {
		return fmt.Errorf("%s: padding_side is left, with which the model would see other positions than here, where texts "+
			"are padded on the right; want right", filepath.Join(dir, tokenizerName))
	}
	return nil
}

// plain takes the settings of a model from the folder of a classifier or encoder.
func (m *CrossEncoder) plain(dir string) (err error) {
	if m.ChatTemplate != nil {
		return fmt.Errorf("%s has a chat template, with which sentence-transformers writes pairs; that is not supported",
			dir)
	}
	if m.MaxLength, err = sbert.ReadMaxLength(dir, m.Limits().MaxLength); err != nil {
		return err
	}
	return m.readActivation(dir)
}

// classifies is what sentence_bert_config.json says of a classifier of texts.
var classifies = sbert.Expected{Task: `"sequence-classification"`,
	Modality: `{"text":{"method":"forward","method_output_name":"logits"}}`, Output: `"scores"`}

// configured takes the settings of a model from the files of a cross encoder.
func (m *CrossEncoder) configured(dir, file string, d pretrained.Document) error {
	s, err := sbert.ReadEncoderSettings(dir, m.Limits().MaxLength, classifies)
	if err != nil {
		return err
	}
	if m.MaxLength = s.MaxSeqLength; s.LowerCase {
		m.lowerCase = true
		if m.Tokenizer, err = sbert.Lowercasing(m.Tokenizer); err != nil {
			return err
		}
	}
	if err := m.readActivation(dir); err != nil {
		return err
	}
	p := m.prompts()
	if err = p.Decode(d); err == nil {
		m.Prompts, m.DefaultPromptName = p.ByName, p.Default
		err = m.decodeActivation(d, activationKey)
	}
	if err == nil {
		err = d.Demand("keep_in_fp32_modules", "[]")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// readActivation reads the activation function from config.json, where older versions have it. An
// adapter has no such file.
func (m *CrossEncoder) readActivation(dir string) error {
	d := pretrained.Document{}
	err := sbert.ReadJSON(dir, pretrained.ConfigName, &d)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var own pretrained.Document
	if err == nil {
		err = d.Decode([]pretrained.Field{{Key: ownKey, Value: &own}})
	}
	if err == nil {
		err = m.decodeActivation(d, oldActivations)
	}
	if err == nil {
		err = m.decodeActivation(own, activationKey)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, pretrained.ConfigName), err)
	}
	return nil
}

// decodeActivation takes the activation function from a document that has it.
func (m *CrossEncoder) decodeActivation(d pretrained.Document, key string) error {
	var class string
	if err := d.Decode([]pretrained.Field{{Key: key, Value: &class}}); err != nil || class == "" {
		return err
	}
	name, err := sbert.ActivationOf(class)
	if err != nil {
		return fmt.Errorf("%s %w", key, err)
	}
	m.ActivationFn = Activation(name)
	return nil
}

// Save writes a folder that [Load], sentence-transformers and transformers read: the classifier
// with its tokenizer, modules.json and settings. No model card is written.
func (m *CrossEncoder) Save(dir string) error {
	if err := m.Model.Save(dir); err != nil {
		return fmt.Errorf("crossencoder: %w", err)
	}
	return m.saveSettings(dir)
}

// WriteConfig writes everything in a folder except the weights.
func (m *CrossEncoder) WriteConfig(dir string) error {
	if err := m.Model.WriteConfig(dir); err != nil {
		return fmt.Errorf("crossencoder: %w", err)
	}
	return m.saveSettings(dir)
}

func (m *CrossEncoder) saveSettings(dir string) error {
	err := m.ActivationFn.check()
	if err == nil && m.LoRA() == nil {
		err = m.saveActivation(dir)
	}
	settings := map[string]any{"model_type": "CrossEncoder", activationKey: m.class()}
	m.prompts().Encode(settings)
	for _, file := range []struct {
		name  string
		value any
	}{
		{sbert.EncoderSettingsName, map[string]any{"max_seq_length": cmp.Or(m.MaxLength, int(m.Limits().MaxLength)),
			"do_lower_case": m.lowerCase, "transformer_task": "sequence-classification", "module_output_name": "scores",
			"modality_config": map[string]any{"text": map[string]any{"method": "forward", "method_output_name": "logits"}}}},
		{sbert.SettingsName, settings},
		{sbert.ModulesName, []sbert.Module{{Name: "0", Type: sbert.ClassOf("Transformer")}}},
	} {
		if err == nil {
			err = pretrained.WriteJSON(dir, file.name, file.value)
		}
	}
	if err != nil {
		return fmt.Errorf("crossencoder: %w", err)
	}
	return nil
}

func (m *CrossEncoder) class() string { return sbert.ClassOfActivation(string(m.ActivationFn)) }

// saveActivation writes the activation function into config.json, where versions 4 and 5 of
// sentence-transformers look for it.
func (m *CrossEncoder) saveActivation(dir string) error {
	d, own := pretrained.Document{}, map[string]any{}
	err := sbert.ReadJSON(dir, pretrained.ConfigName, &d)
	if err == nil {
		err = d.Decode([]pretrained.Field{{Key: ownKey, Value: &own}})
	}
	if err != nil {
		return err
	}
	own[activationKey] = m.class()
	delete(d, oldActivations)
	if err := d.Encode([]pretrained.Field{{Key: ownKey, Value: &own}}); err != nil {
		return err
	}
	return d.Write(dir)
}
