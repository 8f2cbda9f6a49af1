package generationtest

import (
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

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/parquet"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is what testdata/generation.py wrote.
type recorded struct {
	T5, GPT2 struct {
		IDs, Batch           [][]int64
		Texts, Greedy, Grams []string
	}
	Batches []struct {
		Settings      map[string]int
		TokenIDs      [][]int64 `json:"token_ids"`
		AttentionMask [][]int64 `json:"attention_mask"`
		Labels        [][]int64
	}
	Run struct {
		Written [][][]int64
		Files   map[string]string
	}
}

func load(t *testing.T) (r recorded, file *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/generation.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.Run.Written, 50)
	return r, golden.Load(t, "testdata/generation.safetensors")
}

func model(t *testing.T, name string) *repository.Model {
	t.Helper()
	m, err := hezar.LoadModel(t.Context(), "testdata/"+name)
	require.NoError(t, err)
	return m
}

// The batch of generation.py, its target tokens without padding, and its texts.
var (
	ids    = [][]int64{{3, 4, 6, 9, 12, 1}, {15, 16, 5, 1, 0, 0}, {8, 7, 20, 21, 3, 1}}
	mask   = [][]int64{{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 0, 0}, {1, 1, 1, 1, 1, 1}}
	labels = [][]int64{{4, 6, 1, 0}, {16, 15, 9, 1}, {20, 1, 0, 0}}
	texts  = []any{"the dog sat", "کتاب خوب and a cat ran", "in rain"}
)

func given() []inputs.Text {
	return []inputs.Text{{InputIDs: ids[0]}, {InputIDs: ids[1], AttentionMask: mask[1]}, {InputIDs: ids[2]}}
}

func TestHezarsFoldersGiveItsLogitsAndTexts(t *testing.T) {
	r, file := load(t)
	own := [][]int64{ids[0], {15, 16, 5, 1, datasets.IgnoreIndex, datasets.IgnoreIndex}, ids[2]}
	for name, c := range map[string]struct {
		labels, written [][]int64
		texts           []string
	}{"t5": {labels, r.T5.IDs, r.T5.Texts}, "gpt2": {own, r.GPT2.IDs, r.GPT2.Texts}} {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "hezar", name)
			m := model(t, name)
			assert.Equal(t, name+"_text_generation", m.Kind())
			torch.InferenceMode(func() {
				task := hezar.TextGeneration(m)
				o := task.Predict(engine.ForwardPass{}, datasets.SummaryBatch{TokenIDs: ids, AttentionMask: mask,
					Labels: c.labels})
				golden.Recorded(t, "logits", o.Logits[0], file.Tensor(name+".logits"))
				golden.Recorded(t, "loss", task.LossOf(engine.ForwardPass{}, o).Value, file.Tensor(name+".loss"))
			})
			for i, text := range given() { // one by one, as in generation.py
				written, err := m.GenerateIDs(t.Context(), []inputs.Text{text}, nil)
				require.NoError(t, err)
				assert.Equal(t, c.written[i], written[0])
			}
			written, err := m.GenerateIDs(t.Context(), given(), nil)
			require.NoError(t, err)
			assert.Equal(t, c.written, written, "as one batch")
			predictions, err := m.Predict(t.Context(), texts...)
			require.NoError(t, err)
			for i, p := range predictions {
				assert.Equal(t, repository.Prediction{Text: c.texts[i]}, p)
			}
		})
	}
}

