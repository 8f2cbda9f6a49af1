package auto

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Generation says how text is generated. A field without a value takes the value of
// generation_config.json in the model's folder, or else the default of transformers' generate: the
// most probable token, 20 times. A list that is empty but not nil means none, even if the file has
// one.
type Generation struct {
	MaxNewTokens int // zero: 20; never more than the model has positions for
	MinNewTokens int // no token of EOSTokenIDs comes earlier; zero: 0; -1: 0 even if the file says otherwise

	// Sample draws each token by its probability; without it the most probable token is taken
	// (do_sample). Greedy takes the most probable token even if the file has do_sample. With
	// several beams, continuations of all of them are drawn.
	Sample, Greedy bool
	Temperature    float64 // divides the logits: below 1, probable tokens become more probable; zero: 1
	TopK           int     // draws from this many of the most probable tokens; zero: 50; -1: all
	// TopP draws from the smallest set of most probable tokens that together have this probability;
	// zero: 1, which is all.
	TopP float64
	// MinP draws from the tokens that have at least this share of the probability of the most
	// probable one; zero: from all; -1: from all even if the file says otherwise.
	MinP      float64
	Generator *torch.Generator // nil: the default one

	// RepetitionPenalty divides the positive logits of tokens that the text already has, and
	// multiplies the negative ones; zero: 1, which changes nothing.
	RepetitionPenalty float64
	// NoRepeatNGramSize keeps sequences of this many tokens from occurring twice; zero: no limit;
	// -1: no limit even if the file says otherwise.
	NoRepeatNGramSize   int
	BadWordsIDs         [][]int64 // sequences that are not generated; one of a single token bans the token
	SuppressTokens      []int64   // are not generated
	BeginSuppressTokens []int64   // are not generated first

	// RenormalizeLogits makes the probabilities of the tokens that are not excluded add up to 1, which
	// changes the scores of beams; nil: that of the file, or false.
	RenormalizeLogits *bool

	// NumBeams is how many candidate texts a beam search keeps; the most probable text is returned;
	// zero: 1, which is no beam search. LengthPenalty is the exponent of the length by which the
	// sum of log probabilities is divided: above 0, longer texts are preferred; nil: 1.
	// EarlyStopping says when the search ends; empty: EarlyStoppingFalse.
	NumBeams      int
	LengthPenalty *float64
	EarlyStopping EarlyStopping

	// NumReturnSequences is how many texts are generated for each prompt: as many draws, or the
	// best of NumBeams, the best first. GenerateBatch returns them next to each other. Zero: 1; a
	// method that returns a single text always takes 1.
	NumReturnSequences int

	// EOSTokenIDs end the text and are part of it; nil: those of the file, or else of the model;
	// empty: no token ends it. ForcedEOSTokenIDs are tokens of which one ends the text when it
	// reaches MaxNewTokens.
	EOSTokenIDs, ForcedEOSTokenIDs []int64

	// ForcedBOSTokenID is the first token that an encoder-decoder model generates, such as the
	// language to which mBART-50 translates; nil: that of the file, or none; -1: none even if the
	// file has one. In a decoder it follows a prompt of a single token.
	ForcedBOSTokenID *int64

	// Language is the language of speech, and Task says whether it is written down in that language,
	// "transcribe", or in English, "translate". They are only for [SpeechToTextModel], and need a
	// generation_config.json that has the languages (lang_to_id). Language is "german", "de" or
	// "<|de|>". Empty: those of the file, or of [SpeechToTextModel.SetLanguage]; without any, the
	// language is detected for each input, and the task is "transcribe".
	Language, Task string

	// StopStrings end the text with the token that completes one of them; the whole token is part
	// of the text. They may begin in the prompt. They need Model.Tokenizer.
	StopStrings []string

	// Stream is called with each part of the text, usually whole words, as soon as it is final, by
	// the goroutine that generates. It works for one text without beams. Nil: no calls.
	Stream func(part string)

	// IgnoreFile ignores generation_config.json, and what config.json says in its place.
	IgnoreFile bool

	vocabulary, padding int64       // of the model
	start               int64       // first token of the decoder's texts, in an encoder-decoder model
	begin               []int64     // tokens that follow it in every text, before the generated ones
	times               *timeTokens // texts have times; nil: they have none
	detected            []int64     // tokens of languages, one of which is first in begin after it has been detected
	single              bool        // only one text per prompt is possible
	answerEnds          []int64     // tokens that end the text besides the file's, unless the caller sets EOSTokenIDs
	stops               *stopper
	wrote               func(ids []int64, ended bool) // called with the tokens generated so far; may be nil
}

