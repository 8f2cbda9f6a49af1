package auto_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/torch"
)

// TestSavedModelLoads checks that all bits are the same, that nothing is drawn and no warning is
// written, that config.json has the same settings, and that the names in the file are those of
// transformers.
func TestSavedModelLoads(t *testing.T) {
	cases, _ := goldenCases(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			m := c.fresh(t)
			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			var told bytes.Buffer
			again, inner, err := c.load(dir, auto.Options{Warnings: &told})
			require.NoError(t, err)
			assert.Equal(t, "auto: "+dir+" has no tokenizer: the model takes token ids, but no texts\n", told.String())
			assert.Empty(t, inner.Report.Initialized)
			assert.Equal(t, sums(nn.Params(m), itself), sums(nn.Params(again), itself))

			file, err := os.ReadFile(filepath.Join(dir, "config.json"))
			require.NoError(t, err)
			var config map[string]any
			require.NoError(t, json.Unmarshal(file, &config))
			for key, want := range c.Config {
				assert.Equal(t, want, config[key], key)
			}
			assert.ElementsMatch(t, c.Saved, golden.Load(t, filepath.Join(dir, "model.safetensors")).Names())
		})
	}
}

func TestCheckpointingHasTheSameGradients(t *testing.T) {
	cases, file := goldenCases(t)
	for _, c := range cases {
		if c.Head != "TokenClassification" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			m := c.fresh(t)
			m.(interface{ SetGradientCheckpointing(on bool) }).SetGradientCheckpointing(true)
			torch.Scope(func() { c.compare(t, m, file) })
		})
	}
}

// example returns a folder with a model of the golden file, without a tokenizer.
func example(t *testing.T, name string) (dir string, c goldenCase) {
	t.Helper()
	cases, _ := goldenCases(t)
	for _, c = range cases {
		if c.Name == name {
			dir = t.TempDir()
			require.NoError(t, c.fresh(t).Save(dir))
			return dir, c
		}
	}
	t.Fatalf("no case %s", name)
	return "", c
}

func TestWhatIsDrawnOrNotUsedIsTold(t *testing.T) {
	dir, _ := example(t, "BertForMaskedLM")
	var told bytes.Buffer
	m, err := auto.TokenClassification(t.Context(), dir, auto.Options{ID2Label: []string{"O", "B-X", "I-X"},
		Warnings: &told})
	require.NoError(t, err)
	for _, want := range []string{
		"auto: " + dir + " as BertForTokenClassification: ", "missing     classifier.weight", "want [3 32]",
		"unexpected  cls.predictions.transform.dense.weight", "newly initialized, to be trained: classifier.weight, " +
			"classifier.bias",
	} {
		assert.Contains(t, told.String(), want)
	}
	assert.Equal(t, []string{"O", "B-X", "I-X"}, m.Head().ID2Label)

	require.NoError(t, m.Save(dir))
	_, err = auto.TokenClassification(t.Context(), dir, auto.Options{ID2Label: []string{"O", "B-X"},
		Warnings: io.Discard})
	require.ErrorContains(t, err, "InitMismatched")
	told.Reset()
	_, err = auto.TokenClassification(t.Context(), dir, auto.Options{ID2Label: []string{"O", "B-X"},
		InitMismatched: true,
		Warnings:       &told})
	require.NoError(t, err)
	assert.Contains(t, told.String(), "mismatched  classifier.weight  want [2 32], found [3 32]")
}

func TestMistakesAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	ctx := context.Background()
	quiet := auto.Options{Warnings: io.Discard}
	config := func(text string) string {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
		return dir
	}
	for text, want := range map[string]string{
		`{"model_type": "gpt2"}`: `model_type is "gpt2"; want one of ["bert" "deberta-v2" "distilbert" "electra" "modernbert" "mpnet" ` +
			`"roberta" "xlm-roberta"]`,
		`{}`: `model_type is ""`,
		`{"model_type": "electra", "embedding_size": -1}`:               "EmbeddingSize is -1",
		`{"model_type": "mpnet", "relative_attention_num_buckets": 8}`:  "want at least 32",
		`{"model_type": "mpnet", "pad_token_id": 0}`:                    "pad_token_id is 0; MPNet's is 1",
		`{"model_type": "xlm-roberta", "max_position_embeddings": 2}`:   "MaxPositions is 2",
		`{"model_type": "bert", "position_embedding_type": "relative"}`: "only \"absolute\" is supported",
		`{"model_type": "bert", "tie_word_embeddings": false}`:          "tie_word_embeddings is false; only true",
		`{"model_type": "distilbert", "qa_dropout": 1.5}`:               "AnswerDropout is 1.5",
		`{"model_type": "bert", "hidden_size": 0}`:                      "hidden_size is 0; want a positive number, or leave it out",
		`{"model_type": "llama", "tie_word_embeddings": false}`:         `model_type is "llama"; want one of`,
	} {
		dir := config(text)
		_, err := auto.MaskedLM(ctx, dir, quiet)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dir)
	}
	_, err := auto.TokenClassification(ctx, config(`{"model_type": "bert", "id2label": {"0": "O"}}`), quiet)
	require.ErrorContains(t, err, "there is one label")
	_, err = auto.MaskedLM(ctx, config(`{"model_type": "mpnet"}`), auto.Options{Attention: "sdpa",
		Warnings: io.Discard})
	require.ErrorContains(t, err, "MPNet adds numbers for distances")
	_, err = auto.MaskedLM(ctx, config(`{"model_type": "bert"}`), quiet)
	require.ErrorContains(t, err, "there are no weights in")
	_, err = auto.MaskedLM(ctx, t.TempDir(), quiet)
	require.ErrorContains(t, err, "holds no model; want config.json beside the weights")
	_, err = auto.MaskedLM(ctx, "no such/folder/or name", quiet)
	require.ErrorContains(t, err, "there is no such folder, and it is no name on the Hub")

	dir, _ := example(t, "BertForTokenClassification")
	m, err := auto.TokenClassification(ctx, dir, quiet)
	require.NoError(t, err)
	_, err = m.Encode([]string{"a"}, []string{"LABEL_0"})
	require.ErrorContains(t, err, "has no tokenizer; want tokenizer.json, BERT's vocab.txt, or")
	_, err = m.Encode([]string{"a"}, []string{"LABEL_9"})
	require.ErrorContains(t, err, `the tag "LABEL_9"; the model has ["LABEL_0"`)
	_, err = m.Encode([]string{"a"}, nil)
	require.ErrorContains(t, err, "1 words and 0 tags")
}

// TestTiedTensorsThatDifferAreRefused loads a file in which the output layer differs from the
// embedding that it is tied to.
func TestTiedTensorsThatDifferAreRefused(t *testing.T) {
	dir, _ := example(t, "DistilBertForMaskedLM")
	path := filepath.Join(dir, "model.safetensors")
	whole, _, err := tensorio.Load(path)
	require.NoError(t, err)
	embedding := "distilbert.embeddings.word_embeddings.weight"
	i := slices.IndexFunc(whole, func(n torch.Named) bool { return n.Name == embedding })
	projector := whole[i].Tensor.Clone()
	whole = append(whole, torch.Named{Name: "vocab_projector.weight", Tensor: projector})

	require.NoError(t, tensorio.Save(path, whole, nil))
	_, err = auto.MaskedLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err, "equal tensors count as one")

	projector.Add_(torch.Ones(1))
	require.NoError(t, tensorio.Save(path, whole, nil))
	_, err = auto.MaskedLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.ErrorContains(t, err, embedding+" and vocab_projector.weight differ")
}

