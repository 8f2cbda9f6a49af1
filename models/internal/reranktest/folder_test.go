package reranktest_test

import (
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/crossencoder"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// quiet fails the test if loading writes a warning.
type quiet struct{ t *testing.T }

func (q quiet) Write(text []byte) (int, error) {
	q.t.Errorf("loading says: %s", text)
	return len(text), nil
}

func loaded(t *testing.T, dir string) *crossencoder.CrossEncoder {
	t.Helper()
	m, err := crossencoder.Load(t.Context(), dir, auto.Options{Warnings: quiet{t}})
	require.NoError(t, err)
	return m
}

func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/saved")))
	return dir
}

// settings reads a JSON file.
func settings(t *testing.T, path string) (all map[string]any) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &all))
	return all
}

// rewrite changes settings in a JSON file; null removes one.
func rewrite(t *testing.T, path, changes string) {
	t.Helper()
	all := settings(t, path)
	require.NoError(t, json.Unmarshal([]byte(changes), &all))
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	content, err := json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

func predicted(t *testing.T, m *crossencoder.CrossEncoder, pairs [][2]string, prompt string) [][]float32 {
	t.Helper()
	got, err := m.Predict(t.Context(), pairs, crossencoder.PredictOptions{BatchSize: 4, PromptName: prompt})
	require.NoError(t, err)
	return got
}

func TestFolderLikeQwen3Reranker(t *testing.T) {
	r := load(t)
	goldencount.Start(t, family, t.Name())
	check := func(dir string) *crossencoder.CrossEncoder {
		m := loaded(t, dir)
		assert.Equal(t, &crossencoder.LogitScore{TrueTokenID: 4, FalseTokenID: new(int64(5))}, m.LogitScore)
		assert.Equal(t, &crossencoder.Messages{AddGenerationPrompt: true}, m.Messages)
		assert.Equal(t, crossencoder.Identity, m.ActivationFn)
		assert.Equal(t, 32, m.MaxLength)
		assert.Equal(t, map[string]string{"search": "w7 w8 w9", "classify": "w10"}, m.Prompts)
		assert.Equal(t, "search", m.DefaultPromptName)
		golden.Recorded(t, "scores", column(predicted(t, m, r.Equal, "")), r.values.Tensor("saved"))
		return m
	}
	m := check("testdata/saved")
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	check(dir)
	for _, name := range []string{"modules.json", "1_LogitScore/config.json"} {
		want, err := os.ReadFile(filepath.Join("testdata/saved", name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		same := strings.ReplaceAll(string(got), "sentence_transformers.models.Transformer",
			"sentence_transformers.base.modules.transformer.Transformer")
		assert.JSONEq(t, string(want), same, name)
	}
	want, got := settings(t, "testdata/saved/sentence_bert_config.json"),
		settings(t, filepath.Join(dir, "sentence_bert_config.json"))
	for _, key := range []string{"transformer_task", "module_output_name", "modality_config", "processing_kwargs"} {
		assert.Equal(t, want[key], got[key], key)
	}
}

// TestScoresDoNotDependOnTheBatch, up to rounding: they are those of Python, which pads on the left,
// and those of a pair alone, and without padding.
func TestScoresDoNotDependOnTheBatch(t *testing.T) {
	r := load(t)
	m := loaded(t, "testdata/saved")
	all := predicted(t, m, r.Ragged, "classify")
	assert.InDelta(t, 0, column(all).Sub(r.values.Tensor("saved, ragged")).Abs().Max().Item(), 1e-5)
	require.NoError(t, m.SetPaddingFree(true))
	free := predicted(t, m, r.Ragged, "classify")
	for i, pair := range r.Ragged {
		one := predicted(t, m, [][2]string{pair}, "classify")
		assert.InDelta(t, all[i][0], one[0][0], 1e-5)
		assert.InDelta(t, all[i][0], free[i][0], 1e-5)
	}
	ranking, err := m.Rank(t.Context(), r.Rows[0].Query, r.Rows[0].Documents, crossencoder.RankOptions{})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, ranking[0].Score, ranking[2].Score)
}

// TestFolderOfALanguageModel has no modules.json: the words are yes and no, and the template writes
// pairs.
func TestFolderOfALanguageModel(t *testing.T) {
	r := load(t)
	m := loaded(t, "testdata/saved")
	dir := copied(t)
	for _, name := range []string{"modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	plain := loaded(t, dir)
	assert.Equal(t, m.LogitScore, plain.LogitScore)
	assert.Equal(t, &crossencoder.Messages{}, plain.Messages)
	assert.Equal(t, 32, plain.MaxLength)
	assert.Equal(t, crossencoder.Sigmoid, plain.ActivationFn)
	plain.Messages, plain.ActivationFn = m.Messages, m.ActivationFn
	m.DefaultPromptName = ""
	assert.Equal(t, predicted(t, m, r.Ragged, ""), predicted(t, plain, r.Ragged, ""))

	words := auto.Options{ID2Label: []string{"no", "yes"}, Warnings: io.Discard}
	_, err := crossencoder.Load(t.Context(), dir, words)
	require.ErrorContains(t, err, "gives a pair one score")
	_, err = auto.CrossEncoder(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.ErrorContains(t, err, "crossencoder.NewWithLogitScore")

	// A template that only chats drops pairs, but they can be joined as they are.
	template := filepath.Join(dir, "chat_template.jinja")
	for source, want := range map[string]string{
		"{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}": "leaves out the query",
		"{% for m in messages %}{% if m.role != 'document' %}{{ m.content }}{% endif %}{% endfor %}": "leaves out the " +
			"document",
		"{{ raise_exception('roles must alternate') }}": "roles must alternate",
	} {
		require.NoError(t, os.WriteFile(template, []byte(source), 0o600))
		chats := loaded(t, dir)
		_, err = chats.Predict(t.Context(), r.Equal, crossencoder.PredictOptions{})
		require.ErrorContains(t, err, want)
		_, err = crossencoder.NewTask(chats, crossencoder.TaskOptions{})
		require.ErrorContains(t, err, want)
		chats.Messages = nil
		predicted(t, chats, r.Equal, "")
	}
	require.NoError(t, os.Remove(template))
	joined := loaded(t, dir)
	assert.Nil(t, joined.Messages)
	saved := t.TempDir()
	require.NoError(t, joined.Save(saved))
	again := loaded(t, saved)
	assert.Nil(t, again.Messages)
	assert.Equal(t, predicted(t, joined, r.Equal, ""), predicted(t, again, r.Equal, ""))
	joined.ChatTemplate, err = chat.Parse(r.Templates["structured"])
	require.NoError(t, err)
	joined.Messages = crossencoder.MessagesFor(joined.ChatTemplate)
	assert.Equal(t, &crossencoder.Messages{Structured: true}, joined.Messages)
	joined.Messages.Variables = map[string]any{"thinking": 40}
	require.NoError(t, joined.Save(saved))
	again = loaded(t, saved)
	assert.True(t, again.Messages.Structured)
	assert.Equal(t, predicted(t, joined, r.Equal, ""), predicted(t, again, r.Equal, ""))
	joined.Messages.Variables = map[string]any{"truncation": true}
	require.ErrorContains(t, joined.Save(saved), "Messages.Variables has truncation")
}

func TestFoldersThatCannotBeServedAreRefused(t *testing.T) {
	load(t)
	for _, c := range []struct{ file, changes, want string }{
		{"1_LogitScore/config.json", `{"true_token_id": 65}`, "true_token_id is 65; want an id below"},
		{"1_LogitScore/config.json", `{"false_token_id": -1}`, "false_token_id is -1"},
		{"1_LogitScore/config.json", `{"false_token_id": 4}`, "are both 4"},
		{"1_LogitScore/config.json", `{"true_token_id": null}`, "true_token_id is missing"},
		{"1_LogitScore/config.json", `{"module_input_name": "scores"}`, `module_input_name is "scores"`},
		{"sentence_bert_config.json", `{"transformer_task": null}`, "transformer_task is missing"},
		{"sentence_bert_config.json", `{"transformer_task": "feature-extraction"}`, "transformer_task is"},
		{"sentence_bert_config.json", `{"module_output_name": "logits"}`, "module_output_name"},
		{"sentence_bert_config.json", `{"modality_config": {"text": {"method": "forward", "method_output_name": "logits"},
			"message": {"method": "forward", "method_output_name": "logits", "format": "round"}}}`, `format is "round"`},
		{"sentence_bert_config.json", `{"modality_config": {"text": {"method": "forward", "method_output_name": "logits"},
			"message": {"method": "generate", "method_output_name": "logits"}}}`, "only the same is supported"},
		{"sentence_bert_config.json", `{"modality_config": {"message": {"method": "forward"}}}`, "says nothing of text"},
		{"sentence_bert_config.json", `{"processing_kwargs": {"text": {"max_length": 8}}}`, "processing_kwargs"},
		{"sentence_bert_config.json", `{"processing_kwargs": {"chat_template": {"truncation": false}}}`, "truncation"},
		{"sentence_bert_config.json", `{"processing_kwargs": {"chat_template": {"add_generation_prompt": 1}}}`,
			"want true or false"},
		{"tokenizer_config.json", `{"pad_token": null}`, "has no pad_token"},
	} {
		t.Run(c.want, func(t *testing.T) {
			dir := copied(t)
			rewrite(t, filepath.Join(dir, c.file), c.changes)
			_, err := crossencoder.Load(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.ErrorContains(t, err, c.want)
		})
	}
	refused := func(dir string) error {
		_, err := crossencoder.Load(t.Context(), dir, auto.Options{Warnings: io.Discard})
		return err
	}
	dir := copied(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "1_LogitScore/config.json")))
	require.ErrorIs(t, refused(dir), os.ErrNotExist)
	dir = copied(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "sentence_bert_config.json")))
	require.ErrorContains(t, refused(dir), "transformer_task is missing")
	dir = copied(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "chat_template.jinja")))
	require.ErrorContains(t, refused(dir), "has no chat template")
	dir = copied(t)
	modules, err := os.ReadFile(filepath.Join(dir, "modules.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.json"), []byte(strings.ReplaceAll(string(modules),
		"LogitScore", "Dense")), 0o600))
	require.ErrorContains(t, refused(dir), "a Transformer and a LogitScore")
	dir = copied(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "modules.json")))
	tokenizer, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(strings.Replace(string(tokenizer),
		`"yes"`, `"Yes"`, 1)), 0o600))
	require.ErrorContains(t, refused(dir), `no token "yes"`)
}

