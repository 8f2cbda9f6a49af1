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

// Load reads a model from a folder or, by name, from the Hub. The options are the model's.
//
//   - The folder of a classifier has as many labels as its config.json says.
//   - A language model scores as the module LogitScore of its folder says. Without modules.json its
//     score is the logit of "yes" minus that of "no", which must be tokens.
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
	root := dir // of the classifier or language model
	var score *LogitScore
	judging := false // it is a language model
	if settings == nil {
		judging, err = isLanguageModel(dir)
	} else {
		var folder string
		folder, score, err = readModules(dir)
		if judging = score != nil; folder != "" {
			root = filepath.Join(dir, folder)
			model = root
		}
	}
	if err != nil {
		return nil, err
	}
	var m *CrossEncoder
	if judging {
		m, err = loadLanguageModel(ctx, model, score, o)
	} else {
		m, err = loadClassifier(ctx, model, root, o)
	}
	if err != nil {
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

func loadClassifier(ctx context.Context, model, dir string, o auto.Options) (*CrossEncoder, error) {
	classifier, err := auto.CrossEncoder(ctx, model, o)
	if err != nil {
		return nil, err
	}
	m, err := New(classifier)
	if err != nil {
		return nil, err
	}
	return m, m.padsRight(dir)
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

// readModules reads modules.json, which must list one classifier, or a language model and a
// LogitScore, and returns the folder of the first and the settings of the second, if there is one.
func readModules(dir string) (folder string, score *LogitScore, err error) {
	modules, err := sbert.ReadModules(dir)
	if err != nil {
		return "", nil, err
	}
	ofClassifier := len(modules) == 1 && modules[0].Kind() == "Transformer"
	ofLanguageModel := len(modules) == 2 && modules[0].Kind() == "Transformer" && modules[1].Kind() == logitScoreKind
	if !ofClassifier && !ofLanguageModel {
		return "", nil, fmt.Errorf("%s has the modules %q; want one Transformer of sentence_transformers, which classifies "+
			"texts, or a Transformer and a LogitScore, which reads scores from the logits of words",
			filepath.Join(dir, sbert.ModulesName), sbert.TypesOf(modules))
	}
	if ofLanguageModel {
		score, err = readLogitScore(filepath.Join(dir, modules[1].Path))
	}
	return modules[0].Path, score, err
}

// padsRight refuses tokenizers that pad on the left, on which what an encoder computes depends. A
// decoder sees no padding.
func (m *CrossEncoder) padsRight(dir string) error {
	if m.IsDecoder() {
		return nil
	}
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

// plain takes the settings of a model from the folder of a classifier, encoder or language model.
func (m *CrossEncoder) plain(dir string) (err error) {
	if m.MaxLength, err = sbert.ReadMaxLength(dir, m.Limits().MaxLength); err != nil {
		return err
	}
	return m.readActivation(dir)
}

// classifies is what sentence_bert_config.json says of a classifier of texts.
var classifies = sbert.Expected{Task: `"sequence-classification"`,
	Modality: `{"text":{"method":"forward","method_output_name":"logits"}}`, Messages: true, Output: `"scores"`}

// configured takes the settings of a model from the files of a cross encoder.
func (m *CrossEncoder) configured(dir, file string, d pretrained.Document) error {
	s, err := sbert.ReadEncoderSettings(dir, m.Limits().MaxLength, m.expected())
	if err != nil {
		return err
	}
	if m.Messages, err = m.messages(s.Messages); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, sbert.EncoderSettingsName), err)
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

// expected is what sentence_bert_config.json has to say of the model.
func (m *CrossEncoder) expected() sbert.Expected {
	if m.LogitScore != nil {
		return judges
	}
	return classifies
}

// messages returns what files say of the chat template. Files without a modality_config come from
// versions that joined the texts of a pair.
func (m *CrossEncoder) messages(s *sbert.Messages) (*Messages, error) {
	if s == nil {
		return nil, nil
	}
	own := MessagesFor(m.ChatTemplate)
	if own == nil {
		return nil, errors.New("modality_config has message, but the tokenizer has no chat template to write messages with")
	}
	if s.Format != sbert.AutoFormat {
		own.Structured = s.Format == sbert.StructuredFormat
	}
	own.AddGenerationPrompt, own.Variables = s.AddGenerationPrompt, s.Variables
	return own, nil
}

// forFiles is what files say of the chat template.
func (w *Messages) forFiles() *sbert.Messages {
	if w == nil {
		return nil
	}
	format := map[bool]string{false: sbert.FlatFormat, true: sbert.StructuredFormat}[w.Structured]
	return &sbert.Messages{Format: format, AddGenerationPrompt: w.AddGenerationPrompt, Variables: w.Variables}
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

// Save writes a folder that [Load], sentence-transformers and transformers read: the classifier or
// language model with its tokenizer, modules.json and settings. No model card is written.
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
	modules := []sbert.Module{{Name: "0", Type: sbert.ClassOf("Transformer")}}
	if m.LogitScore != nil {
		modules = append(modules, sbert.Module{Index: 1, Name: "1", Path: logitScoreFolder, Type: logitScoreClass})
		if err == nil {
			err = m.LogitScore.save(filepath.Join(dir, logitScoreFolder))
		}
	}
	encoder, unclear := m.expected().Settings(m.Messages.forFiles())
	if err == nil {
		err = unclear
	}
	encoder["max_seq_length"], encoder["do_lower_case"] = cmp.Or(m.MaxLength, int(m.Limits().MaxLength)), m.lowerCase
	for _, file := range []struct {
		name  string
		value any
	}{
		{sbert.EncoderSettingsName, encoder},
		{sbert.SettingsName, settings},
		{sbert.ModulesName, modules},
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
