package hezar_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	texthezar "github.com/gotrainer/gotrainer/text/hezar"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// platesOnTheHub is a data set written by the library datasets: datasets/testdata/load.py.
const platesOnTheHub = "datasets/testdata/hub/ocr"

// lineReader saves a model that reads pictures of 64 by 16 pixels.
func lineReader(dir string) error {
	p, err := preprocessors.NewImageProcessor(preprocessors.ImageProcessorConfig{GrayScale: true, Mirror: true,
		Width: 64, Height: 16, Rescale: new(1 / 255.)})
	if err != nil {
		return err
	}
	model, err := hezar.NewModel("crnn_image2text", hezar.Settings{"id2label": []string{"", "a", "b"},
		"map2seq_in_dim": 512, "map2seq_out_dim": 8, "rnn_dim": 8}, &preprocessors.Set{Image: p})
	if err != nil {
		return err
	}
	return model.Save(dir)
}

// The program in Hezar's documentation, loading the data set and the base model by name. Here both
// are folders.
func ExampleLoadDataset() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "plates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	baseModelPath := filepath.Join(dir, "base") // "hezarai/crnn-fa-printed-96-long"
	if err := lineReader(baseModelPath); err != nil {
		log.Fatal(err)
	}

	preprocessor, err := hezar.LoadPreprocessor(ctx, baseModelPath)
	if err != nil {
		log.Fatal(err)
	}
	load := func(split string) *datasets.OCR {
		// "hezarai/persian-license-plate-v1"
		d, err := hezar.LoadDataset[*datasets.OCR](ctx, platesOnTheHub, split, hezar.DatasetOptions{
			Preprocessor: preprocessor,
			Change:       func(c *datasets.Config) { c.MaxLength, c.ReverseDigits = 8, new(true) },
			Warnings:     os.Stdout,
		})
		if err != nil {
			log.Fatal(err)
		}
		return d
	}
	trainDataset, evalDataset := load("train"), load("test")
	defer trainDataset.Close()
	defer evalDataset.Close()
	model, err := hezar.NewModelLike(ctx, baseModelPath, hezar.Settings{"id2label": trainDataset.Config.ID2Label},
		preprocessor)
	if err != nil {
		log.Fatal(err)
	}
	trainer, err := hezar.New(hezar.TrainerConfig{
		OutputDir:          filepath.Join(dir, "crnn-plate-fa-v1"),
		Task:               "image2text",
		Device:             "cpu",
		InitWeightsFrom:    baseModelPath,
		BatchSize:          8,
		NumEpochs:          1,
		Metrics:            []string{"cer"},
		MetricForBestModel: "cer",
	}, hezar.OCR(model), trainDataset, hezar.OCROptions{
		EvalDataset: evalDataset, DataCollator: trainDataset.Collate, DatasetConfig: trainDataset.Config.Map(),
		Output: io.Discard, Warnings: io.Discard,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := trainer.Train(ctx); err != nil {
		log.Fatal(err)
	}
	checkpoint, err := hezar.LoadModel(ctx, filepath.Join(dir, "crnn-plate-fa-v1", "checkpoints", "1"))
	if err != nil {
		log.Fatal(err)
	}
	predictions, err := checkpoint.Predict(ctx, vision.NewImage(90, 30, 3)) // or a path, bytes, an image.Image
	fmt.Println(len(predictions), "picture read by a", checkpoint.Kind(), err)
	// Output:
	// datasets: 2 of 5 rows are left out, since their text is empty, too long or has a character that is not to be learnt: the first is "ABC" of datasets/testdata/hub/ocr/data/1.png; OCR.Invalid has them
	// 1 picture read by a crnn_image2text <nil>
}

// encoder holds settings of small models, by family of encoders.
var encoder = map[string]hezar.Settings{
	"bert": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
		"max_position_embeddings": 24, "vocab_size": 40},
	"roberta": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
		"max_position_embeddings": 24, "vocab_size": 40, "pad_token_id": 0},
	"distilbert": {"dim": 16, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 24, "vocab_size": 40},
}

func encoderModel(t *testing.T, kind string, labels ...string) *repository.Model {
	t.Helper()
	tok, err := texthezar.LoadTokenizer("preprocessors/testdata/model")
	require.NoError(t, err)
	family, _, _ := strings.Cut(kind, "_")
	settings := maps.Clone(encoder[family])
	settings["id2label"] = labels
	m, err := hezar.NewModel(kind, settings, &preprocessors.Set{Tokenizer: tok})
	require.NoError(t, err)
	return m
}

