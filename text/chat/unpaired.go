package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// UnpairedPreference is a prompt with one answer, which is good or bad. Both are texts, or both are
// messages.
type UnpairedPreference struct {
	Prompt, Completion Content
	Label              bool // whether the completion is good

	Tools     []any          // for messages, as in a [Conversation]
	Variables map[string]any // for the template, as in a [Conversation]
}

// Unpaired returns the two answers of a preference as one that is good and one that is bad:
// unpair_preference_dataset of TRL.
func (p Preference) Unpaired() (chosen, rejected UnpairedPreference) {
	chosen = UnpairedPreference{Prompt: p.Prompt, Completion: p.Chosen, Label: true, Tools: p.Tools,
		Variables: p.Variables}
	rejected = chosen
	rejected.Completion, rejected.Label = p.Rejected, false
	return chosen, rejected
}

// UnmarshalJSON reads TRL's unpaired preference data: {"prompt": ..., "completion": ..., "label":
// true}, prompt and completion as texts or as lists of messages, with optional tools and
// chat_template_kwargs. Other fields are ignored.
func (p *UnpairedPreference) UnmarshalJSON(content []byte) (err error) {
	var f struct {
		Prompt     json.RawMessage `json:"prompt"`
		Completion json.RawMessage `json:"completion"`
		Label      json.RawMessage `json:"label"`
		Tools      json.RawMessage `json:"tools"`
		Variables  json.RawMessage `json:"chat_template_kwargs"`
	}
	if err := json.Unmarshal(content, &f); err != nil {
		return err
	}
	if f.Label == nil {
		return errors.New("there is no label; want true for a good completion, or false for a bad one")
	}
	*p = UnpairedPreference{}
	if json.Unmarshal(f.Label, &p.Label) != nil || string(f.Label) == "null" {
		return fmt.Errorf("label is %.40s; want true for a good completion, or false for a bad one", f.Label)
	}
	if err := p.Prompt.read("prompt", f.Prompt); err != nil {
		return err
	}
	if err := p.Completion.read("completion", f.Completion); err != nil {
		return err
	}
	if (p.Prompt.Messages != nil) != (p.Completion.Messages != nil) {
		return fmt.Errorf("prompt is %s, and completion is %s; want two texts, or two lists of messages, %s", p.Prompt.kind(),
			p.Completion.kind(), wantMessages)
	}
	if p.Tools, err = valuesOf("tools", f.Tools); err != nil {
		return err
	}
	p.Variables, err = variablesOf(f.Variables)
	return err
}

// ReadUnpairedPreferences reads JSON Lines: one from each line. Empty lines are skipped.
func ReadUnpairedPreferences(r io.Reader) ([]UnpairedPreference, error) {
	return readLines[UnpairedPreference](r)
}

// ReadUnpairedPreferencesFile is [ReadUnpairedPreferences] for a file.
func ReadUnpairedPreferencesFile(path string) ([]UnpairedPreference, error) {
	return readFile[UnpairedPreference](path)
}
