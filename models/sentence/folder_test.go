package sentence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/sentence"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// quiet fails the test if loading writes a warning.
type quiet struct{ t *testing.T }

func (q quiet) Write(text []byte) (int, error) {
	q.t.Errorf("loading says: %s", text)
	return len(text), nil
}

func loaded(t *testing.T, dir string) *sentence.Transformer {
	t.Helper()
	m, err := sentence.Load(t.Context(), dir, auto.Options{Warnings: quiet{t}})
	require.NoError(t, err)
	return m
}

func TestFolderOfSentenceTransformersIsLoaded(t *testing.T) {
	r := load(t)
	goldencount.Start(t, "sentence", t.Name())
	m := loaded(t, "testdata/saved")
	assert.Equal(t, 9, m.MaxSeqLength)
	assert.Equal(t, []sentence.PoolingMode{sentence.Mean, sentence.CLS}, m.Pooling.Modes)
	assert.True(t, m.Pooling.ExcludePrompt)
	assert.Equal(t, map[string]string{"query": "w20 w21 ", "passage": "w22 "}, m.Prompts)
	assert.Equal(t, "query", m.DefaultPromptName)
	assert.Equal(t, sentence.Dot, m.SimilarityFn)
	require.Len(t, m.Modules, 2)
	assert.Equal(t, 8, m.EmbeddingDimension())
	check := func(m *sentence.Transformer) {
		got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{BatchSize: 4})
		require.NoError(t, err)
		r.sameEmbeddings(t, "saved", got)
		got, err = m.EncodeDocument(t.Context(), r.Texts, sentence.EncodeOptions{BatchSize: 4})
		require.NoError(t, err)
		r.sameEmbeddings(t, "saved.document", got)
	}
	check(m)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again := loaded(t, dir)
	check(again)
	assert.Equal(t, m.Prompts, again.Prompts)
	assert.Equal(t, m.Pooling, again.Pooling)
	assert.Equal(t, m.MaxSeqLength, again.MaxSeqLength)
}

// rewrite changes settings in a JSON file.
func rewrite(t *testing.T, path string, settings string) {
	t.Helper()
	all := map[string]any{}
	if old, err := os.ReadFile(path); err == nil {
		require.NoError(t, json.Unmarshal(old, &all))
	}
	require.NoError(t, json.Unmarshal([]byte(settings), &all))
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o666))
}

func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/saved")))
	return dir
}

// TestOlderFoldersAreLoaded loads settings written by sentence-transformers 2, with the encoder in
// its own folder.
func TestOlderFoldersAreLoaded(t *testing.T) {
	r := load(t)
	dir := copied(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "1_Pooling/config.json")))
	rewrite(t, filepath.Join(dir, "1_Pooling/config.json"), `{"word_embedding_dimension": 32, "pooling_mode_cls_token": false,
		"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true, "pooling_mode_mean_sqrt_len_tokens": false}`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.json"), []byte(`[
		{"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
		{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
		{"idx": 2, "name": "2", "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}]`), 0o666))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "3_Normalize")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "0_Transformer"), 0o777))
	require.NoError(t, os.Remove(filepath.Join(dir, "sentence_bert_config.json")))
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} {
		require.NoError(t, os.Rename(filepath.Join(dir, name), filepath.Join(dir, "0_Transformer", name)))
	}
	rewrite(t, filepath.Join(dir, "0_Transformer/sentence_distilbert_config.json"),
		`{"max_seq_length": 7, "do_lower_case": true}`)
	m := loaded(t, dir)
	assert.Equal(t, []sentence.PoolingMode{sentence.Max, sentence.Mean}, m.Pooling.Modes)
	assert.False(t, m.Pooling.ExcludePrompt)
	assert.Equal(t, 7, m.MaxSeqLength)
	upper, err := m.Text("", "W7 W8 w9 w9 w9 w9 w9 w9")
	require.NoError(t, err)
	lower, err := m.Text("", "w7 w8 w9 w9 w9 w9 w9 w9")
	require.NoError(t, err)
	assert.Equal(t, lower, upper, "do_lower_case")
	assert.Len(t, lower.InputIDs, 7)

	saved := t.TempDir()
	require.NoError(t, m.Save(saved))
	again := loaded(t, saved)
	assert.Equal(t, m.Pooling, again.Pooling)
	want, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	got, err := again.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestEncoderWithoutModulesIsAveraged(t *testing.T) {
	r := load(t)
	dir := copied(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "modules.json")))
	m := loaded(t, dir)
	assert.Equal(t, sentence.Pooling{}, m.Pooling)
	assert.Equal(t, 9, m.MaxSeqLength, "model_max_length of tokenizer_config.json")
	assert.Empty(t, m.Modules)
	got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	assert.Len(t, got[0], 32)
}

func TestModelOfTheHub(t *testing.T) {
	r := load(t)
	server, err := hubtest.New()
	require.NoError(t, err)
	defer server.Close()
	server.AddUser("me", "hf_secret")
	server.CreateRepo(hubtest.Model, "me/tiny", hubtest.Public)
	files := map[string][]byte{"README.md": []byte("a card"), "onnx/model.onnx": []byte("for others")}
	require.NoError(t, filepath.WalkDir("testdata/saved", func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel("testdata/saved", path)
			files[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	}))
	server.Commit(hubtest.Model, "me/tiny", "main", files)
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	m := loaded(t, "me/tiny")
	got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{BatchSize: 4})
	require.NoError(t, err)
	r.sameEmbeddings(t, "saved", got)
}