// trained trains a model and checks that its checkpoint equals the model.
func trained[S, B any](t *testing.T, m *repository.Model, model hezar.Model[S, B], set data.Dataset[S],
	c hezar.TrainerConfig) hezar.Logs {
	t.Helper()
	c.OutputDir, c.UseCPU, c.BatchSize, c.NumEpochs, c.LearningRate = t.TempDir(), true, 2, 20, 3e-3
	c.MixedPrecision = "full"
	before := m.Labels()
	trainer, err := hezar.New(c, model, set, hezar.Options[S, B]{EvalDataset: set, Output: io.Discard})
	require.NoError(t, err)
	require.NoError(t, trainer.Train(t.Context()))
	again, err := hezar.LoadModel(t.Context(), filepath.Join(c.OutputDir, "checkpoints",
		fmt.Sprint(trainer.TotalSteps)))
	require.NoError(t, err)
	assert.Equal(t, before, again.Labels())
	want, err := m.Predict(t.Context(), "کتاب خوب")
	require.NoError(t, err)
	got, err := again.Predict(t.Context(), "کتاب خوب")
	require.NoError(t, err)
	assert.Equal(t, want, got, "with the tokenizer of the checkpoint")
	logs, err := trainer.Evaluate(t.Context(), nil)
	require.NoError(t, err)
	return logs
}

func number(t *testing.T, logs hezar.Logs, name string) float64 {
	t.Helper()
	for _, v := range logs {
		if v.Name == name {
			return v.Value
		}
	}
	t.Fatalf("no %s in %v", name, logs)
	return 0
}

func TestModelsOfTextsLearnUnderHezarsTrainer(t *testing.T) {
	testenv.RequireTorch(t)
	texts := data.Slice[datasets.TextRow]{{Text: "کتاب خوب", Label: 1}, {Text: "بد بود", Label: 0},
		{Text: "خوب", Label: 1},
		{Text: "dog بد", Label: 0}}
	words := data.Slice[datasets.TagRow]{{Words: []string{"کتابها", "خوب"}, Tags: []int64{1, 0}},
		{Words: []string{"خوب",
			"dog", "کتاب"}, Tags: []int64{0, 0, 1}}}
	for _, kind := range repository.Kinds()[1:7] { // internal/generationtest tests those that generate texts
		t.Run(kind, func(t *testing.T) {
			if strings.HasSuffix(kind, "_text_classification") {
				m := encoderModel(t, kind, "no", "yes")
				set, err := datasets.NewTextClassification(texts, m.Preprocessors.Tokenizer, datasets.TextOptions{})
				require.NoError(t, err)
				logs := trained(t, m, hezar.TextClassification(m), set, hezar.TrainerConfig{Task: "text_classification",
					Metrics: []string{"accuracy"}})
				assert.Equal(t, 1., number(t, logs, "accuracy"))
				return
			}
			m := encoderModel(t, kind, "O", "B-thing", "I-thing")
			set, err := datasets.NewSequenceLabeling(words, m.Preprocessors.Tokenizer,
				datasets.TagOptions{FirstTokenOnly: true})
			require.NoError(t, err)
			logs := trained(t, m, hezar.SequenceLabeling(m), set, hezar.TrainerConfig{Task: "sequence_labeling",
				Metrics: []string{"seqeval"}, MetricForBestModel: "f1"})
			assert.Equal(t, 1., number(t, logs, "f1"))
		})
	}
}

func TestAModelOfAnotherTaskIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	m := encoderModel(t, "bert_text_classification", "a", "b")
	_, err := hezar.New(hezar.TrainerConfig{OutputDir: t.TempDir(), Task: "image2text"}, hezar.OCR(m), nil,
		hezar.OCROptions{})
	require.ErrorContains(t, err, `model is "bert_text_classification"; want a model for image2text`)
}

// The checkpoints would be loaded as a different model.
func TestACRNNThatItsCheckpointsCannotDescribeIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	config := crnn.Config{Charset: []string{"", "a"}, ImageHeight: 16, ImageWidth: 48,
		ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}, Map2SeqDim: 8, RNNDim: 8}
	set := data.Slice[crnn.Sample]{{Pixels: make([]float32, 16*48), Text: "a"}}
	try := func(change func(c *crnn.Config), p hezar.Preprocessor) error {
		c := config
		change(&c)
		m, err := crnn.New(c)
		require.NoError(t, err)
		trainer, err := hezar.New(hezar.TrainerConfig{OutputDir: t.TempDir(), Task: "image2text", UseCPU: true},
			hezar.Image2Text(m), set, hezar.Options[crnn.Sample, crnn.Batch]{EvalDataset: set, Output: io.Discard,
				Preprocessor: p})
		if err == nil {
			require.NoError(t, trainer.Close())
		}
		return err
	}
	other := func(c *crnn.Config) { c.Mean, c.Std = 0.3, 0.2 }
	require.NoError(t, try(func(*crnn.Config) {}, nil))
	require.ErrorContains(t, try(func(c *crnn.Config) { c.NormalizeAll = true }, nil), "NormalizeAll")
	require.ErrorContains(t, try(func(c *crnn.Config) { c.Standardize = true }, nil), "Standardize")
	require.ErrorContains(t, try(other, nil), "Mean 0.3 and Std 0.2")
	image, err := preprocessors.NewImageProcessor(preprocessors.ImageProcessorConfig{Mean: []float64{0.3},
		Std: []float64{0.2}})
	require.NoError(t, err)
	require.NoError(t, try(other, &preprocessors.Set{Image: image}))
}

