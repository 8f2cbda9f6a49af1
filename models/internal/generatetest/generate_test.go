package generatetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/generate.py or writers.py.
type recorded struct {
	Prompts   [][]int64
	Ways      []way
	Tokenizer json.RawMessage // for StopStrings
	Models    []model
}

// model is a model that generates texts.
type model struct {
	Name, Architecture string
	Attention          transformer.Attention
	Config             map[string]any
	Ways               [][][]int64
	Files              []struct {
		File map[string]any
		Rows [][]int64
	}
}

// way are the arguments of generate.
type way struct {
	MaxNewTokens      int                `json:"max_new_tokens"`
	MinNewTokens      int                `json:"min_new_tokens"`
	EOS               []int64            `json:"eos_token_id"`
	Sample            bool               `json:"do_sample"`
	Temperature       float64            `json:"temperature"`
	TopK              *int               `json:"top_k"`
	TopP              float64            `json:"top_p"`
	MinP              float64            `json:"min_p"`
	RepetitionPenalty float64            `json:"repetition_penalty"`
	NoRepeatNGramSize int                `json:"no_repeat_ngram_size"`
	BadWords          [][]int64          `json:"bad_words_ids"`
	Suppress          []int64            `json:"suppress_tokens"`
	BeginSuppress     []int64            `json:"begin_suppress_tokens"`
	NumBeams          int                `json:"num_beams"`
	LengthPenalty     *float64           `json:"length_penalty"`
	EarlyStopping     auto.EarlyStopping `json:"early_stopping"`
	NumReturn         int                `json:"num_return_sequences"`
	ForcedEOS         oneOrMore          `json:"forced_eos_token_id"`
	StopStrings       []string           `json:"stop_strings"`
}

// oneOrMore is a list of ids, or a single id without a list.
type oneOrMore []int64