func TestFoldersThatCannotBeServedAreRefused(t *testing.T) {
	load(t)
	for _, c := range []struct{ file, settings, want string }{
		{"1_Pooling/config.json", `{"pooling_mode": "median"}`, `there is no pooling mode "median"`},
		{"1_Pooling/config.json", `{"pooling_mode": 3}`, "pooling_mode is 3"},
		{"1_Pooling/config.json", `{"embedding_dimension": 33}`, "embedding_dimension is 33"},
		{"1_Pooling/config.json", `{"other": 1}`, "other is 1, an unknown setting"},
		{"2_Dense/config.json", `{"activation_function": "os.system"}`, "activation_function is os.system"},
		{"2_Dense/config.json", `{"module_input_name": "token_embeddings"}`, "module_input_name"},
		{"2_Dense/config.json", `{"in_features": 63}`, "shape"},
		{"2_Dense/config.json", `{"out_features": 9}`, "shape"},
		{"3_Normalize/config.json", `{"module_input_name": "token_embeddings"}`, "module_input_name"},
		{"sentence_bert_config.json", `{"transformer_task": "fill-mask"}`, "transformer_task"},
		{"sentence_bert_config.json", `{"query_expansion": {"length": 32}}`, "query_expansion"},
		{"sentence_bert_config.json", `{"max_seq_length": -1}`, "max_seq_length is -1"},
		{"config_sentence_transformers.json", `{"model_type": "CrossEncoder"}`, "model_type"},
		{"config_sentence_transformers.json", `{"similarity_fn_name": "maxsim"}`, `no similarity function "maxsim"`},
		{"config_sentence_transformers.json", `{"default_prompt_name": "answer"}`, "none of prompts"},
		{"config_sentence_transformers.json", `{"truncate_dim": -2}`, "truncate_dim is -2"},
	} {
		t.Run(c.settings, func(t *testing.T) {
			dir := copied(t)
			rewrite(t, filepath.Join(dir, c.file), c.settings)
			_, err := sentence.Load(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, dir)
		})
	}
	for name, c := range map[string]struct{ modules, want string }{
		"another module":  {`"type": "sentence_transformers.models.LSTM", "path": "2_LSTM"`, "sentence_transformers.models.LSTM"},
		"another package": {`"type": "pylate.models.Dense", "path": "2_Dense"`, "pylate.models.Dense"},
		"outside":         {`"type": "sentence_transformers.models.Dense", "path": "../2_Dense"`, "leads out of the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.json"), []byte(`[
				{"path": "", "type": "sentence_transformers.models.Transformer"},
				{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}, {`+c.modules+`}]`), 0o666))
			_, err := sentence.Load(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "modules.json")
		})
	}
	t.Run("no pooling", func(t *testing.T) {
		dir := copied(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.json"), []byte(`[]`), 0o666))
		_, err := sentence.Load(t.Context(), dir, auto.Options{Warnings: io.Discard})
		require.ErrorContains(t, err, "want a Transformer, a Pooling")
	})
}