// They must be refused before a kernel sees them: a GPU kernel would read out of bounds.
func TestLabelsThatTheModelLacksAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	c, err := crnn.New(crnn.Config{Charset: []string{"", "a"}, ImageHeight: 16, ImageWidth: 48,
		ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}, Map2SeqDim: 8, RNNDim: 8})
	require.NoError(t, err)
	model := hezar.OCR(repository.Reader(c, nil))
	sample := datasets.OCRSample{Pixels: make([]float32, 16*48), Shape: [3]int{1, 16, 48}, Labels: []int64{1, 2}}
	b, err := model.Collate([]datasets.OCRSample{sample})
	require.NoError(t, err)
	require.ErrorContains(t, torch.Try(func() { model.Predict(engine.ForwardPass{}, b) }),
		"a label of the batch is 2, but the model has 2 classes")

	m := encoderModel(t, "bert_text_classification", "no", "yes")
	set, err := datasets.NewTextClassification(data.Slice[datasets.TextRow]{{Text: "خوب"}}, m.Preprocessors.Tokenizer,
		datasets.TextOptions{})
	require.NoError(t, err)
	try := func(labels ...string) (string, error) {
		set.Config.ID2Label = labels
		var said bytes.Buffer
		trainer, err := hezar.New(hezar.TrainerConfig{OutputDir: t.TempDir(), Task: "text_classification", UseCPU: true},
			hezar.TextClassification(m), set, hezar.TextClassificationOptions{EvalDataset: set, Output: io.Discard,
				Warnings: &said})
		if err == nil {
			require.NoError(t, trainer.Close())
		}
		return said.String(), err
	}
	said, err := try("no", "yes")
	require.NoError(t, err)
	assert.NotContains(t, said, "class ")
	said, err = try("no", "maybe")
	require.NoError(t, err)
	assert.Contains(t, said, `class 1 is "maybe" in the data set, but "yes" in the model`)
	_, err = try("no", "yes", "maybe")
	require.ErrorContains(t, err, "one of the 3 classes of the data set")
}

func TestWeightsThatStayRandomAreWarnedOf(t *testing.T) {
	testenv.RequireTorch(t)
	base := t.TempDir()
	require.NoError(t, encoderModel(t, "bert_text_classification", "a", "b", "c").Save(base))
	m := encoderModel(t, "bert_text_classification", "no", "yes")
	set, err := datasets.NewTextClassification(data.Slice[datasets.TextRow]{{Text: "خوب"}}, m.Preprocessors.Tokenizer,
		datasets.TextOptions{})
	require.NoError(t, err)
	var said bytes.Buffer
	trainer, err := hezar.New(hezar.TrainerConfig{OutputDir: t.TempDir(), Task: "text_classification", UseCPU: true,
		InitWeightsFrom: base}, hezar.TextClassification(m), set, hezar.TextClassificationOptions{EvalDataset: set,
		Output: io.Discard, Warnings: &said})
	require.NoError(t, err)
	defer trainer.Close()
	assert.Contains(t, said.String(), "Partially loading the weights")
	assert.Contains(t, said.String(), "mismatched")
	assert.Contains(t, said.String(), "classifier.weight")
}

func TestModelsAndDataSetsComeFromTheHub(t *testing.T) {
	testenv.RequireTorch(t)
	server, err := hubtest.New()
	require.NoError(t, err)
	defer server.Close()
	server.AddUser("hezarai", "hf_secret")
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HF_TOKEN", "hf_secret")
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(platesOnTheHub, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(platesOnTheHub, path)
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	}))
	server.CreateRepo(hubtest.Dataset, "hezarai/plates", hubtest.Public)
	server.Commit(hubtest.Dataset, "hezarai/plates", "main", files)

	dir := t.TempDir()
	require.NoError(t, lineReader(dir))
	model, err := hezar.LoadModel(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, model.PushToHub(t.Context(), "hezarai/crnn", repository.PushOptions{}))
	assert.Equal(t, "Hezar: Upload model and config", server.Log(hubtest.Model, "hezarai/crnn", "main")[0])
	again, err := hezar.LoadModel(t.Context(), "hezarai/crnn")
	require.NoError(t, err)
	state := nn.StateDict(again.Module())
	for i, want := range nn.StateDict(model.Module()) {
		assert.True(t, want.Tensor.Equal(state[i].Tensor), want.Name)
	}
	p, err := hezar.LoadPreprocessor(t.Context(), "hezarai/crnn")
	require.NoError(t, err)
	set, err := hezar.LoadDataset[*datasets.OCR](t.Context(), "hezarai/plates", "test",
		hezar.DatasetOptions{Preprocessor: p})
	require.NoError(t, err)
	defer set.Close()
	sample, err := set.At(0)
	require.NoError(t, err)
	assert.Equal(t, "۳۳۳", sample.Row.Text)
	_, err = hezar.LoadModel(t.Context(), "hezarai/none")
	require.ErrorContains(t, err, `"hezarai/none" is no folder here; on the Hub`)
	_, err = hezar.LoadModel(t.Context(), "no/such/folder")
	require.ErrorContains(t, err, "no folder, and no name on the Hub")
}