func TestLanguageModelsThatCannotScoreAreRefused(t *testing.T) {
	r := load(t)
	_, err := crossencoder.NewWithLogitScore(nil, crossencoder.LogitScore{})
	require.ErrorContains(t, err, "the language model is nil")
	_, err = crossencoder.LogitScoreOf(nil, "yes", "no")
	require.ErrorContains(t, err, "is nil")
	m := loaded(t, "testdata/saved")
	lm := &auto.CausalLanguageModel{Model: m.Model}
	_, err = crossencoder.LogitScoreOf(lm, "yes", "never")
	require.ErrorContains(t, err, `no token "never"`)
	_, err = crossencoder.NewWithLogitScore(lm, crossencoder.LogitScore{TrueTokenID: -3})
	require.ErrorContains(t, err, "true_token_id is -3")

	// The template and the prompt write 10 tokens before a pair, and 6 after it.
	m.MaxLength = 17
	predicted(t, m, r.Ragged, "search")
	m.MaxLength = 16
	predicted(t, m, r.Ragged, "classify")
	_, err = m.Predict(t.Context(), r.Ragged, crossencoder.PredictOptions{})
	require.ErrorContains(t, err, "MaxLength leaves 16 tokens, but what the chat template and the prompt write around a "+
		"pair has 16 already")
	m.ChatTemplate = nil
	_, err = m.Predict(t.Context(), r.Ragged, crossencoder.PredictOptions{})
	require.ErrorContains(t, err, "the model has no chat template")
	_, err = crossencoder.NewTask(loaded(t, "testdata/saved"), crossencoder.TaskOptions{
		Loss: crossencoder.CrossEntropyLoss{}})
	require.ErrorContains(t, err, "one label")
}