func (ids *oneOrMore) UnmarshalJSON(text []byte) error {
	if text[0] != '[' {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	return json.Unmarshal(text, (*[]int64)(ids))
}

func (w way) generation() auto.Generation {
	g := auto.Generation{MaxNewTokens: w.MaxNewTokens, MinNewTokens: w.MinNewTokens, EOSTokenIDs: w.EOS, Sample: w.Sample,
		Temperature: w.Temperature, TopP: w.TopP, MinP: w.MinP, RepetitionPenalty: w.RepetitionPenalty,
		NoRepeatNGramSize: w.NoRepeatNGramSize, NumBeams: w.NumBeams, LengthPenalty: w.LengthPenalty,
		EarlyStopping: w.EarlyStopping, NumReturnSequences: w.NumReturn, BadWordsIDs: w.BadWords, SuppressTokens: w.Suppress,
		BeginSuppressTokens: w.BeginSuppress, ForcedEOSTokenIDs: w.ForcedEOS, StopStrings: w.StopStrings}
	if w.TopK != nil {
		if g.TopK = *w.TopK; g.TopK == 0 {
			g.TopK = -1
		}
	}
	return g
}

func load(t *testing.T) recorded { return loadFile(t, "generate.json", 8) }

func loadFile(t *testing.T, name string, models int) recorded {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var r recorded
	require.NoError(t, json.Unmarshal(content, &r))
	require.Len(t, r.Models, models)
	return r
}

// writer is a model with a function that generates a batch of texts.
type writer struct {
	*auto.Model
	batch func(ctx context.Context, prompts [][]int64, g auto.Generation) ([][]int64, error)
}

// open makes the model in a folder with the seed 42.
func (m model) open(t *testing.T, dir string) writer {
	t.Helper()
	torch.ManualSeed(42)
	o := auto.Options{FromConfig: true, Attention: m.Attention, Warnings: io.Discard}
	var w writer
	if strings.HasPrefix(m.Architecture, "T5") {
		pair, err := auto.Seq2SeqLM(t.Context(), dir, o)
		require.NoError(t, err)
		w = writer{pair.Model, func(ctx context.Context, prompts [][]int64, g auto.Generation) ([][]int64, error) {
			var texts []inputs.Text
			for _, p := range prompts {
				texts = append(texts, inputs.Text{InputIDs: p})
			}
			return pair.GenerateIDs(ctx, texts, g)
		}}
	} else {
		lm, err := auto.CausalLM(t.Context(), dir, o)
		require.NoError(t, err)
		w = writer{lm.Model, lm.GenerateBatchIDs}
	}
	scale := 20.0 // makes the logits of tokens differ more
	if m.Name == "phi3 longrope" {
		scale = 5
	}
	torch.NoGrad(func() { w.InputEmbeddings().Weight.MulScalar_(scale) })
	return w
}

// toEnd truncates row after the first token that ends a text.
func toEnd(row, ends []int64) []int64 {
	if i := slices.IndexFunc(row, func(id int64) bool { return slices.Contains(ends, id) }); i >= 0 {
		return row[:i+1]
	}
	return row
}

// TestTextsAreThoseOfTransformers generates several texts at a time, padded on the left, with many
// settings.
func TestTextsAreThoseOfTransformers(t *testing.T) {
	load(t).compare(t)
}

// TestTextsOfOtherWritersAreThoseOfTransformers uses other models and more settings.
func TestTextsOfOtherWritersAreThoseOfTransformers(t *testing.T) {
	loadFile(t, "writers.json", 12).compare(t)
}

// setTokenizer sets the model's tokenizer, which StopStrings needs.
func (r recorded) setTokenizer(t *testing.T, w writer) {
	t.Helper()
	if r.Tokenizer != nil {
		var err error
		w.Tokenizer, err = text.ParseTokenizer(r.Tokenizer)
		require.NoError(t, err)
	}
}

// compare generates texts with each model and each group of settings.
func (r recorded) compare(t *testing.T) {
	for _, m := range r.Models {
		w := m.open(t, modeltest.ConfigFolder(t, m.Config))
		r.setTokenizer(t, w)
		for i, how := range r.Ways[:len(m.Ways)] {
			t.Run(fmt.Sprintf("%s %d", m.Name, i), func(t *testing.T) {
				goldencount.Start(t, "models", t.Name())
				ends := how.EOS
				if ends == nil {
					ends = []int64{60}
				}
				torch.ManualSeed(3)
				rows, err := w.batch(t.Context(), r.Prompts, how.generation())
				require.NoError(t, err)
				require.Len(t, rows, len(r.Prompts)*max(1, how.NumReturn))
				for k, row := range rows {
					assert.True(t, len(row) >= how.MinNewTokens || how.StopStrings != nil)
					if testenv.SameBits() {
						assert.Equal(t, toEnd(m.Ways[i][k], ends), row, "prompt %d", k)
					}
				}
			})
		}
	}
}

// TestFileIsWhatIsNotSaid: settings that the caller does not specify come from
// generation_config.json.
func TestFileIsWhatIsNotSaid(t *testing.T) {
	for _, r := range []recorded{load(t), loadFile(t, "writers.json", 12)} {
		r.compareFiles(t)
	}
}

// compareFiles generates texts with each model and each of its files.
func (r recorded) compareFiles(t *testing.T) {
	for _, m := range r.Models {
		for i, f := range m.Files {
			t.Run(fmt.Sprintf("%s %d", m.Name, i), func(t *testing.T) {
				goldencount.Start(t, "models", t.Name())
				dir := modeltest.ConfigFolder(t, m.Config)
				content, err := json.Marshal(f.File)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), content, 0o600))
				w := m.open(t, dir)
				r.setTokenizer(t, w)
				torch.ManualSeed(3)
				rows, err := w.batch(t.Context(), r.Prompts, auto.Generation{})
				require.NoError(t, err)
				require.Zero(t, len(rows)%len(r.Prompts))
				if testenv.SameBits() {
					require.Len(t, rows, len(f.Rows))
				}
				var ends []int64
				for _, id := range f.File["eos_token_id"].([]any) {
					ends = append(ends, int64(id.(float64)))
				}
				for k, row := range rows {
					if testenv.SameBits() {
						assert.Equal(t, toEnd(f.Rows[k], ends), row, "prompt %d", k)
					}
				}
				copied := t.TempDir()
				require.NoError(t, w.WriteConfig(copied))
				saved, err := os.ReadFile(filepath.Join(copied, "generation_config.json"))
				require.NoError(t, err)
				assert.Equal(t, string(content), string(saved), "the file is unchanged")

				g := auto.Generation{IgnoreFile: true, MaxNewTokens: 4, EOSTokenIDs: []int64{}}
				plain, err := w.batch(t.Context(), r.Prompts, g)
				require.NoError(t, err)
				g.IgnoreFile, g.Greedy, g.NumBeams, g.MinNewTokens = false, true, 1, -1
				g.RepetitionPenalty, g.NoRepeatNGramSize = 1, -1
				g.StopStrings, g.BadWordsIDs, g.ForcedEOSTokenIDs = []string{}, [][]int64{}, []int64{}
				g.SuppressTokens, g.BeginSuppressTokens = []int64{}, []int64{}
				said, err := w.batch(t.Context(), r.Prompts, g)
				require.NoError(t, err)
				assert.Equal(t, plain, said, "fields that are set win over the file")
			})
		}
	}
}

