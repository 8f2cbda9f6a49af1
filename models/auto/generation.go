package auto

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/torch"
)

// Generation says how a text is continued. What has no value is what generation_config.json of the
// model's folder says, or else has the default of transformers' generate: the most probable token is
// taken each time, 20 times.
type Generation struct {
	MaxNewTokens int // zero: 20; never more than the model has positions for
	MinNewTokens int // no text ends before; zero: 0; -1: 0 although the file says otherwise

	// Sample draws each token by its probability; without it the most probable one is taken
	// (do_sample). Greedy takes it although the file has do_sample.
	Sample, Greedy bool
	Temperature    float64 // divides the logits: below 1 the probable becomes more so; zero: 1
	TopK           int     // only so many of the most probable tokens are drawn from; zero: 50; -1: all
	// TopP draws from the fewest most probable tokens that have this probability together; zero: 1,
	// which is all.
	TopP float64
	// MinP draws from tokens that have at least this share of the probability of the most probable one;
	// zero: from all; -1: from all although the file says otherwise.
	MinP      float64
	Generator *torch.Generator // nil: the default one

	// RepetitionPenalty divides the positive logits of tokens that the text has already, and
	// multiplies negative ones; zero: 1, which is none.
	RepetitionPenalty float64
	// NoRepeatNGramSize lets no so many tokens follow one another twice; zero: any; -1: any although the
	// file says otherwise.
	NoRepeatNGramSize int

	// NumBeams is how many beginnings are followed at a time, of which the most probable text is taken
	// (beam search); zero: 1, which is none. LengthPenalty is the power of the length by which sums of
	// logarithms are divided: above 0 longer texts are preferred; nil: 1. EarlyStopping ends the search
	// when NumBeams texts have ended; without it, when no better one is to be expected.
	NumBeams      int
	LengthPenalty *float64
	EarlyStopping bool

	// EOSTokenIDs end the text, and are part of it; nil: those of the file, or else of the model; empty:
	// none does.
	EOSTokenIDs []int64

	// Stream is called with each part of the text as soon as it is final, by the goroutine that
	// generates: whole words, in the main. It is for one text without beams. Nil: nobody is told.
	Stream func(part string)

	// IgnoreFile leaves generation_config.json out.
	IgnoreFile bool

	vocabulary, padding int64                         // of the model
	start               int64                         // what every text about another one begins with
	wrote               func(ids []int64, ended bool) // is called with the tokens so far; nil: nobody is told
}

// generationConfigName is a file of transformers' generate.
const generationConfigName = "generation_config.json"

// maxGenerationConfig is what that file may have, in bytes.
const maxGenerationConfig = 1 << 20

// tokenIDs are a token, or several.
type tokenIDs []int64

// UnmarshalJSON reads a number, or a list of them.
func (t *tokenIDs) UnmarshalJSON(text []byte) error {
	var one *int64
	var several []int64
	switch {
	case json.Unmarshal(text, &one) == nil:
		if one != nil {
			*t = []int64{*one}
		}
	case json.Unmarshal(text, &several) == nil:
		*t = several
	default:
		return fmt.Errorf("eos_token_id is %s; want a number, several, or null", text)
	}
	return nil
}