// TestTokenizerGoesWithTheModel checks that Save copies the tokenizer's files, or writes them if
// there are none.
func TestTokenizerGoesWithTheModel(t *testing.T) {
	dir, c := example(t, "BertForTokenClassification")
	tok, err := text.NewBert(map[string]int64{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "in": 5,
		"paris": 6,
		"##s":   7}, text.BertOptions{})
	require.NoError(t, err)
	require.NoError(t, tok.Save(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"model_max_length": 9}`),
		0o600))
	m, err := auto.TokenClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	out := t.TempDir()
	require.NoError(t, m.Task().WriteConfig(out))
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), name)
	}
	s, err := m.Encode([]string{"In", "Pariss"}, []string{"LABEL_0", "LABEL_3"})
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 5, 6, 7, 3}, s.InputIDs)
	assert.Equal(t, []int64{-100, 0, 3, -100, -100}, s.Labels)
	nn.SetTraining(m, true)
	tags, err := m.Predict([]string{"In", "Pariss"})
	require.NoError(t, err)
	assert.Len(t, tags, 2)
	for _, tag := range tags {
		assert.Contains(t, m.Head().ID2Label, tag)
	}
	assert.True(t, m.Training(), "Predict restores the mode")

	m.Tokenizer, err = m.Tokenizer.WithTruncation(&text.Truncation{MaxLength: 3})
	require.NoError(t, err)
	require.NoError(t, m.Save(dir), "its own folder")
	out = t.TempDir()
	require.NoError(t, m.Save(out))
	want, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(out, "tokenizer.json"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "how it is used here is not saved")

	fresh := c.fresh(t).(*auto.TokenClassifier)
	fresh.Tokenizer = tok
	out = t.TempDir()
	require.NoError(t, fresh.Save(out))
	again, err := text.LoadTokenizer(out)
	require.NoError(t, err)
	assert.Equal(t, tok.VocabSize(), again.VocabSize())
}

// TestATokenizerForWordsKeepsItsFiles checks that saving keeps the added prefix space and leaves
// everything else unchanged.
func TestATokenizerForWordsKeepsItsFiles(t *testing.T) {
	dir, _ := example(t, "RobertaForTokenClassification")
	tok, err := text.LoadTokenizer("../../text/testdata/tiny/roberta.json")
	require.NoError(t, err)
	parts := tok.Config()
	parts.PreTokenizer = pretokenizers.ByteLevel{TrimOffsets: true, UseRegex: true}
	tok, err = text.New(parts)
	require.NoError(t, err)
	require.NoError(t, tok.Save(dir))
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("tokenizer_config.json", `{"tokenizer_class": "RobertaTokenizer", "model_max_length": 9,
		"truncation_side": "left", "add_prefix_space": false}`)
	write("special_tokens_map.json", `{"mask_token": {"content": "<mask>"}}`)
	m, err := auto.TokenClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	m.Tokenizer, err = m.Tokenizer.WithTruncation(&text.Truncation{MaxLength: 5})
	require.NoError(t, err)
	out := t.TempDir()
	require.NoError(t, m.Task().WriteConfig(out))

	saved, err := text.LoadTokenizer(out)
	require.NoError(t, err)
	assert.True(t, saved.Config().PreTokenizer.(pretokenizers.ByteLevel).AddPrefixSpace)
	assert.Nil(t, saved.Config().Truncation, "how it is used here is not saved")
	file, err := os.ReadFile(filepath.Join(out, "tokenizer_config.json"))
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(file, &config))
	assert.Equal(t, true, config["add_prefix_space"])
	assert.Equal(t, "PreTrainedTokenizerFast", config["tokenizer_class"])
	assert.Equal(t, "left", config["truncation_side"])
	assert.InDelta(t, 9, config["model_max_length"], 0)
	assert.Equal(t, []any{"input_ids", "attention_mask"}, config["model_input_names"])
	file, err = os.ReadFile(filepath.Join(out, "special_tokens_map.json"))
	require.NoError(t, err)
	assert.Equal(t, `{"mask_token": {"content": "<mask>"}}`, string(file))
}

// TestTheTokenizerThatIsSetIsSaved checks that Save neither writes the tokenizer that was loaded
// nor keeps an older one in the destination folder.
func TestTheTokenizerThatIsSetIsSaved(t *testing.T) {
	words := map[string]int64{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "in": 5}
	small, err := text.NewBert(maps.Clone(words), text.BertOptions{})
	require.NoError(t, err)
	words["paris"] = 6
	large, err := text.NewBert(words, text.BertOptions{})
	require.NoError(t, err)
	saved := func(m *auto.TokenClassifier, dir string) int {
		t.Helper()
		require.NoError(t, m.Save(dir))
		again, err := text.LoadTokenizer(dir)
		require.NoError(t, err)
		return again.VocabSize()
	}

	dir, _ := example(t, "BertForTokenClassification")
	require.NoError(t, small.Save(dir))
	m, err := auto.TokenClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	m.Tokenizer = large
	assert.Equal(t, 7, saved(m, t.TempDir()))

	dir, _ = example(t, "BertForTokenClassification")
	vocab := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nin\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(vocab), 0o600))
	m, err = auto.TokenClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	out := t.TempDir()
	require.NoError(t, large.Save(out))
	assert.Equal(t, 6, saved(m, out))
}

// TestProblemTypeIsForClassifiersOfTexts checks that config.json of other models contains it only
// if the original file did.
func TestProblemTypeIsForClassifiersOfTexts(t *testing.T) {
	given := func(dir string) any {
		file, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		var config map[string]any
		require.NoError(t, json.Unmarshal(file, &config))
		return config["problem_type"]
	}
	dir, _ := example(t, "BertForMaskedLM")
	assert.Nil(t, given(dir))
	m, err := auto.SequenceClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	require.NoError(t, m.Save(dir))
	assert.Equal(t, "single_label_classification", given(dir))
	back, err := auto.MaskedLM(t.Context(), dir, auto.Options{InitMissing: true, Warnings: io.Discard})
	require.NoError(t, err)
	require.NoError(t, back.Save(dir))
	assert.Equal(t, "single_label_classification", given(dir))
}

func TestNegativeCountsAreRefused(t *testing.T) {
	dir, _ := example(t, "BertForMaskedLM")
	masked, err := auto.MaskedLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	_, err = masked.Predict("[MASK]", -1)
	require.ErrorContains(t, err, "-1 words to predict")

	asked, err := auto.QuestionAnswering(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	_, err = asked.Predict("who?", "she", question.AnswerOptions{Best: -1})
	require.ErrorContains(t, err, "Best -1")
}

// If a tokenizer is set to pad, the padding in samples is masked.
func TestPaddingOfTheTokenizerIsMasked(t *testing.T) {
	dir, _ := example(t, "BertForSequenceClassification")
	m, err := auto.SequenceClassification(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	tok, err := text.NewBert(map[string]int64{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "in": 5},
		text.BertOptions{})
	require.NoError(t, err)
	m.Tokenizer, err = tok.WithPadding(&text.Padding{Length: 5, Token: "[PAD]"})
	require.NoError(t, err)
	s, err := m.Encode(text.Single("in"), 1)
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 5, 3, 0, 0}, s.InputIDs)
	assert.Equal(t, []int64{1, 1, 1, 0, 0}, s.AttentionMask)
}

// TestTextsAreCutWhereTheTokenizerSays checks the folder's truncation_side, settings of
// Model.Tokenizer, and the model's maximum length.
func TestTextsAreCutWhereTheTokenizerSays(t *testing.T) {
	dir, _ := example(t, "BertForSequenceClassification")
	tok, err := text.NewBert(map[string]int64{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "in": 5,
		"the": 6, "end": 7}, text.BertOptions{})
	require.NoError(t, err)
	require.NoError(t, tok.Save(dir))
	config := filepath.Join(dir, "tokenizer_config.json")
	load := func(side string) (*auto.SequenceClassifier, error) {
		require.NoError(t, os.WriteFile(config, []byte(`{"truncation_side": "`+side+`"}`), 0o600))
		return auto.SequenceClassification(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	}
	ids := func(m *auto.SequenceClassifier, s string) []int64 {
		sample, err := m.Encode(text.Single(s), 0)
		require.NoError(t, err)
		return sample.InputIDs
	}
	right, err := load("right")
	require.NoError(t, err)
	left, err := load("left")
	require.NoError(t, err)
	limit := int(left.Limits().MaxLength)
	long := "in " + strings.Repeat("the ", limit) + "end"
	assert.EqualValues(t, 5, ids(right, long)[1])
	assert.Len(t, ids(left, long), limit)
	assert.EqualValues(t, 7, ids(left, long)[limit-2])

	right.Tokenizer, err = tok.WithTruncation(&text.Truncation{MaxLength: 4, Direction: text.Left})
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 6, 7, 3}, ids(right, "in the end"))
	right.Tokenizer, err = tok.WithTruncation(&text.Truncation{MaxLength: 2 * limit})
	require.NoError(t, err)
	assert.Len(t, ids(right, long), limit)

	_, err = load("top")
	require.ErrorContains(t, err, `truncation_side is "top", want right or left`)
	require.ErrorContains(t, err, config)
}

// TestMaskTokenIsASpecialToken: MPNet's vocabulary contains BERT's words, including [MASK], which
// was never used as a mask during its training.
func TestMaskTokenIsASpecialToken(t *testing.T) {
	dir, _ := example(t, "MPNetForMaskedLM")
	tok, err := text.NewBert(map[string]int64{"<s>": 0, "<pad>": 1, "</s>": 2, "[UNK]": 3, "[MASK]": 4, "[CLS]": 5,
		"<mask>": 6, "<blank>": 7}, text.BertOptions{Cls: "<s>", Sep: "</s>", Pad: "<pad>", Mask: "<mask>"})
	require.NoError(t, err)
	data, err := tok.MarshalJSON()
	require.NoError(t, err)
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	mask := func() int64 {
		m, err := auto.MaskedLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
		require.NoError(t, err)
		return m.MaskToken()
	}
	write("tokenizer.json", data)
	assert.EqualValues(t, 6, mask())
	write("special_tokens_map.json", []byte(`{"mask_token": {"content": "<blank>", "lstrip": true}}`))
	assert.EqualValues(t, 7, mask())
	write("tokenizer_config.json", []byte(`{"mask_token": "[MASK]"}`))
	assert.EqualValues(t, 4, mask(), "tokenizer_config.json comes first")
	write("tokenizer_config.json", []byte(`{"mask_token": "of another vocabulary"}`))
	assert.EqualValues(t, 6, mask())
}

func TestAModelWithoutATokenizerHasNoMaskToken(t *testing.T) {
	dir, _ := example(t, "BertForMaskedLM")
	m, err := auto.MaskedLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	m.Tokenizer = nil
	assert.EqualValues(t, -1, m.MaskToken())
}