// TestOneTextIsThatOfABatch: texts in a batch do not affect one another, nor does padding.
func TestOneTextIsThatOfABatch(t *testing.T) {
	r := load(t)
	for _, m := range r.Models {
		w := m.open(t, modeltest.ConfigFolder(t, m.Config))
		g := auto.Generation{MaxNewTokens: 12, EOSTokenIDs: []int64{}}
		all, err := w.batch(t.Context(), r.Prompts, g)
		require.NoError(t, err)
		for k, p := range r.Prompts {
			one, err := w.batch(t.Context(), [][]int64{p}, g)
			require.NoError(t, err)
			assert.Equal(t, one[0], all[k], "%s, prompt %d", m.Name, k)
		}
	}
}

func TestFilesThatWouldChangeTheTextAreRefused(t *testing.T) {
	r := load(t)
	m := r.Models[2]
	for content, want := range map[string]string{
		`{"typical_p": 0.9}`:           "typical_p is 0.9, which is not supported",
		`{"force_words_ids": [[1]]}`:   "force_words_ids is [[1]]",
		`{"bad_words_ids": [[1, 61]]}`: "Generation.BadWordsIDs has the token 61; want ids of the vocabulary of 61",
		`{"bad_words_ids": [[]]}`:      "Generation.BadWordsIDs is [[]]; want at least one token in each",
		`{"suppress_tokens": [-1]}`:    "Generation.SuppressTokens has the token -1",
		`{"early_stopping": "rarely"}`: `early_stopping is "rarely"; want true, false or "never"`,
		`{"stop_strings": [""]}`:       `Generation.StopStrings is [""]; want strings that are not empty`,
		`{"stop_strings": "end"}`: "merges.txt beside the weights, or set Model.Tokenizer, " +
			"which Generation.StopStrings are found by",
		`{"stop_strings": 7}`:                             "stop_strings is 7; want a string, several, or null",
		`{"max_length": 12}`:                              "max_length of generation_config.json is 12, and a prompt has 12 tokens",
		`{"max_new_tokens": 0}`:                           "max_new_tokens is 0; want a positive number",
		`{"do_sample": true, "num_return_sequences": -2}`: "Generation.NumReturnSequences is -2",
		`{"num_beams": 2, "num_return_sequences": 3}`:     "Generation.NumReturnSequences is 3; want at most NumBeams, 2",
		`{"max_new_tokens": "many"}`:                      "cannot unmarshal string",
		`{"eos_token_id": "end"}`:                         "eos_token_id is \"end\"; want a number",
		`[1]`:                                             "cannot unmarshal array",
		`{`:                                               "unexpected end",
		`{"max_new_tokens": -3}`:                          "max_new_tokens is -3",
		`{"do_sample": true, "temperature": -0.5}`:        "Generation.Temperature is -0.5",
		`{"repetition_penalty": -1.0}`:                    "Generation.RepetitionPenalty is -1",
		`{"no_repeat_ngram_size": -2}`:                    "Generation.NoRepeatNGramSize is -2",
		`{"typical_p": 1.0, "num_return_sequences": 1}`:   "",
		`{"guidance_scale": null, "forced_bos_token_id": null, "eos_token_id": 7, "max_length": 13}`: "",
		`{"eos_token_id": null, "max_new_tokens": null, "early_stopping": null}`:                     "",
	} {
		dir := modeltest.ConfigFolder(t, m.Config)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(content), 0o600))
		w := m.open(t, dir)
		_, err := w.batch(t.Context(), r.Prompts, auto.Generation{})
		if want == "" {
			require.NoError(t, err, content)
			continue
		}
		require.ErrorContains(t, err, want, content)
		_, err = w.batch(t.Context(), r.Prompts, auto.Generation{IgnoreFile: true})
		require.NoError(t, err)
	}
	w := m.open(t, modeltest.ConfigFolder(t, m.Config))
	for want, g := range map[string]auto.Generation{
		"Generation.MinP is 2":                    {Sample: true, MinP: 2},
		"MinP and Generator are for drawn tokens": {MinP: 0.5},
		"Sample and Greedy are both set":          {Sample: true, Greedy: true},
		"Generation.MinNewTokens is -2":           {MinNewTokens: -2},
		"Stream is for one text without beams":    {Stream: func(string) {}},
		"NumReturnSequences is 2; want Sample":    {NumReturnSequences: 2},
		"NumReturnSequences is 4; want at most":   {NumReturnSequences: 4, NumBeams: 3},
		"EarlyStopping is maybe":                  {NumBeams: 2, EarlyStopping: "maybe"},
	} {
		_, err := w.batch(t.Context(), r.Prompts, g)
		assert.ErrorContains(t, err, want)
	}
	_, err := w.batch(t.Context(), nil, auto.Generation{})
	assert.ErrorContains(t, err, "there are no prompts")
	_, err = w.batch(t.Context(), [][]int64{{1}, {}}, auto.Generation{})
	assert.ErrorContains(t, err, "prompt 1: it has no tokens")
	_, err = w.batch(t.Context(), [][]int64{{1}, {61}}, auto.Generation{})
	assert.ErrorContains(t, err, "prompt 1:")
}