// EarlyStopping says when a beam search ends: early_stopping of transformers.
type EarlyStopping string

// The ways to end a beam search.
const (
	// EarlyStoppingFalse ends it when no running text, if it ended now, would be better than the
	// worst finished one.
	EarlyStoppingFalse EarlyStopping = "false"
	// EarlyStoppingTrue ends it when NumBeams texts are finished.
	EarlyStoppingTrue EarlyStopping = "true"
	// EarlyStoppingNever ends it when no running text can become better at any length up to
	// MaxNewTokens.
	EarlyStoppingNever EarlyStopping = "never"
)

// readFile reads the defaults of the model's files, unless IgnoreFile is set. What
// [Seq2SeqLanguageModel.SetLanguages] has said takes their place.
func (g Generation) readFile(m *Model) (f generationFile, err error) {
	if !g.IgnoreFile {
		f, err = m.generationFile()
	}
	m.languages.begin(&f)
	return f, err
}

// resolved fills in missing values, for a prompt with the given number of tokens, and checks them.
func (g Generation) resolved(f generationFile, m *Model, prompt int) (_ Generation, err error) {
	drawn := g.Temperature != 0 || g.TopK != 0 || g.TopP != 0 || g.MinP != 0 || g.Generator != nil
	g.start = m.blueprint.DecoderStartTokenID
	ends := g.EOSTokenIDs
	if g, err = g.withFile(f, prompt); err != nil {
		return g, err
	}
	if !g.Sample && drawn {
		return g, errors.New("auto: Generation.Temperature, TopK, TopP, MinP and Generator are for drawn tokens; set " +
			"Sample, or leave them out")
	}
	if g.Sample && g.Greedy {
		return g, errors.New("auto: Generation.Sample and Greedy are both set; want one")
	}
	if g.NumBeams < 2 && (g.LengthPenalty != nil || g.EarlyStopping != "") {
		return g, fmt.Errorf("auto: Generation.LengthPenalty and EarlyStopping are for several beams; NumBeams is %d",
			g.NumBeams)
	}
	for _, f := range []*float64{&g.Temperature, &g.TopP, &g.RepetitionPenalty} {
		*f = cmp.Or(*f, 1)
	}
	for _, n := range []*int{&g.MinNewTokens, &g.NoRepeatNGramSize} {
		if *n == -1 {
			*n = 0
		}
	}
	if g.ForcedBOSTokenID != nil && *g.ForcedBOSTokenID == -1 {
		g.ForcedBOSTokenID = nil
	}
	if g.MinP == -1 {
		g.MinP = 0
	}
	g.MaxNewTokens, g.TopK = m.newTokens(g.MaxNewTokens), cmp.Or(g.TopK, 50)
	g.NumBeams, g.NumReturnSequences = cmp.Or(g.NumBeams, 1), cmp.Or(g.NumReturnSequences, 1)
	g.LengthPenalty = cmp.Or(g.LengthPenalty, new(1.0))
	g.EarlyStopping = cmp.Or(g.EarlyStopping, EarlyStoppingFalse)
	g.vocabulary, g.padding = m.Limits().TargetVocab(), m.Limits().PadTokenID
	if g.EOSTokenIDs == nil {
		g.EOSTokenIDs = m.blueprint.EOSTokenIDs
	}
	if ends == nil {
		for _, id := range g.answerEnds {
			if !slices.Contains(g.EOSTokenIDs, id) {
				g.EOSTokenIDs = append(slices.Clip(g.EOSTokenIDs), id)
			}
		}
	}
	if m.blueprint.Pair && (g.start < 0 || g.start >= g.vocabulary) {
		return g, fmt.Errorf("auto: decoder_start_token_id is %d, or bos_token_id in its place; want an id of the "+
			"vocabulary of %d", g.start, g.vocabulary)
	}
	if err := cmp.Or(g.check(), g.checkSpeech(m)); err != nil {
		return g, err
	}
	if g.Stream != nil {
		g.wrote = m.streamTo(g.Stream)
	}
	g.stops, err = m.stopAt(g.StopStrings)
	return g, err
}

