package embedtest_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/sentence"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
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

func loaded(t *testing.T, dir string) *sentence.Transformer {
	t.Helper()
	m, err := sentence.Load(t.Context(), dir, auto.Options{Warnings: quiet{t}})
	require.NoError(t, err)
	return m
}

// copied returns a copy of a recorded folder.
func copied(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	return dir
}

// rewrite changes settings in a JSON file; nil removes one.
func rewrite(t *testing.T, path string, settings map[string]any) {
	t.Helper()
	all := map[string]any{}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &all))
	for key, value := range settings {
		if all[key] = value; value == nil {
			delete(all, key)
		}
	}
	content, err = json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// config reads the config.json of a folder.
func config(t *testing.T, dir string) (all map[string]any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &all))
	return all
}

// TestFolderLikeQwen3Embedding was encoded with padding on the left, for which the tokenizer asks:
// the same embeddings but for the rounding of rotary positions.
func TestFolderLikeQwen3Embedding(t *testing.T) {
	r := load(t)
	m := loaded(t, "testdata/qwen3")
	assert.Equal(t, 9, m.MaxSeqLength)
	assert.Equal(t, lastToken, m.Pooling)
	assert.Equal(t, []sentence.Module{sentence.Normalize{}}, m.Modules)
	assert.Equal(t, map[string]string{"query": "w20 w21 ", "document": ""}, m.Prompts)
	assert.Equal(t, "Qwen3Model", m.Architecture())
	check := func(m *sentence.Transformer) (query [][]float32) {
		query, err := m.EncodeQuery(t.Context(), r.Texts, sentence.EncodeOptions{BatchSize: 4})
		require.NoError(t, err)
		near(t, r.values.Tensor("qwen3.query"), query, 1e-6)
		got, err := m.EncodeDocument(t.Context(), r.Texts, sentence.EncodeOptions{BatchSize: 4})
		require.NoError(t, err)
		near(t, r.values.Tensor("qwen3.document"), got, 1e-6)
		return query
	}
	want := check(m)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	assert.Equal(t, want, check(loaded(t, dir)))
	assert.Equal(t, []any{"Qwen3Model"}, config(t, dir)["architectures"])

	// An embedding is the same in every bit, whatever its batch.
	for i, text := range r.Texts {
		one, err := m.EncodeQuery(t.Context(), []string{text}, sentence.EncodeOptions{})
		require.NoError(t, err)
		assert.InDeltaSlice(t, want[i], one[0], 1e-6)
	}
}

func TestFolderLikeEmbeddingGemma(t *testing.T) {
	r := load(t)
	goldencount.Start(t, "sentence", t.Name())
	m := loaded(t, "testdata/gemma3")
	assert.Equal(t, 24, m.EmbeddingDimension())
	check := func(m *sentence.Transformer) {
		got, err := m.EncodeQuery(t.Context(), r.Texts, sentence.EncodeOptions{BatchSize: 4})
		require.NoError(t, err)
		golden.Recorded(t, "query", matrix(got), r.values.Tensor("gemma3.query"))
		got, err = m.EncodeDocument(t.Context(), r.Texts, sentence.EncodeOptions{BatchSize: 4})
		require.NoError(t, err)
		golden.Recorded(t, "document", matrix(got), r.values.Tensor("gemma3.document"))
	}
	check(m)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	check(loaded(t, dir))
	for _, key := range []string{"sliding_window", "use_bidirectional_attention", "layer_types"} {
		assert.Equal(t, config(t, "testdata/gemma3")[key], config(t, dir)[key], key)
	}
	require.ErrorContains(t, m.AddLoRA(lora.Config{}), "module 2 is a Dense layer")
}

// TestFilesOfALanguageModel have a prefix before the names of weights, and an output layer. Without
// modules.json, the last token is the embedding.
func TestFilesOfALanguageModel(t *testing.T) {
	r := load(t)
	dir := copied(t, "qwen3")
	rewrite(t, filepath.Join(dir, "config.json"), map[string]any{"architectures": []string{"Qwen3ForCausalLM"}})
	for _, tied := range []bool{true, false} {
		rewrite(t, filepath.Join(dir, "config.json"), map[string]any{"tie_word_embeddings": tied})
		torch.ManualSeed(3)
		lm, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
		require.NoError(t, err)
		files := t.TempDir()
		require.NoError(t, lm.Save(files))
		m, err := sentence.Load(t.Context(), files, auto.Options{Warnings: io.Discard})
		require.NoError(t, err)
		assert.Equal(t, lastToken, m.Pooling)
		assert.Equal(t, 9, m.MaxSeqLength)
		var unused []string
		for _, u := range m.Report.Unexpected {
			unused = append(unused, u.Name)
		}
		assert.Equal(t, map[bool][]string{false: {"lm_head.weight"}}[tied], unused)
		assert.Empty(t, m.Report.Missing)
		want, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
		require.NoError(t, err)
		saved := t.TempDir()
		require.NoError(t, m.Save(saved))
		assert.Equal(t, []any{"Qwen3Model"}, config(t, saved)["architectures"])
		got, err := loaded(t, saved).Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// TestCheckpointOfARunIsLoaded, with an adapter and without.
func TestCheckpointOfARunIsLoaded(t *testing.T) {
	r := load(t)
	for _, adapter := range []bool{false, true} {
		m := loaded(t, "testdata/qwen3")
		if adapter {
			require.NoError(t, m.AddLoRA(lora.Config{R: 2, Init: lora.InitRandom}))
		}
		task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: sentence.MultipleNegativesRankingLoss{}})
		require.NoError(t, err)
		step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
		require.NoError(t, err)
		dir := t.TempDir()
		fit, err := trainer.New(step, trainer.Options{MaxSteps: 3, BatchSize: 4, OutputDir: dir, Progress: io.Discard,
			Save: trainer.Every(3, trainer.Update)})
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), data.Slice[sentence.Sample](r.samples(t, m, 2, nil)), nil)
		require.NoError(t, err)
		want, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
		require.NoError(t, err)
		again := loaded(t, filepath.Join(dir, "checkpoint-3"))
		got, err := again.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, m.Prompts, again.Prompts)
		assert.Equal(t, adapter, again.LoRA() != nil)
		if adapter {
			require.NoError(t, again.MergeLoRA())
			got, err = again.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
			require.NoError(t, err)
			near(t, matrix(want), got, 1e-5)
		}
	}
}