// TestCheckpointOfARunIsLoaded, with an adapter and without, in bf16 and without padding.
func TestCheckpointOfARunIsLoaded(t *testing.T) {
	r := load(t)
	for name, adapted := range map[string]bool{"whole": false, "adapter": true} {
		t.Run(name, func(t *testing.T) {
			m := loaded(t, "testdata/saved")
			if adapted {
				require.NoError(t, m.AddLoRA(lora.Config{R: 2, Init: lora.InitRandom}))
			}
			require.NoError(t, m.SetPaddingFree(true))
			task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: crossencoder.MultipleNegativesRankingLoss{}})
			require.NoError(t, err)
			step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-3}, Precision: amp.BF16})
			require.NoError(t, err)
			dir := t.TempDir()
			fit, err := trainer.New(step, trainer.Options{MaxSteps: 3, BatchSize: 4, OutputDir: dir, Progress: io.Discard,
				Save: trainer.Every(3, trainer.Update)})
			require.NoError(t, err)
			all := samples(r.Uneven, trained{Documents: 2})
			_, err = fit.Fit(t.Context(), data.Slice[crossencoder.Sample](all), nil)
			require.NoError(t, err)
			again := loaded(t, filepath.Join(dir, "checkpoint-3"))
			require.NoError(t, again.SetPaddingFree(true))
			want := predicted(t, m, r.Ragged, "")
			assert.Equal(t, want, predicted(t, again, r.Ragged, ""))
			assert.NotEqual(t, want, predicted(t, loaded(t, "testdata/saved"), r.Ragged, ""))
			assert.Equal(t, m.LogitScore, again.LogitScore)
			assert.Equal(t, m.Messages, again.Messages)
			assert.Equal(t, m.Prompts, again.Prompts)
			assert.Equal(t, adapted, again.LoRA() != nil)
			if adapted {
				require.NoError(t, again.MergeLoRA())
				merged := t.TempDir()
				require.NoError(t, again.Save(merged))
				assert.InDelta(t, 0, column(want).Sub(column(predicted(t, loaded(t, merged), r.Ragged, ""))).Abs().Max().Item(),
					1e-5)
			}
		})
	}
}