// generationFile is generation_config.json, as far as it is supported.
type generationFile struct {
	MaxLength         *int     `json:"max_length"`
	MaxNewTokens      *int     `json:"max_new_tokens"`
	MinLength         *int     `json:"min_length"`
	MinNewTokens      *int     `json:"min_new_tokens"`
	Sample            bool     `json:"do_sample"`
	Temperature       *float64 `json:"temperature"`
	TopK              *int     `json:"top_k"`
	TopP              *float64 `json:"top_p"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	NoRepeatNGramSize *int     `json:"no_repeat_ngram_size"`
	NumBeams          *int     `json:"num_beams"`
	LengthPenalty     *float64 `json:"length_penalty"`
	EarlyStopping     any      `json:"early_stopping"`
	EOSTokenIDs       tokenIDs `json:"eos_token_id"`
	BOSTokenID        *int64   `json:"bos_token_id"`
	DecoderStart      *int64   `json:"decoder_start_token_id"`
}

// without are the settings that would change the tokens and are not supported, with the values that
// change nothing.
var without = map[string][]string{
	"typical_p": {"1", "1.0"}, "top_h": nil, "epsilon_cutoff": {"0", "0.0"}, "eta_cutoff": {"0", "0.0"},
	"penalty_alpha": {"0", "0.0"}, "dola_layers": nil, "num_beam_groups": {"1"}, "diversity_penalty": {"0", "0.0"},
	"encoder_repetition_penalty": {"1", "1.0"}, "encoder_no_repeat_ngram_size": {"0"}, "bad_words_ids": nil,
	"force_words_ids": nil, "constraints": nil, "renormalize_logits": {"false"}, "forced_bos_token_id": nil,
	"forced_eos_token_id": nil, "remove_invalid_values": {"false"}, "exponential_decay_length_penalty": nil,
	"suppress_tokens": {"[]"}, "begin_suppress_tokens": {"[]"}, "sequence_bias": nil, "token_healing": {"false"},
	"guidance_scale": {"1", "1.0"}, "watermarking_config": nil, "num_return_sequences": {"1"}, "stop_strings": nil,
	"max_time": nil,
}

// readGenerationFile reads the file of a folder; a zero one is of a folder that has none.
func readGenerationFile(dir string) (f generationFile, err error) {
	if dir == "" {
		return f, nil
	}
	path := filepath.Join(dir, generationConfigName)
	text, err := regularfile.ReadFile(path, maxGenerationConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = f.decode(text)
	}
	if err != nil {
		return f, fmt.Errorf("auto: %s: %w (Generation.IgnoreFile leaves it out)", path, err)
	}
	return f, nil
}

func (f *generationFile) decode(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for key, same := range without {
		if raw, found := all[key]; found && string(raw) != "null" && !slices.Contains(same, string(raw)) {
			return fmt.Errorf("%s is %s, which is not supported", key, raw)
		}
	}
	if err := json.Unmarshal(text, f); err != nil {
		return err
	}
	switch f.EarlyStopping.(type) {
	case nil, bool:
		return nil
	}
	return fmt.Errorf("early_stopping is %v; only true and false are supported", f.EarlyStopping)
}

// withFile takes what g leaves open from the file, for a prompt of so many tokens.
func (g Generation) withFile(f generationFile, prompt int) Generation {
	switch {
	case g.MaxNewTokens != 0:
	case f.MaxNewTokens != nil:
		g.MaxNewTokens = *f.MaxNewTokens
	case f.MaxLength != nil:
		g.MaxNewTokens = max(1, *f.MaxLength-prompt)
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
		g.EarlyStopping = g.EarlyStopping || f.EarlyStopping == true
	}
	if g.Sample = g.Sample || f.Sample && !g.Greedy && g.NumBeams < 2; g.Sample {
		g.Temperature, g.TopP = cmp.Or(g.Temperature, optional.Or(f.Temperature, 0)), cmp.Or(g.TopP, optional.Or(f.TopP, 0))
		g.MinP = cmp.Or(g.MinP, optional.Or(f.MinP, 0))
		if f.TopK != nil && g.TopK == 0 {
			g.TopK = cmp.Or(*f.TopK, -1)
		}
	}
	g.RepetitionPenalty = cmp.Or(g.RepetitionPenalty, optional.Or(f.RepetitionPenalty, 0))
	g.NoRepeatNGramSize = cmp.Or(g.NoRepeatNGramSize, optional.Or(f.NoRepeatNGramSize, 0))
	if g.EOSTokenIDs == nil {
		g.EOSTokenIDs = f.EOSTokenIDs
	}
	g.start = *cmp.Or(f.DecoderStart, f.BOSTokenID, &g.start) // as transformers does
	return g
}

// resolved fills in what has no value, for a prompt of so many tokens, and refuses what makes no sense.
func (g Generation) resolved(m *Model, prompt int) (Generation, error) {
	drawn := g.Temperature != 0 || g.TopK != 0 || g.TopP != 0 || g.MinP != 0 || g.Generator != nil
	g.start = m.blueprint.DecoderStartTokenID
	if !g.IgnoreFile {
		f, err := readGenerationFile(m.dir)
		if err != nil {
			return g, err
		}
		if g = g.withFile(f, prompt); f.Sample && !g.Greedy && g.NumBeams > 1 {
			return g, fmt.Errorf("auto: do_sample is true in %s, which is not supported with %d beams; set Generation.Greedy, "+
				"or NumBeams to 1", filepath.Join(m.dir, generationConfigName), g.NumBeams)
		}
	}
	if !g.Sample && drawn {
		return g, errors.New("auto: Generation.Temperature, TopK, TopP, MinP and Generator are for drawn tokens; set " +
			"Sample, or leave them out")
	}
	if g.Sample && g.Greedy {
		return g, errors.New("auto: Generation.Sample and Greedy are both set; want one")
	}
	if g.NumBeams < 2 && (g.LengthPenalty != nil || g.EarlyStopping) || g.NumBeams > 1 && g.Sample {
		return g, fmt.Errorf("auto: Generation.LengthPenalty and EarlyStopping are for several beams, and Sample is for "+
			"one; NumBeams is %d", g.NumBeams)
	}
	for _, f := range []*float64{&g.Temperature, &g.TopP, &g.RepetitionPenalty} {
		*f = cmp.Or(*f, 1)
	}
	for _, n := range []*int{&g.MinNewTokens, &g.NoRepeatNGramSize} {
		if *n == -1 {
			*n = 0
		}
	}
	if g.MinP == -1 {
		g.MinP = 0
	}
	g.MaxNewTokens, g.TopK, g.NumBeams = cmp.Or(g.MaxNewTokens, 20), cmp.Or(g.TopK, 50), cmp.Or(g.NumBeams, 1)
	g.LengthPenalty = cmp.Or(g.LengthPenalty, new(1.0))
	g.vocabulary, g.padding = m.Limits().VocabSize, m.Limits().PadTokenID
	if g.EOSTokenIDs == nil {
		g.EOSTokenIDs = m.blueprint.EOSTokenIDs
	}
	if m.blueprint.Pair && (g.start < 0 || g.start >= g.vocabulary) {
		return g, fmt.Errorf("auto: decoder_start_token_id is %d, or bos_token_id in its stead; want an id of the "+
			"vocabulary of %d", g.start, g.vocabulary)
	}
	if g.Stream != nil {
		g.wrote = m.streamTo(g.Stream)
	}
	return g, g.check()
}

// check refuses values that make no sense.
func (g Generation) check() error {
	for _, c := range []struct {
		bad  bool
		name string
		is   any
		want string
	}{
		{g.NumBeams < 0, "NumBeams", g.NumBeams, "a positive number"},
		{math.IsNaN(*g.LengthPenalty) || math.IsInf(*g.LengthPenalty, 0), "LengthPenalty", *g.LengthPenalty, "a number"},
		{g.MaxNewTokens < 0, "MaxNewTokens", g.MaxNewTokens, "a positive number"},
		{g.MinNewTokens < 0, "MinNewTokens", g.MinNewTokens, "a positive number, or -1 for none"},
		{!(g.Temperature > 0), "Temperature", g.Temperature, "a positive number"},
		{g.TopK < -1, "TopK", g.TopK, "a positive number, or -1 for all tokens"},
		{!(g.TopP > 0 && g.TopP <= 1), "TopP", g.TopP, "more than 0 and at most 1"},
		{!(g.MinP >= 0 && g.MinP <= 1), "MinP", g.MinP, "at least 0 and at most 1, or -1 for none"},
		{!(g.RepetitionPenalty > 0), "RepetitionPenalty", g.RepetitionPenalty, "a positive number"},
		{g.NoRepeatNGramSize < 0, "NoRepeatNGramSize", g.NoRepeatNGramSize, "a positive number, or -1 for none"},
	} {
		if c.bad {
			return fmt.Errorf("auto: Generation.%s is %v; want %s", c.name, c.is, c.want)
		}
	}
	return nil
}
