package auto

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// generationConfigName is the file with the defaults of transformers' generate.
const generationConfigName = "generation_config.json"

// maxGenerationConfig is the size limit of that file, in bytes.
const maxGenerationConfig = 1 << 20

// list reads a setting that is a single value or a list.
func list[T any](all map[string]json.RawMessage, key, of string, to *[]T) error {
	raw, found := all[key]
	var one *T
	switch {
	case !found:
	case json.Unmarshal(raw, &one) == nil:
		if one != nil {
			*to = []T{*one}
		}
	case json.Unmarshal(raw, to) != nil:
		return fmt.Errorf("%s is %s; want a %s, several, or null", key, raw, of)
	}
	return nil
}

// UnmarshalJSON reads true, false, "never" or null.
func (s *EarlyStopping) UnmarshalJSON(text []byte) error {
	var found any
	if err := json.Unmarshal(text, &found); err != nil {
		return err
	}
	switch found {
	case nil:
	case true, false, "never":
		*s = EarlyStopping(fmt.Sprint(found))
	default:
		return fmt.Errorf(`early_stopping is %s; want true, false or "never"`, text)
	}
	return nil
}

// generationFile contains the supported settings of generation_config.json, or of config.json.
type generationFile struct {
	MaxLength           *int          `json:"max_length"`
	MaxNewTokens        *int          `json:"max_new_tokens"`
	MinLength           *int          `json:"min_length"`
	MinNewTokens        *int          `json:"min_new_tokens"`
	Sample              bool          `json:"do_sample"`
	Temperature         *float64      `json:"temperature"`
	TopK                *int          `json:"top_k"`
	TopP                *float64      `json:"top_p"`
	MinP                *float64      `json:"min_p"`
	RepetitionPenalty   *float64      `json:"repetition_penalty"`
	NoRepeatNGramSize   *int          `json:"no_repeat_ngram_size"`
	BadWordsIDs         [][]int64     `json:"bad_words_ids"`
	SuppressTokens      []int64       `json:"suppress_tokens"`
	BeginSuppressTokens []int64       `json:"begin_suppress_tokens"`
	NumBeams            *int          `json:"num_beams"`
	LengthPenalty       *float64      `json:"length_penalty"`
	EarlyStopping       EarlyStopping `json:"early_stopping"`
	NumReturnSequences  *int          `json:"num_return_sequences"`
	EOSTokenIDs         []int64       `json:"-"` // eos_token_id, a number or several
	ForcedEOSTokenIDs   []int64       `json:"-"` // forced_eos_token_id, likewise
	StopStrings         []string      `json:"-"` // stop_strings, a string or several
	BOSTokenID          *int64        `json:"bos_token_id"`
	ForcedBOSTokenID    *int64        `json:"forced_bos_token_id"`
	ForceBOS            bool          `json:"force_bos_token_to_be_generated"` // its older name, only in config.json
	DecoderStart        *int64        `json:"decoder_start_token_id"`
	RenormalizeLogits   *bool         `json:"renormalize_logits"`

	name string                     // of the file
	all  map[string]json.RawMessage // all of its settings
}

// without lists unsupported settings that would change the generated tokens, with the values for
// which they have no effect.
var without = map[string][]string{
	"typical_p": {"1", "1.0"}, "top_h": nil, "epsilon_cutoff": {"0", "0.0"}, "eta_cutoff": {"0", "0.0"},
	"penalty_alpha": {"0", "0.0"}, "dola_layers": nil, "num_beam_groups": {"1"}, "diversity_penalty": {"0", "0.0"},
	"encoder_repetition_penalty": {"1", "1.0"}, "encoder_no_repeat_ngram_size": {"0"}, "force_words_ids": nil,
	"constraints": nil, "remove_invalid_values": {"false"},
	"exponential_decay_length_penalty": nil, "sequence_bias": nil, "token_healing": {"false"},
	"guidance_scale": {"1", "1.0"}, "watermarking_config": nil, "max_time": nil,
}

// generationFile returns the settings of generation_config.json in the model's folder. If there is
// no such file, they are those that config.json has among its own, as in transformers.
func (m *Model) generationFile() (f generationFile, err error) {
	if m.dir != "" {
		f.name = generationConfigName
		path := filepath.Join(m.dir, f.name)
		text, err := regularfile.ReadFile(path, maxGenerationConfig)
		if err == nil {
			err = f.decode(text)
		}
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, fs.ErrNotExist):
			return f, fmt.Errorf("auto: %s: %w (Generation.IgnoreFile leaves it out)", path, err)
		}
	}
	f.name = pretrained.ConfigName
	d, err := m.blueprint.Document(m.Architecture())
	var text []byte
	if err == nil {
		text, err = json.Marshal(withDecoder(d))
	}
	if err == nil {
		err = f.decode(text)
	}
	if err != nil {
		return f, fmt.Errorf("auto: %s: %w (Generation.IgnoreFile leaves it out)", filepath.Join(m.dir, f.name), err)
	}
	if f.ForceBOS {
		f.ForcedBOSTokenID = f.BOSTokenID
	}
	return f, nil
}

