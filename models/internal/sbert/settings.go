package sbert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/models/pretrained"
)

// EncoderSettings are the settings of the texts that an encoder takes.
type EncoderSettings struct {
	MaxSeqLength int // the most tokens of a text; 0: as many as the encoder takes
	LowerCase    bool
	Messages     *Messages // nil: texts are not written with a chat template
}

// Expected is what sentence_bert_config.json has to say about the model, where it says it, as JSON.
type Expected struct {
	Task, Modality, Output string

	TaskNeeded bool // it must say the task
	// Messages accepts a chat template: the modality message, which has what Modality says of texts,
	// and a format.
	Messages bool
}

// ReadEncoderSettings reads sentence_bert_config.json, which may be missing. Without a length
// there, model_max_length of tokenizer_config.json counts, if it is less than most.
func ReadEncoderSettings(dir string, most int64, want Expected) (s EncoderSettings, err error) {
	d, found := pretrained.Document{}, EncoderSettingsName
	for _, name := range encoderSettingsNames {
		err := ReadJSON(dir, name, &d)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return s, err
		}
		found = name
		break
	}
	if err := s.decode(d, want); err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(dir, found), err)
	}
	if s.MaxSeqLength == 0 {
		s.MaxSeqLength, err = ReadMaxLength(dir, most)
	}
	return s, err
}

// The keys that say what the encoder is used for.
const (
	taskKey     = "transformer_task"
	modalityKey = "modality_config"
	outputKey   = "module_output_name"
)

func (s *EncoderSettings) decode(d pretrained.Document, want Expected) error {
	if err := d.Decode([]pretrained.Field{{Key: "max_seq_length", Value: &s.MaxSeqLength},
		{Key: "do_lower_case", Value: &s.LowerCase}}); err != nil {
		return err
	}
	delete(d, "unpad_inputs") // affects only how it is computed
	if _, says := d[taskKey]; want.TaskNeeded && !says {
		return fmt.Errorf("%s is missing; want %s", taskKey, want.Task)
	}
	if want.Messages {
		var err error
		if s.Messages, err = takeMessages(d); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d)) {
		wanted := map[string]string{taskKey: want.Task, modalityKey: want.Modality, outputKey: want.Output}[key]
		// Anything else changes the texts or the model, which is not supported.
		if err := d.Demand(key, cmp.Or(wanted, "{}")); err != nil {
			return err
		}
	}
	if s.MaxSeqLength < 0 {
		return fmt.Errorf("max_seq_length is %d; want the most tokens of a text", s.MaxSeqLength)
	}
	return nil
}

// ReadMaxLength reads the maximum length of texts from tokenizer_config.json, which may be missing.
// It returns 0 if that is not less than most.
func ReadMaxLength(dir string, most int64) (int, error) {
	var c struct {
		Length float64 `json:"model_max_length"` // more than 1e29 if there is no limit
	}
	if err := ReadJSON(dir, tokenizerName, &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if c.Length >= 1 && c.Length < float64(most) {
		return int(c.Length), nil
	}
	return 0, nil
}

// Prompts are texts that are put before what a model reads, by name.
type Prompts struct {
	ByName  map[string]string
	Default string // the name of the one to use if the caller names none
}

// Decode takes the prompts from config_sentence_transformers.json.
func (p *Prompts) Decode(d pretrained.Document) error {
	if err := d.Decode([]pretrained.Field{{Key: "prompts", Value: &p.ByName},
		{Key: "default_prompt_name", Value: &p.Default}}); err != nil {
		return err
	}
	if _, ok := p.ByName[p.Default]; !ok && p.Default != "" {
		return fmt.Errorf("default_prompt_name is %q, which is none of prompts", p.Default)
	}
	return nil
}

// Encode puts the prompts into config_sentence_transformers.json.
func (p Prompts) Encode(settings map[string]any) {
	settings["prompts"], settings["default_prompt_name"] = p.ByName, nil
	if p.ByName == nil {
		settings["prompts"] = map[string]string{}
	}
	if p.Default != "" {
		settings["default_prompt_name"] = p.Default
	}
}

// Of returns the prompt to use: the given text, the one of the given name, or the default one.
func (p Prompts) Of(name string, given *string) (string, error) {
	if given != nil {
		if name != "" {
			return "", errors.New("there are both a Prompt and a PromptName; want one")
		}
		return *given, nil
	}
	name = cmp.Or(name, p.Default)
	prompt, ok := p.ByName[name]
	if !ok && name != "" {
		return "", fmt.Errorf("there is no prompt %q; the model has %q", name, slices.Sorted(maps.Keys(p.ByName)))
	}
	return prompt, nil
}
