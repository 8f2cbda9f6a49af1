package sbert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/text/chat"
)

// Messages is what sentence_bert_config.json says of the chat template that writes texts.
type Messages struct {
	Format              string // of contents: FlatFormat, StructuredFormat or AutoFormat
	AddGenerationPrompt bool
	Variables           map[string]any // other variables of the template
}

// The formats of messages.
const (
	FlatFormat       = "flat"       // contents are texts
	StructuredFormat = "structured" // contents are lists of parts
	AutoFormat       = "auto"       // as the template looks at them
)

// What is said of a text, and of a conversation.
const (
	textModality    = "text"
	messageModality = "message"
	formatKey       = "format"
)

// The settings of the tokenizer and of the template.
const (
	processingKey = "processing_kwargs"
	templateKey   = "chat_template"
	generationKey = "add_generation_prompt"
)

// notVariables are arguments of apply_chat_template that are not variables of the template.
var notVariables = []string{"chat_template", "continue_final_message", "documents", "max_length", "padding",
	"processor_kwargs", "restore_suffix", "return_assistant_tokens_mask", "return_dict", "return_tensors", "tokenize",
	"tokenizer_kwargs", "tools", "truncation"}

// takeMessages takes what a document says of the chat template, and leaves the rest. It returns nil
// if texts are not written with it.
func takeMessages(d pretrained.Document) (*Messages, error) {
	modality, message := pretrained.Document{}, pretrained.Document(nil)
	if raw, ok := d[modalityKey]; ok {
		if err := json.Unmarshal(raw, &modality); err != nil {
			return nil, fmt.Errorf("%s: %w", modalityKey, err)
		}
	}
	if err := modality.Decode([]pretrained.Field{{Key: messageModality, Value: &message}}); err != nil {
		return nil, fmt.Errorf("%s: %w", modalityKey, err)
	}
	if message == nil {
		return nil, nil
	}
	m := &Messages{Format: AutoFormat}
	if err := message.Decode([]pretrained.Field{{Key: formatKey, Value: &m.Format}}); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", modalityKey, messageModality, err)
	}
	if all := []string{FlatFormat, StructuredFormat, AutoFormat}; !slices.Contains(all, m.Format) {
		return nil, fmt.Errorf("%s: %s: %s is %q; want one of %q", modalityKey, messageModality, formatKey, m.Format, all)
	}
	rest, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	// A document is marshaled with its keys in order, so the two can be compared.
	given := pretrained.Document{}
	if err := json.Unmarshal(modality[textModality], &given); err != nil {
		return nil, fmt.Errorf("%s has %s, but says nothing of %s: %w", modalityKey, messageModality, textModality, err)
	}
	text, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	if string(rest) != string(text) {
		return nil, fmt.Errorf("%s: %s is computed as %s says, and %s as %s says; only the same is supported", modalityKey,
			messageModality, rest, textModality, text)
	}
	if d[modalityKey], err = json.Marshal(modality); err != nil {
		return nil, err
	}
	return m, m.takeVariables(d)
}

// takeVariables takes what the template is given besides the messages.
func (m *Messages) takeVariables(d pretrained.Document) error {
	processing, variables := pretrained.Document{}, chat.Object{}
	if raw, ok := d[processingKey]; ok {
		if err := json.Unmarshal(raw, &processing); err != nil {
			return fmt.Errorf("%s: %w", processingKey, err)
		}
	}
	if err := processing.Decode([]pretrained.Field{{Key: templateKey, Value: &variables}}); err != nil {
		return fmt.Errorf("%s: %w", processingKey, err)
	}
	for _, name := range variables.Names() {
		value, _ := variables.Get(name)
		if name == generationKey {
			var ok bool
			if m.AddGenerationPrompt, ok = value.(bool); !ok {
				return fmt.Errorf("%s: %s: %s is %v; want true or false", processingKey, templateKey, name, value)
			}
			continue
		}
		if slices.Contains(notVariables, name) {
			return fmt.Errorf("%s: %s has %s, which is not supported; want %s and variables of the template", processingKey,
				templateKey, name, generationKey)
		}
		if m.Variables == nil {
			m.Variables = map[string]any{}
		}
		m.Variables[name] = value
	}
	if len(processing) == 0 {
		delete(d, processingKey)
		return nil
	}
	var err error
	d[processingKey], err = json.Marshal(processing)
	return err
}

// Settings returns what sentence_bert_config.json says of a model, to be written.
func (want Expected) Settings(m *Messages) (settings map[string]any, err error) {
	modality := map[string]map[string]any{}
	settings = map[string]any{taskKey: json.RawMessage(want.Task), outputKey: json.RawMessage(want.Output),
		modalityKey: modality}
	if err := json.Unmarshal([]byte(want.Modality), &modality); err != nil || m == nil {
		return settings, err
	}
	modality[messageModality] = map[string]any{formatKey: m.Format}
	for key, value := range modality[textModality] {
		modality[messageModality][key] = value
	}
	variables := map[string]any{}
	for name, value := range m.Variables {
		if name == generationKey || slices.Contains(notVariables, name) {
			return settings, errors.New("Messages.Variables has " + name + ", which is an argument of apply_chat_template and " +
				"not a variable of the template")
		}
		variables[name] = value
	}
	if m.AddGenerationPrompt {
		variables[generationKey] = true
	}
	if len(variables) > 0 {
		settings[processingKey] = map[string]any{templateKey: variables}
	}
	return settings, nil
}