func TestFoldersComeBackAsTheyWere(t *testing.T) {
	testenv.RequireTorch(t)
	for _, name := range []string{"t5", "gpt2"} {
		m, dir := model(t, name), t.TempDir()
		require.NoError(t, m.Save(dir))
		for _, path := range []string{"model_config.yaml", "preprocessor/tokenizer_config.yaml"} {
			want, err := os.ReadFile(filepath.Join("testdata", name, path))
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(dir, path))
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got), path)
		}
		want, err := pickle.Open(filepath.Join("testdata", name, "model.pt"))
		require.NoError(t, err)
		defer want.Close()
		got, err := pickle.Open(filepath.Join(dir, "model.pt"))
		require.NoError(t, err)
		defer got.Close()
		require.Len(t, got.Tensors(), len(want.Tensors()))
		for i, tensor := range want.Tensors() {
			assert.Equal(t, tensor.Name, got.Tensors()[i].Name)
			a, err := want.Read(tensor.Name)
			require.NoError(t, err)
			b, err := got.Read(tensor.Name)
			require.NoError(t, err)
			assert.Equal(t, a, b, tensor.Name)
		}
		again, err := hezar.LoadModel(t.Context(), dir)
		require.NoError(t, err)
		before, err := m.Predict(t.Context(), texts...)
		require.NoError(t, err)
		after, err := again.Predict(t.Context(), texts...)
		require.NoError(t, err)
		assert.Equal(t, before, after)
	}
}

// TestFilesOfOlderVersionsLoad: they hold what is no weight, such as the triangle of a causal mask.
func TestFilesOfOlderVersionsLoad(t *testing.T) {
	testenv.RequireTorch(t)
	for name, extra := range map[string]string{"gpt2": "gpt2.transformer.h.0.attn.bias",
		"t5": "t5.decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"} {
		m, dir := model(t, name), t.TempDir()
		require.NoError(t, m.Save(dir))
		entries, err := tensorio.Entries(append([]torch.Named{{Name: extra, Tensor: torch.Ones(1, 1, 24, 24)}},
			nn.StateDict(m.Module())...))
		require.NoError(t, err)
		content, err := pickle.StateDict(entries)
		require.NoError(t, err)
		require.NoError(t, pickle.WriteFile(filepath.Join(dir, "model.pt"), content))
		again, err := hezar.LoadModel(t.Context(), dir)
		require.NoError(t, err)
		want := nn.StateDict(m.Module())
		for i, s := range nn.StateDict(again.Module()) {
			assert.True(t, s.Tensor.Equal(want[i].Tensor), s.Name)
		}
	}
}

func TestSettingsOfACallTakeThePlaceOfTheConfigs(t *testing.T) {
	r, _ := load(t)
	m := model(t, "gpt2")
	all := []string{texts[0].(string), texts[1].(string), texts[2].(string)}
	greedy := hezar.Settings{"num_beams": 1, "early_stopping": false, "length_penalty": 1.0, "max_new_tokens": 5}
	written, err := m.Generate(t.Context(), greedy, all...)
	require.NoError(t, err)
	assert.Equal(t, r.GPT2.Greedy, written)
	written, err = m.Generate(t.Context(), hezar.Settings{"no_repeat_ngram_size": 2}, all...)
	require.NoError(t, err)
	assert.Equal(t, r.GPT2.Grams, written)
	written, err = m.Generate(t.Context(), nil, all...)
	require.NoError(t, err)
	assert.Equal(t, r.GPT2.Texts, written, "the config is what it was")

	t5 := model(t, "t5")
	rows, err := t5.GenerateIDs(t.Context(), given(), hezar.Settings{"max_length": 4})
	require.NoError(t, err)
	assert.Equal(t, r.T5.IDs[0][:4], rows[0], "the token that begins a text is one of them")
	rows, err = t5.GenerateIDs(t.Context(), given(), hezar.Settings{"max_new_tokens": 2, "eos_token_id": []int{1, 14}})
	require.NoError(t, err)
	assert.Equal(t, [][]int64{r.T5.IDs[0][:3], r.T5.IDs[1][:3], r.T5.IDs[2]}, rows)
	require.Len(t, r.T5.IDs[2], 3, "a text that ends early")
	rows, err = t5.GenerateIDs(t.Context(), given(), hezar.Settings{"min_length": 5})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(rows[2]), 5)
	ownLength, err := m.GenerateIDs(t.Context(), given(), hezar.Settings{"max_new_tokens": 0, "max_length": 8})
	require.NoError(t, err)
	for _, row := range ownLength {
		assert.LessOrEqual(t, len(row), 8, "with the text")
	}

	refused := func(m *repository.Model, s hezar.Settings, want string) {
		t.Helper()
		_, err := m.Generate(t.Context(), s, "in rain")
		require.ErrorContains(t, err, want)
	}
	refused(m, hezar.Settings{"penalty_alpha": 0.6}, "the key penalty_alpha is unknown; known are max_length")
	refused(m, hezar.Settings{"num_beams": "many"}, "num_beams is many; want an integer")
	refused(m, hezar.Settings{"max_new_tokens": 0, "max_length": 2}, "a text has 2 tokens, and max_length is 2")
	refused(m, hezar.Settings{"eos_token_id": []string{"</s>"}}, "want a token id, or a list of them")
	refused(t5, hezar.Settings{"max_length": 1}, "want room for a token behind the first")
	_, err = m.Predict(t.Context(), 7)
	require.ErrorContains(t, err, "an input is a int; want a string")
	m.Preprocessors = &preprocessors.Set{}
	refused(m, nil, "no tokenizer")
	_, err = m.Predict(t.Context(), "in rain")
	require.ErrorContains(t, err, "no tokenizer")
}