func TestPaddingFreeEmbeddingsAreThoseOfThePaddedBatch(t *testing.T) {
	r := load(t)
	for _, e := range r.Encoders {
		t.Run(e.Name, func(t *testing.T) {
			m := r.model(t, e.Name, sentence.Pooling{Modes: []sentence.PoolingMode{sentence.LastToken,
				sentence.Mean}}, sentence.Normalize{})
			want, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
			require.NoError(t, err)
			require.NoError(t, m.SetPaddingFree(true))
			got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
			require.NoError(t, err)
			near(t, matrix(want), got, 1e-6)
		})
	}
}

func TestFoldersThatCannotBeServedAreRefused(t *testing.T) {
	load(t)
	for _, c := range []struct {
		folder, file string
		settings     map[string]any
		want         string
	}{
		{"qwen3", "tokenizer_config.json", map[string]any{"pad_token": nil}, "has no pad_token"},
		{"qwen3", "config.json", map[string]any{"use_bidirectional_attention": true},
			"use_bidirectional_attention is true; only false is supported"},
		{"qwen3", "config.json", map[string]any{"is_causal": "no"}, "is_causal is"},
		{"qwen3", "1_Pooling/config.json", map[string]any{"embedding_dimension": 33}, "embedding_dimension is 33"},
		{"qwen3", "sentence_bert_config.json", map[string]any{"modality_config": map[string]any{"message": "m"}},
			"modality_config"},
		{"gemma3", "config.json", map[string]any{"is_causal": false}, "is_causal is false; only true is supported"},
		{"gemma3", "config.json", map[string]any{"sliding_window": nil, "layer_types": nil, "num_hidden_layers": 3},
			"missing"},
	} {
		t.Run(c.want, func(t *testing.T) {
			dir := copied(t, c.folder)
			rewrite(t, filepath.Join(dir, c.file), c.settings)
			_, err := sentence.Load(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, dir)
		})
	}
	t.Run("chat template", func(t *testing.T) {
		dir := copied(t, "qwen3")
		rewrite(t, filepath.Join(dir, "tokenizer_config.json"), map[string]any{"chat_template": "{{ messages }}"})
		loaded(t, dir) // texts as they are, as the folder says
		require.NoError(t, os.Remove(filepath.Join(dir, "modules.json")))
		_, err := sentence.Load(t.Context(), dir, auto.Options{Warnings: io.Discard})
		require.ErrorContains(t, err, "chat template")
	})
	t.Run("encoders that write", func(t *testing.T) {
		_, err := auto.CausalLM(t.Context(), "testdata/gemma3", auto.Options{Warnings: io.Discard})
		require.ErrorContains(t, err, "attend to later ones")
		_, err = auto.NewCausalLM(llama.Config{Bidirectional: true, VocabSize: 8, HiddenSize: 8, NumLayers: 1, NumHeads: 1},
			nil)
		require.ErrorContains(t, err, "attend to later ones")
	})
	t.Run("empty text", func(t *testing.T) {
		m := loaded(t, "testdata/qwen3")
		_, err := m.Encode(t.Context(), []string{""}, sentence.EncodeOptions{})
		require.NoError(t, err, "its end is a token")
		c := m.Tokenizer.Config()
		c.PostProcessor = nil
		if m.Tokenizer, err = text.New(c); assert.NoError(t, err) {
			_, err = m.Encode(t.Context(), []string{"w5", ""}, sentence.EncodeOptions{})
			require.ErrorContains(t, err, "InputIDs is empty")
		}
	})
}

// TestBidirectionalDecodersClassify: other heads take such a decoder, too.
func TestBidirectionalDecodersClassify(t *testing.T) {
	load(t)
	m, err := auto.SequenceClassification(t.Context(), "testdata/gemma3", auto.Options{ID2Label: []string{"no", "yes"},
		Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, "Gemma3TextForSequenceClassification", m.Architecture())
}