// newTokens returns how many tokens are generated at most if n are wanted, 0 meaning the default.
func (m *Model) newTokens(n int) int {
	room := m.Limits().MaxLength
	switch {
	case !m.blueprint.Pair:
		return cmp.Or(n, 20)
	case n == 0 && !m.task.images && !m.task.speech:
		// transformers limits its default, and only this, to the max_position_embeddings of
		// config.json, and counts the token that a text starts with. A TrOCR's are in the decoder, and
		// Whisper has other names.
		return int(min(20, max(1, room-1)))
	}
	return int(min(int64(cmp.Or(n, 20)), room))
}

// check returns an error for invalid values.
func (g Generation) check() error {
	for _, c := range []struct {
		bad  bool
		name string
		is   any
		want string
	}{
		{g.NumBeams < 0, "NumBeams", g.NumBeams, "a positive number"},
		{math.IsNaN(*g.LengthPenalty) || math.IsInf(*g.LengthPenalty, 0), "LengthPenalty", *g.LengthPenalty, "a number"},
		{!slices.Contains([]EarlyStopping{EarlyStoppingFalse, EarlyStoppingTrue, EarlyStoppingNever}, g.EarlyStopping),
			"EarlyStopping", g.EarlyStopping, "true, false or never"},
		{g.MaxNewTokens < 0, "MaxNewTokens", g.MaxNewTokens, "a positive number"},
		{g.MinNewTokens < 0, "MinNewTokens", g.MinNewTokens, "a positive number, or -1 for none"},
		{!(g.Temperature > 0), "Temperature", g.Temperature, "a positive number"},
		{g.TopK < -1, "TopK", g.TopK, "a positive number, or -1 for all tokens"},
		{!(g.TopP > 0 && g.TopP <= 1), "TopP", g.TopP, "more than 0 and at most 1"},
		{!(g.MinP >= 0 && g.MinP <= 1), "MinP", g.MinP, "at least 0 and at most 1, or -1 for none"},
		{!(g.RepetitionPenalty > 0), "RepetitionPenalty", g.RepetitionPenalty, "a positive number"},
		{g.NoRepeatNGramSize < 0, "NoRepeatNGramSize", g.NoRepeatNGramSize, "a positive number, or -1 for none"},
		{g.NumReturnSequences < 0, "NumReturnSequences", g.NumReturnSequences, "a positive number"},
		{g.single && g.NumReturnSequences > 1, "NumReturnSequences", g.NumReturnSequences, "1, since one text is " +
			"returned of each prompt here; GenerateBatch returns more"},
		{g.NumBeams > 1 && g.NumReturnSequences > g.NumBeams, "NumReturnSequences", g.NumReturnSequences,
			fmt.Sprintf("at most NumBeams, %d", g.NumBeams)},
		{g.NumBeams == 1 && !g.Sample && g.NumReturnSequences > 1, "NumReturnSequences", g.NumReturnSequences,
			"Sample or several beams with it, since all texts would be the same"},
		{slices.Contains(g.StopStrings, ""), "StopStrings", fmt.Sprintf("%q", g.StopStrings), "strings that are not empty"},
		{slices.ContainsFunc(g.BadWordsIDs, func(ids []int64) bool { return len(ids) == 0 }), "BadWordsIDs", g.BadWordsIDs,
			"at least one token in each"},
	} {
		if c.bad {
			return fmt.Errorf("auto: Generation.%s is %v; want %s", c.name, c.is, c.want)
		}
	}
	if id := g.ForcedBOSTokenID; id != nil && (*id < 0 || *id >= g.vocabulary) {
		return fmt.Errorf("auto: Generation.ForcedBOSTokenID is %d; want an id of the vocabulary of %d, or -1 for none",
			*id, g.vocabulary)
	}
	for name, ids := range map[string][]int64{"BadWordsIDs": slices.Concat(g.BadWordsIDs...),
		"SuppressTokens": g.SuppressTokens, "BeginSuppressTokens": g.BeginSuppressTokens,
		"ForcedEOSTokenIDs": g.ForcedEOSTokenIDs} {
		for _, id := range ids {
			if id < 0 || id >= g.vocabulary {
				return fmt.Errorf("auto: Generation.%s has the token %d; want ids of the vocabulary of %d", name, id,
					g.vocabulary)
			}
		}
	}
	return nil
}