func TestModelOfTheHub(t *testing.T) {
	r := load(t)
	server, err := hubtest.New()
	require.NoError(t, err)
	defer server.Close()
	server.AddUser("me", "hf_secret")
	server.CreateRepo(hubtest.Model, "me/reranker", hubtest.Public)
	files := map[string][]byte{"README.md": []byte("a card")}
	require.NoError(t, fs.WalkDir(os.DirFS("testdata/saved"), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[path], err = os.ReadFile(filepath.Join("testdata/saved", path))
		}
		return err
	}))
	server.Commit(hubtest.Model, "me/reranker", "main", files)
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	assert.Equal(t, predicted(t, loaded(t, "testdata/saved"), r.Equal, ""),
		predicted(t, loaded(t, "me/reranker"), r.Equal, ""))
}

// TestWeightsInFourBits have the adapter above them learn.
func TestWeightsInFourBits(t *testing.T) {
	r := load(t)
	m, err := crossencoder.Load(t.Context(), "testdata/saved", auto.Options{Warnings: io.Discard,
		Quantize: &quantized.Config{Type: quantized.NF4}})
	require.NoError(t, err)
	before := predicted(t, m, r.Equal, "")
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: crossencoder.ListNetLoss{}})
	require.NoError(t, err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
	require.NoError(t, err)
	fit, err := trainer.New(step, trainer.Options{MaxSteps: 3, BatchSize: 6, Save: trainer.Never, Progress: io.Discard})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), data.Slice[crossencoder.Sample](samples(r.Uneven, trained{Label: "labels"})), nil)
	require.NoError(t, err)
	assert.NotEqual(t, before, predicted(t, m, r.Equal, ""))
}