// withDecoder adds to a config.json the settings that its decoder has in an object of its own.
func withDecoder(d pretrained.Document) pretrained.Document {
	var decoder pretrained.Document
	if json.Unmarshal([]byte(cmp.Or(string(d["decoder"]), string(d["text_config"]))), &decoder) != nil {
		return d
	}
	for key, value := range d {
		if string(value) != "null" {
			decoder[key] = value
		}
	}
	return decoder
}

func (f *generationFile) decode(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	f.all = all
	for key, same := range without {
		if raw, found := all[key]; found && string(raw) != "null" && !slices.Contains(same, string(raw)) {
			return fmt.Errorf("%s is %s, which is not supported", key, raw)
		}
	}
	if err := errors.Join(json.Unmarshal(text, f), list(all, "eos_token_id", "number", &f.EOSTokenIDs),
		list(all, "forced_eos_token_id", "number", &f.ForcedEOSTokenIDs),
		list(all, "stop_strings", "string", &f.StopStrings)); err != nil {
		return err
	}
	if f.MaxNewTokens != nil && *f.MaxNewTokens < 1 {
		return fmt.Errorf("max_new_tokens is %d; want a positive number", *f.MaxNewTokens)
	}
	return nil
}

// withFile takes the unset fields of g from the file, for a prompt with the given number of tokens.
func (g Generation) withFile(f generationFile, prompt int) (Generation, error) {
	switch {
	case g.MaxNewTokens != 0:
	case f.MaxNewTokens != nil:
		g.MaxNewTokens = *f.MaxNewTokens
	case f.MaxLength != nil:
		if g.MaxNewTokens = *f.MaxLength - prompt; g.MaxNewTokens < 1 {
			return g, fmt.Errorf("auto: max_length of %s is %d, and a prompt has %d tokens, which are counted there; set "+
				"Generation.MaxNewTokens", f.name, *f.MaxLength, prompt)
		}
	}
	switch {
	case g.MinNewTokens != 0:
	case f.MinNewTokens != nil:
		g.MinNewTokens = *f.MinNewTokens
	case f.MinLength != nil:
		g.MinNewTokens = max(0, *f.MinLength-prompt)
	}
	g.NumBeams = cmp.Or(g.NumBeams, optional.Or(f.NumBeams, 0))
	if g.NumBeams > 1 {
		g.LengthPenalty = cmp.Or(g.LengthPenalty, f.LengthPenalty)
		g.EarlyStopping = cmp.Or(g.EarlyStopping, f.EarlyStopping)
	}
	if g.Sample = g.Sample || f.Sample && !g.Greedy; g.Sample {
		g.Temperature, g.TopP = cmp.Or(g.Temperature, optional.Or(f.Temperature, 0)), cmp.Or(g.TopP, optional.Or(f.TopP, 0))
		g.MinP = cmp.Or(g.MinP, optional.Or(f.MinP, 0))
		if f.TopK != nil && g.TopK == 0 {
			g.TopK = cmp.Or(*f.TopK, -1)
		}
	}
	if !g.single && (g.Sample || g.NumBeams > 1) {
		g.NumReturnSequences = cmp.Or(g.NumReturnSequences, optional.Or(f.NumReturnSequences, 0))
	}
	g.RepetitionPenalty = cmp.Or(g.RepetitionPenalty, optional.Or(f.RepetitionPenalty, 0))
	g.NoRepeatNGramSize = cmp.Or(g.NoRepeatNGramSize, optional.Or(f.NoRepeatNGramSize, 0))
	g.ForcedBOSTokenID = cmp.Or(g.ForcedBOSTokenID, f.ForcedBOSTokenID)
	g.RenormalizeLogits = cmp.Or(g.RenormalizeLogits, f.RenormalizeLogits)
	for _, of := range []struct {
		own  *[]int64
		file []int64
	}{{&g.EOSTokenIDs, f.EOSTokenIDs}, {&g.ForcedEOSTokenIDs, f.ForcedEOSTokenIDs}, {&g.SuppressTokens, f.SuppressTokens},
		{&g.BeginSuppressTokens, f.BeginSuppressTokens}} {
		if *of.own == nil {
			*of.own = of.file
		}
	}
	if g.BadWordsIDs == nil {
		g.BadWordsIDs = f.BadWordsIDs
	}
	if g.StopStrings == nil {
		g.StopStrings = f.StopStrings
	}
	g.start = *cmp.Or(f.DecoderStart, f.BOSTokenID, &g.start) // as transformers does
	return g, nil
}