// rows returns the data set that generation.py wrote.
func rows(t *testing.T, split string) data.Dataset[datasets.SummaryRow] {
	t.Helper()
	files, err := datasets.SplitFiles("testdata/summaries", split)
	require.NoError(t, err)
	d, err := parquet.Open[datasets.SummaryRow](files[0], parquet.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// summaries returns the data set, truncating long texts as Hezar does.
func summaries(t *testing.T, split string, p *preprocessors.Set,
	o datasets.SummaryOptions) *datasets.TextSummarization {
	t.Helper()
	c, err := datasets.ReadConfig("testdata/summaries")
	require.NoError(t, err)
	o.Prefix, o.CutLikeHezar = c.Prefix, true
	d, err := datasets.NewTextSummarization(rows(t, split), p.Tokenizer, o)
	require.NoError(t, err)
	d.Config = c
	return d
}

func TestBatchesAreThoseOfHezar(t *testing.T) {
	r, _ := load(t)
	m := model(t, "t5")
	for _, want := range r.Batches {
		number := func(key string, otherwise int) int {
			if n, given := want.Settings[key]; given { // null counts as 0, that is, none
				return n
			}
			return otherwise
		}
		d := summaries(t, "test", m.Preprocessors, datasets.SummaryOptions{MaxLength: number("max_length", 9),
			LabelsMaxLength: number("labels_max_length", 5)})
		b, err := d.Collate(samples(t, d))
		require.NoError(t, err)
		assert.Equal(t, want.TokenIDs, b.TokenIDs, want.Settings)
		assert.Equal(t, want.AttentionMask, b.AttentionMask, want.Settings)
		assert.Equal(t, want.Labels, b.Labels, want.Settings)
	}
}

func samples(t *testing.T, d data.Dataset[datasets.SummarySample]) (all []datasets.SummarySample) {
	t.Helper()
	for i := range d.Len() {
		s, err := d.At(i)
		require.NoError(t, err)
		all = append(all, s)
	}
	return all
}

func TestLoadedSummariesKeepTheirEnd(t *testing.T) {
	r, _ := load(t)
	m := model(t, "t5")
	d, err := hezar.LoadDataset[*datasets.TextSummarization](t.Context(), "testdata/summaries", "test",
		hezar.DatasetOptions{Preprocessor: m.Preprocessors})
	require.NoError(t, err)
	defer d.Close()
	b, err := d.Collate(samples(t, d))
	require.NoError(t, err)
	cut := 0
	for i, row := range b.TokenIDs {
		require.Len(t, row, 9)
		require.Len(t, b.Labels[i], 5)
		want := r.Batches[0].TokenIDs[i]
		if last := want[8]; last != 0 && last != 1 {
			assert.Equal(t, want[:8], row[:8])
			assert.EqualValues(t, 1, row[8], "the token that ends a text")
			cut++
			continue
		}
		assert.Equal(t, want, row)
	}
	assert.Positive(t, cut, "texts that are too long")
	assert.Less(t, cut, d.Len())
	dir := t.TempDir()
	require.NoError(t, d.Config.Write(dir))
	want, err := os.ReadFile("testdata/summaries/dataset_config.yaml")
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "dataset_config.yaml"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	_, err = hezar.LoadDataset[*datasets.TextSummarization](t.Context(), "testdata/summaries", "test",
		hezar.DatasetOptions{Preprocessor: m.Preprocessors, Change: func(c *datasets.Config) { c.SummaryField = "" }})
	require.ErrorContains(t, err, "the config has no summary_field")
	_, err = d.Collate(nil)
	require.ErrorIs(t, err, data.ErrEmptyBatch)
}

// settings are those of the T5 in the recorded run.
var settings = hezar.Settings{"vocab_size": 37, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2,
	"num_decoder_layers": 1, "num_heads": 4, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
	"max_length": 9}

type trainer = hezar.Trainer[datasets.SummarySample, datasets.SummaryBatch]

func TestTheRunIsThatOfHezarsTrainer(t *testing.T) {
	r, file := load(t)
	goldencount.Start(t, "hezar", "a run of T5")
	p := model(t, "t5").Preprocessors
	torch.ManualSeed(42)
	m, err := hezar.NewModel("t5_text_generation", settings, p)
	require.NoError(t, err)
	state := nn.StateDict(m.Module())
	for _, s := range state {
		golden.Recorded(t, "initial "+s.Name, s.Tensor, file.Tensor("initial."+s.Name))
	}
	o := datasets.SummaryOptions{MaxLength: 9, LabelsMaxLength: 5}
	train := summaries(t, "train", p, o)
	o.MaxSamples = 5
	eval := summaries(t, "train", p, o)
	testenv.SameBits() // reads a file in this folder
	t.Chdir(t.TempDir())
	var written [][][]int64
	options := hezar.TextGenerationOptions{EvalDataset: eval, DataCollator: train.Collate,
		DatasetConfig: train.Config.Map(), Rules: hezar.Exact, RunName: "run", Output: io.Discard}
	options.Overrides.EvaluationStep = func(t *trainer, b datasets.SummaryBatch) (hezar.EvalOutputs, error) {
		o, err := t.EvaluationStep(b)
		var all [][]int64
		if err == nil {
			width := o.Predictions.Size(1)
			values := torch.Values[int64](o.Predictions)
			for len(values) > 0 {
				all, values = append(all, values[:width]), values[width:]
			}
		}
		written = append(written, all)
		return o, err
	}
	run, err := hezar.New(hezar.TrainerConfig{OutputDir: "t5-summaries", Task: "text_generation", BatchSize: 4,
		EvalBatchSize: 3, NumEpochs: 25, UseCPU: true, Optimizer: "adam", LearningRate: 2e-2,
		Metrics: []string{"rouge", "bleu"}, SaveSteps: hezar.Count(75), MetricForBestModel: "bleu"},
		hezar.TextGeneration(m), train, options)
	require.NoError(t, err)
	require.NoError(t, run.Train(t.Context()))
	if !testenv.SameBits() {
		t.Skip("another machine's numbers: after so many updates they may lead elsewhere")
	}
	assert.Equal(t, r.Run.Written, written)
	for name, want := range r.Run.Files {
		got, err := os.ReadFile(filepath.Join("t5-summaries", name))
		require.NoError(t, err)
		assert.Equal(t, want, string(got), name)
	}
	for _, s := range state {
		golden.Recorded(t, "final "+s.Name, s.Tensor, file.Tensor("final."+s.Name))
	}
}

// fresh makes a model and a data set for tests of a Trainer.
func fresh(t *testing.T, kind string, s hezar.Settings) (*repository.Model, *datasets.TextSummarization) {
	t.Helper()
	testenv.RequireTorch(t)
	p := model(t, "t5").Preprocessors
	m, err := hezar.NewModel(kind, s, p)
	require.NoError(t, err)
	return m, summaries(t, "train", p, datasets.SummaryOptions{MaxLength: 9, LabelsMaxLength: 9, MaxSamples: 3})
}

func begin(t *testing.T, c hezar.TrainerConfig, m *repository.Model, d *datasets.TextSummarization) (*trainer, error) {
	t.Helper()
	c.Task, c.UseCPU, c.BatchSize = "text_generation", true, 2
	if c.OutputDir == "" {
		c.OutputDir = t.TempDir()
	}
	run, err := hezar.New(c, hezar.TextGeneration(m), d, hezar.TextGenerationOptions{EvalDataset: d,
		DataCollator: d.Collate, Output: io.Discard, Warnings: io.Discard})
	if err == nil {
		t.Cleanup(func() { run.Close() })
	}
	return run, err
}

func TestAnEvaluationGeneratesUnlessItIsToldNotTo(t *testing.T) {
	m, d := fresh(t, "t5_text_generation", settings)
	seen := func(generate *bool) string {
		path := filepath.Join(t.TempDir(), "train_config.yaml")
		text := "task: text_generation\noutput_dir: here\n"
		if generate != nil && !*generate {
			text += "evaluate_with_generate: false\n"
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		c, err := hezar.LoadTrainerConfig(path)
		require.NoError(t, err)
		c.OutputDir = t.TempDir()
		var said string
		c.Task, c.UseCPU = "text_generation", true
		o := hezar.TextGenerationOptions{EvalDataset: d, Output: io.Discard}
		o.Overrides.EvaluationStep = func(t *trainer, b datasets.SummaryBatch) (hezar.EvalOutputs, error) {
			out, err := t.EvaluationStep(b)
			said = out.Predictions.DType().String()
			return out, err
		}
		run, err := hezar.New(c, hezar.TextGeneration(m), d, o)
		require.NoError(t, err)
		defer run.Close()
		logs, err := run.Evaluate(t.Context(), nil)
		require.NoError(t, err)
		assert.Len(t, logs, 1, "the loss")
		return said
	}
	assert.Equal(t, "int64", seen(nil), "ids")
	assert.Equal(t, "float32", seen(new(false)), "logits")

	_, err := begin(t, hezar.TrainerConfig{EvaluateWithGenerate: new(false), Metrics: []string{"bleu"}}, m, d)
	require.ErrorContains(t, err, `EvaluateWithGenerate is "false"; want true, no Metrics, or Options.MetricsHandler`)
	run, err := begin(t, hezar.TrainerConfig{Metrics: []string{"bleu", "rouge"}, MetricForBestModel: "rougeL"}, m, d)
	require.NoError(t, err)
	require.NoError(t, run.Train(t.Context()))
	assert.Equal(t, "evaluation.rougeL", run.State.MetricForBestCheckpoint)
}

func TestAModelWithAnOutputLayerOfItsOwnKeepsIt(t *testing.T) {
	m, d := fresh(t, "t5_text_generation", settings)
	embedding := m.Seq2Seq.InputEmbeddings().Weight
	require.True(t, m.Seq2Seq.OutputEmbeddings().Weight.Is(embedding), "a new model has one weight, as in transformers 5")
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again, err := hezar.LoadModel(t.Context(), dir)
	require.NoError(t, err)
	assert.True(t, again.Seq2Seq.OutputEmbeddings().Weight.Is(again.Seq2Seq.InputEmbeddings().Weight))

	base := model(t, "t5") // its output layer is not tied
	require.False(t, base.Seq2Seq.OutputEmbeddings().Weight.Is(base.Seq2Seq.InputEmbeddings().Weight))
	run, err := begin(t, hezar.TrainerConfig{InitWeightsFrom: "testdata/t5", NumEpochs: 2}, m, d)
	require.NoError(t, err)
	same := func(a, b *repository.Model) {
		t.Helper()
		want := nn.StateDict(a.Module())
		for i, s := range nn.StateDict(b.Module()) {
			assert.True(t, s.Tensor.Equal(want[i].Tensor), s.Name)
		}
	}
	same(base, m)
	require.NoError(t, run.Train(t.Context()))
	assert.True(t, slices.ContainsFunc(run.Optimizer().State(), func(s torch.Named) bool {
		return s.Name == "t5.lm_head.weight.exp_avg"
	}), "it is learnt")
	resumed, _ := fresh(t, "t5_text_generation", settings)
	next, err := begin(t, hezar.TrainerConfig{OutputDir: run.Config.OutputDir, NumEpochs: 3,
		ResumeFromCheckpoint: hezar.Newest}, resumed, d)
	require.NoError(t, err)
	same(m, resumed)
	require.NoError(t, next.Train(t.Context()))

	// A tied weight is stored once, under all of its names.
	wide, err := hezar.NewModel("t5_text_generation", changed(hezar.Settings{"vocab_size": 4000}), m.Preprocessors)
	require.NoError(t, err)
	small, large := fileSize(t, dir), t.TempDir()
	require.NoError(t, wide.Save(large))
	assert.Less(t, fileSize(t, large)-small, int64(4000*16*4*3/2))

	// Two embeddings where the model has one.
	tensors := nn.StateDict(m.Module())
	for i, s := range tensors {
		if s.Name == "t5.encoder.embed_tokens.weight" {
			tensors[i].Tensor = s.Tensor.Detach().AddScalar(1)
		}
	}
	entries, err := tensorio.Entries(tensors)
	require.NoError(t, err)
	content, err := pickle.StateDict(entries)
	require.NoError(t, err)
	require.NoError(t, pickle.WriteFile(filepath.Join(dir, "model.pt"), content))
	_, err = hezar.LoadModel(t.Context(), dir)
	require.ErrorContains(t, err, "t5.encoder.embed_tokens.weight is not t5.shared.weight; want one embedding of tokens")
}

func fileSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, "model.pt"))
	require.NoError(t, err)
	return info.Size()
}

