package crossencoder_test

import (
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
	"github.com/gotrainer/gotrainer/models/crossencoder"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
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

func predicted(t *testing.T, m *crossencoder.CrossEncoder, pairs [][2]string) [][]float32 {
	t.Helper()
	got, err := m.Predict(t.Context(), pairs, crossencoder.PredictOptions{BatchSize: 4})
	require.NoError(t, err)
	return got
}

func TestFolderOfSentenceTransformersIsLoaded(t *testing.T) {
	r := load(t)
	goldencount.Start(t, family, t.Name())
	check := func(dir string) *crossencoder.CrossEncoder {
		m := loaded(t, dir)
		assert.Equal(t, 1, m.NumLabels())
		assert.Equal(t, crossencoder.Tanh, m.ActivationFn)
		assert.Equal(t, 11, m.MaxLength)
		assert.Equal(t, map[string]string{"query": "w20 w21 "}, m.Prompts)
		assert.Equal(t, "query", m.DefaultPromptName)
		r.samePredictions(t, "saved", predicted(t, m, r.Pairs))
		return m
	}
	m := check("testdata/saved")
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	check(dir)
	classifier, err := auto.SequenceClassification(t.Context(), dir, auto.Options{Warnings: quiet{t}})
	require.NoError(t, err)
	assert.EqualValues(t, 1, classifier.Head().NumLabels)
}

// TestOlderFoldersAreLoaded loads settings as versions before 6 wrote them, into config.json.
func TestOlderFoldersAreLoaded(t *testing.T) {
	r := load(t)
	dir := copied(t)
	for _, name := range []string{"modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	m := loaded(t, dir)
	assert.Equal(t, crossencoder.Sigmoid, m.ActivationFn, "the default for one label")
	assert.Equal(t, 11, m.MaxLength, "model_max_length of tokenizer_config.json")
	assert.Empty(t, m.Prompts)

	config := filepath.Join(dir, "config.json")
	rewrite(t, config, `{"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}`)
	assert.Equal(t, crossencoder.Identity, loaded(t, dir).ActivationFn, "version 3")
	rewrite(t, config, `{"sentence_transformers": {"version": "4.1.0", "activation_fn": "torch.nn.modules.activation.Tanh"}}`)
	m = loaded(t, dir)
	assert.Equal(t, crossencoder.Tanh, m.ActivationFn, "version 4")
	m.Prompts, m.DefaultPromptName = map[string]string{"query": "w20 w21 "}, "query"
	r.samePredictions(t, "saved", predicted(t, m, r.Pairs))

	m.ActivationFn = crossencoder.GELU
	require.NoError(t, m.Save(dir))
	var saved map[string]any
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &saved))
	assert.Equal(t, map[string]any{"version": "4.1.0", "activation_fn": "torch.nn.modules.activation.GELU"},
		saved["sentence_transformers"], "no version finds an old activation")
	assert.NotContains(t, saved, "sbert_ce_default_activation_function")
	assert.Equal(t, crossencoder.GELU, loaded(t, dir).ActivationFn)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "0_Transformer"), 0o777))
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
		"sentence_bert_config.json"} {
		require.NoError(t, os.Rename(filepath.Join(dir, name), filepath.Join(dir, "0_Transformer", name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.json"), []byte(`[{"idx": 0, "name": "0",
		"path": "0_Transformer", "type": "sentence_transformers.base.modules.transformer.Transformer"}]`), 0o666))
	rewrite(t, filepath.Join(dir, "0_Transformer/sentence_bert_config.json"), `{"do_lower_case": true, "max_seq_length": 7}`)
	m = loaded(t, dir)
	assert.Equal(t, 7, m.MaxLength)
	got := predicted(t, m, [][2]string{{"W7", "W8 w9"}, {"w7", "w8 w9"}})
	assert.Equal(t, got[0], got[1], "do_lower_case")
	again := t.TempDir()
	require.NoError(t, m.Save(again))
	assert.Equal(t, got, predicted(t, loaded(t, again), [][2]string{{"W7", "W8 w9"}, {"w7", "w8 w9"}}))
}

// TestOtherModelsGetAHead covers the encoder of a model of package sentence, and other labels.
func TestOtherModelsGetAHead(t *testing.T) {
	r := load(t)
	m, err := crossencoder.Load(t.Context(), "../sentence/testdata/saved", auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, 1, m.NumLabels())
	assert.Empty(t, m.Prompts, "those of the other model do not count")
	assert.Contains(t, m.Report.Initialized, "classifier.weight")

	names := []string{"no", "yes"}
	_, err = crossencoder.Load(t.Context(), "testdata/saved", auto.Options{ID2Label: names, Warnings: io.Discard})
	require.ErrorContains(t, err, "InitMismatched")
	m, err = crossencoder.Load(t.Context(), "testdata/saved", auto.Options{ID2Label: names, InitMismatched: true,
		Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, 2, m.NumLabels())
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again := loaded(t, dir)
	assert.Equal(t, names, again.Head().ID2Label)
	assert.Equal(t, predicted(t, m, r.Pairs), predicted(t, again, r.Pairs))
	_, err = again.Rank(t.Context(), "w7", []string{"w8"}, crossencoder.RankOptions{})
	require.ErrorContains(t, err, "the model has 2 labels; want one")
}

func TestModelOfTheHub(t *testing.T) {
	r := load(t)
	server, err := hubtest.New()
	require.NoError(t, err)
	defer server.Close()
	server.AddUser("me", "hf_secret")
	server.CreateRepo(hubtest.Model, "me/tiny", hubtest.Public)
	files := map[string][]byte{"README.md": []byte("a card"), "onnx/model.onnx": []byte("for others")}
	list, err := os.ReadDir("testdata/saved")
	require.NoError(t, err)
	for _, f := range list {
		files[f.Name()], err = os.ReadFile(filepath.Join("testdata/saved", f.Name()))
		require.NoError(t, err)
	}
	server.Commit(hubtest.Model, "me/tiny", "main", files)
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	r.samePredictions(t, "saved", predicted(t, loaded(t, "me/tiny"), r.Pairs))
}

func TestFoldersThatCannotBeServedAreRefused(t *testing.T) {
	load(t)
	const module = `{"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}`
	for _, c := range []struct{ file, settings, want string }{
		{"sentence_bert_config.json", `{"transformer_task": "text-generation"}`, "transformer_task"},
		{"sentence_bert_config.json", `{"modality_config": {"message": {"method": "forward"}}}`, "modality_config"},
		{"sentence_bert_config.json", `{"processing_kwargs": {"text": {}}}`, "processing_kwargs"},
		{"sentence_bert_config.json", `{"max_seq_length": -1}`, "max_seq_length is -1"},
		{"config_sentence_transformers.json", `{"activation_fn": "jina.Custom"}`, "activation_fn is jina.Custom"},
		{"config_sentence_transformers.json", `{"default_prompt_name": "answer"}`, "none of prompts"},
		{"config_sentence_transformers.json", `{"keep_in_fp32_modules": ["0.model.classifier"]}`, "keep_in_fp32_modules"},
		{"config_sentence_transformers.json", `{"model_type": 3}`, "model_type is 3"},
		{"config.json", `{"architectures": ["LlamaForCausalLM"]}`, "LlamaForCausalLM, a language model"},
		{"config.json", `{"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Softmax"}}`,
			"activation_fn is torch.nn.modules.activation.Softmax; want Identity"},
		{"tokenizer_config.json", `{"padding_side": "left"}`, "padding_side is left"},
		{"modules.json", `[]`, "want one Transformer"},
		{"modules.json", `[` + module + `, {"type": "sentence_transformers.base.modules.dense.Dense"}]`, "dense.Dense"},
		{"modules.json", `[` + module + `, ` + module + `, ` + module + `]`, "a Transformer and a LogitScore"},
		{"modules.json", `[{"path": "../0", "type": "sentence_transformers.models.Transformer"}]`, "leads out of the folder"},
		{"modules.json", `[{"path": "", "type": "pylate.models.Transformer"}]`, "pylate.models.Transformer"},
	} {
		t.Run(c.settings, func(t *testing.T) {
			dir := copied(t)
			if path := filepath.Join(dir, c.file); c.file == "modules.json" {
				require.NoError(t, os.WriteFile(path, []byte(c.settings), 0o666))
			} else {
				rewrite(t, path, c.settings)
			}
			_, err := crossencoder.Load(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, filepath.Join(dir, c.file))
		})
	}
	dir := copied(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "modules.json")))
	rewrite(t, filepath.Join(dir, "tokenizer_config.json"), `{"chat_template": "{{ bos_token }}"}`)
	_, err := loaded(t, dir).Predict(t.Context(), [][2]string{{"w7", "w8"}}, crossencoder.PredictOptions{})
	require.ErrorContains(t, err, "the chat template leaves out the query")
	_, err = crossencoder.Load(t.Context(), "ms:MiniLM", auto.Options{})
	require.ErrorContains(t, err, "that model is cross-encoder/ms:MiniLM")
	_, err = crossencoder.New(nil)
	require.ErrorContains(t, err, "the classifier is nil")
}