// counter counts evaluations.
type counter struct {
	sentence.Evaluator
	calls int
}

func (c *counter) Evaluate(ctx context.Context, m *sentence.Transformer) (map[string]float64, error) {
	c.calls++
	return c.Evaluator.Evaluate(ctx, m)
}

// TestCheckpointIsAFolder checks that every checkpoint of a run can be loaded, and that the run can
// be continued from it.
func TestCheckpointIsAFolder(t *testing.T) {
	r := load(t)
	counting := &counter{Evaluator: sentence.TripletEvaluator{Anchors: []string{"w7"}, Positives: []string{"w7 w7"},
		Negatives: []string{"w20 w21"}, EvaluatorOptions: sentence.EvaluatorOptions{Name: "dev"}}}
	train := func(m *sentence.Transformer, dir, from string) *trainer.Result {
		task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: sentence.MultipleNegativesRankingLoss{},
			Evaluators: []sentence.Evaluator{counting}})
		require.NoError(t, err)
		step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
		require.NoError(t, err)
		fit, err := trainer.New(step, trainer.Options{MaxSteps: 4, BatchSize: 8, OutputDir: dir, Progress: io.Discard,
			Eval: trainer.Every(2, trainer.Update), Save: trainer.Every(2, trainer.Update), ResumeFrom: from})
		require.NoError(t, err)
		samples := r.samples(t, m, 2, "", nil)
		result, err := fit.Fit(t.Context(), data.Slice[sentence.Sample](samples), data.Slice[sentence.Sample](samples[:8]))
		require.NoError(t, err)
		return result
	}
	encode := func(m *sentence.Transformer) [][]float32 {
		got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
		require.NoError(t, err)
		return got
	}
	dir := t.TempDir()
	m := loaded(t, "testdata/saved")
	result := train(m, dir, "")
	assert.Equal(t, 2, counting.calls, "once for each evaluation")
	assert.Contains(t, result.Best.Metrics, "eval_loss")
	assert.Contains(t, result.Best.Metrics, "eval_dev_dot_accuracy")
	again := loaded(t, filepath.Join(dir, "checkpoint-4"))
	assert.Equal(t, encode(m), encode(again))
	half := loaded(t, filepath.Join(dir, "checkpoint-2"))
	assert.NotEqual(t, encode(half), encode(m))
	train(half, t.TempDir(), filepath.Join(dir, "checkpoint-2"))
	assert.Equal(t, 3, counting.calls)
	assert.Equal(t, encode(half), encode(m))
}

func TestAdapterIsSavedAndLoaded(t *testing.T) {
	r := load(t)
	m := loaded(t, "testdata/saved")
	require.ErrorContains(t, m.AddLoRA(lora.Config{R: 2}), "module 2 is a Dense layer")

	base, err := sentence.New(m.EncoderModel, sentence.Pooling{})
	require.NoError(t, err)
	baseDir, dir := t.TempDir(), t.TempDir()
	require.NoError(t, base.Save(baseDir))
	adapted := loaded(t, baseDir)
	require.NoError(t, adapted.AddLoRA(lora.Config{R: 2, Init: lora.InitRandom}))
	require.NoError(t, adapted.Save(dir))
	want, err := adapted.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	got, err := loaded(t, dir).Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestLoadedTellsWhatItDidNotFind(t *testing.T) {
	load(t)
	dir := copied(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "tokenizer.json")))
	var told bytes.Buffer
	m, err := sentence.Load(t.Context(), dir, auto.Options{Warnings: &told})
	require.NoError(t, err)
	assert.Contains(t, told.String(), "has no tokenizer")
	_, err = m.Encode(t.Context(), []string{"w7"}, sentence.EncodeOptions{})
	require.ErrorContains(t, err, "has no tokenizer")

	_, err = sentence.Load(t.Context(), filepath.Join(dir, "nothing"), auto.Options{})
	require.ErrorContains(t, err, "no such folder")
	_, err = sentence.Load(t.Context(), "all:MiniLM", auto.Options{})
	require.ErrorContains(t, err, "that model is sentence-transformers/all:MiniLM")
}