// changed returns the settings of the T5 in the recorded run with some changed.
func changed(s hezar.Settings) hezar.Settings {
	all := maps.Clone(settings)
	maps.Copy(all, s)
	return all
}

func TestGenerationThatIsNotKnownIsRefused(t *testing.T) {
	own := func(s hezar.Settings) hezar.Settings {
		return hezar.Settings{"vocab_size": 37, "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 24, "generation": s}
	}
	usual := own(nil)
	delete(usual, "generation")
	gpt2, _ := fresh(t, "gpt2_text_generation", usual)
	_, err := gpt2.Predict(t.Context(), "in rain")
	require.NoError(t, err, "beams without repetitions, as Hezar has it")
	gpt2, d := fresh(t, "gpt2_text_generation", own(hezar.Settings{"guidance_scale": 2}))
	_, err = gpt2.Predict(t.Context(), "in rain")
	require.ErrorContains(t, err, "repository: gpt2_text_generation: generation: the key guidance_scale is unknown")
	_, err = begin(t, hezar.TrainerConfig{}, gpt2, d)
	require.ErrorContains(t, err, "generation: the key guidance_scale is unknown")
	require.ErrorContains(t, err, "; or set EvaluateWithGenerate false")
	_, err = begin(t, hezar.TrainerConfig{EvaluateWithGenerate: new(false)}, gpt2, d)
	require.NoError(t, err)
	gpt2, _ = fresh(t, "gpt2_text_generation", own(hezar.Settings{"num_beams": 2, "do_sample": true}))
	_, err = gpt2.Predict(t.Context(), "in rain")
	require.NoError(t, err, "continuations of beams may be drawn")
	t5, _ := fresh(t, "t5_text_generation", changed(hezar.Settings{"max_length": 1}))
	_, err = t5.Predict(t.Context(), "in rain")
	require.ErrorContains(t, err, "max_length is 1 and min_length 0; want room for a token")
}

func TestGPT2LearnsItsOwnText(t *testing.T) {
	s := hezar.Settings{"vocab_size": 37, "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 24, "bos_token_id": 1,
		"eos_token_id": 1, "generation": hezar.Settings{"max_new_tokens": 4, "eos_token_id": 1, "pad_token_id": 0}}
	m, d := fresh(t, "gpt2_text_generation", s)
	_, err := begin(t, hezar.TrainerConfig{}, m, d)
	require.NoError(t, err)
	own := make(data.Slice[datasets.SummarySample], d.Len())
	for i, sample := range samples(t, d) {
		sample.Labels = sample.TokenIDs
		own[i] = sample
	}
	run, err := hezar.New(hezar.TrainerConfig{OutputDir: t.TempDir(), Task: "text_generation", UseCPU: true,
		NumEpochs: 40, LearningRate: 1e-2, Metrics: []string{"rouge"}}, hezar.TextGeneration(m), own,
		hezar.TextGenerationOptions{EvalDataset: own, Output: io.Discard})
	require.NoError(t, err)
	before, err := run.Evaluate(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, run.Train(t.Context()))
	after, err := run.Evaluate(t.Context(), nil)
	require.NoError(t, err)
	loss := len(after) - 1
	assert.Less(t, after[loss].Value, before[loss].Value/3)

	b, err := d.Collate(samples(t, d)[:2])
	require.NoError(t, err)
	b.Labels[1] = b.Labels[1][:4]
	require.ErrorContains(t, torch.Try(func() { hezar.TextGeneration(m).Predict(engine.ForwardPass{}, b) }),
		"text 1 of the batch has 9 tokens and 4 labels")
}

func TestWhatAModelCannotTakeIsRefused(t *testing.T) {
	m, d := fresh(t, "t5_text_generation", settings)
	try := func(change func(b *datasets.SummaryBatch)) string {
		b, err := d.Collate(samples(t, d))
		require.NoError(t, err)
		change(&b)
		return torch.Try(func() { hezar.TextGeneration(m).Predict(engine.ForwardPass{}, b) }).Error()
	}
	assert.Contains(t, try(func(b *datasets.SummaryBatch) { b.TokenIDs[1][0] = 37 }),
		"text 1 of the batch: token 0 has the id 37")
	assert.Contains(t, try(func(b *datasets.SummaryBatch) { b.Labels[2][1] = 99 }), "a label of text 2 of the batch is 99")

	_, err := hezar.NewModel("t5_text_generation", changed(hezar.Settings{"feed_forward_proj": "gated-cubic"}), nil)
	require.ErrorContains(t, err, "cubic")
	bare, err := hezar.NewModel("t5_text_generation", settings, nil)
	require.NoError(t, err)
	_, err = begin(t, hezar.TrainerConfig{}, bare, d)
	require.ErrorContains(t, err, "want one with a tokenizer")
	_, err = hezar.New(hezar.TrainerConfig{OutputDir: t.TempDir(), Task: "image2text"}, hezar.OCR(m), nil,
		hezar.OCROptions{})
	require.ErrorContains(t, err, `model is "t5_text_generation"; want a model for image2text`)
	reader, err := hezar.NewModel("bert_text_classification", hezar.Settings{"id2label": []string{"a", "b"},
		"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 40}, nil)
	require.NoError(t, err)
	_, err = reader.Generate(t.Context(), nil, "text")
	require.ErrorContains(t, err, "a bert_text_classification writes no texts; want one of T5 or GPT-2")
	assert.True(t, strings.HasPrefix(err.Error(), "repository: "))
}