// counter counts evaluations.
type counter struct {
	crossencoder.Evaluator
	calls int
}

func (c *counter) Evaluate(ctx context.Context, m *crossencoder.CrossEncoder) (map[string]float64, error) {
	c.calls++
	return c.Evaluator.Evaluate(ctx, m)
}

// TestCheckpointIsAFolder checks that every checkpoint of a run, with an adapter and without, can
// be loaded, and that the run can be continued from it, with the same documents of other samples.
func TestCheckpointIsAFolder(t *testing.T) {
	r := load(t)
	for name, adapted := range map[string]bool{"whole": false, "adapter": true} {
		t.Run(name, func(t *testing.T) {
			counting := &counter{Evaluator: crossencoder.CrossEncoderRerankingEvaluator{Samples: r.Samples,
				EvaluatorOptions: crossencoder.EvaluatorOptions{Name: "dev"}}}
			train := func(dir, from string) (*crossencoder.CrossEncoder, *trainer.Result) {
				m := loaded(t, "testdata/saved")
				if adapted {
					torch.ManualSeed(3)
					require.NoError(t, m.AddLoRA(lora.Config{R: 2, Dropout: 0.1}))
				}
				task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{
					Loss: crossencoder.MultipleNegativesRankingLoss{NumNegatives: 2}, Evaluators: []crossencoder.Evaluator{counting}})
				require.NoError(t, err)
				step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
				require.NoError(t, err)
				fit, err := trainer.New(step, trainer.Options{MaxSteps: 4, BatchSize: 8, OutputDir: dir, Progress: io.Discard,
					Eval: trainer.Every(2, trainer.Update), Save: trainer.Every(2, trainer.Update), ResumeFrom: from})
				require.NoError(t, err)
				all := r.samples(samples{Documents: 2})
				result, err := fit.Fit(t.Context(), data.Slice[crossencoder.Sample](all), data.Slice[crossencoder.Sample](all[:8]))
				require.NoError(t, err)
				return m, result
			}
			dir := t.TempDir()
			m, result := train(dir, "")
			assert.Equal(t, 2, counting.calls, "once for each evaluation")
			for _, name := range []string{"eval_loss", "eval_dev_map", "eval_dev_ndcg@10", "eval_dev_base_mrr@10"} {
				assert.Contains(t, result.Best.Metrics, name)
			}
			file := map[bool]string{true: "adapter_model.safetensors", false: "model.safetensors"}[adapted]
			assert.FileExists(t, filepath.Join(dir, "checkpoint-4", file))
			again := loaded(t, filepath.Join(dir, "checkpoint-4"))
			assert.Equal(t, predicted(t, m, r.Pairs), predicted(t, again, r.Pairs))
			assert.Equal(t, crossencoder.Tanh, again.ActivationFn)
			half := loaded(t, filepath.Join(dir, "checkpoint-2"))
			assert.NotEqual(t, predicted(t, half, r.Pairs), predicted(t, m, r.Pairs))
			resumed, _ := train(t.TempDir(), filepath.Join(dir, "checkpoint-2"))
			assert.Equal(t, predicted(t, resumed, r.Pairs), predicted(t, m, r.Pairs))
			if adapted {
				require.NoError(t, again.MergeLoRA())
				merged := t.TempDir()
				require.NoError(t, again.Save(merged))
				assert.Equal(t, predicted(t, again, r.Pairs), predicted(t, loaded(t, merged), r.Pairs))
			}
		})
	}
}