// TestPartsOfAStreamAreTheText: parts arrive while the text is generated, and all but the last end
// with a word.
func TestPartsOfAStreamAreTheText(t *testing.T) {
	testenv.RequireTorch(t)
	tok := fox(t)
	torch.ManualSeed(1)
	lm, err := auto.NewCausalLM(gpt2.Config{VocabSize: int64(tok.VocabSize()), MaxPositions: 256, HiddenSize: 16,
		NumLayers: 1, NumHeads: 2}, tok)
	require.NoError(t, err)
	count := 0
	for range 5 {
		var parts []string
		whole, err := lm.Generate(t.Context(), "the", auto.Generation{MaxNewTokens: 200, Sample: true, TopK: -1,
			EOSTokenIDs: []int64{}, Stream: func(part string) { parts = append(parts, part) }})
		require.NoError(t, err)
		assert.Equal(t, whole, strings.Join(parts, ""))
		for i, part := range parts {
			assert.NotEmpty(t, part)
			last, _ := utf8.DecodeLastRuneInString(part)
			assert.True(t, i == len(parts)-1 || last == ' ' || last == '\n' || unicode.Is(unicode.Han, last), "%q", part)
		}
		count += len(parts)
	}
	assert.Greater(t, count, 10)

	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	var parts []string
	whole, err := lm.Generate(ctx, "the", auto.Generation{MaxNewTokens: 200, Sample: true, TopK: -1,
		EOSTokenIDs: []int64{}, Stream: func(part string) { parts = append(parts, part); cancel(stop) }})
	require.ErrorIs(t, err, stop)
	assert.Equal(t, whole, strings.Join(parts, ""), "the text so far")
}
