package repository_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text/hezar"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// scripts/hezar_interop.py tests against Hezar in Python; these tests do not need Python.

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// python is a folder that Hezar wrote.
const python = "../../../models/bert/testdata/hezar_folder"

func imageProcessor(t *testing.T, c preprocessors.ImageProcessorConfig) *preprocessors.ImageProcessor {
	t.Helper()
	p, err := preprocessors.NewImageProcessor(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTextClassificationSurvivesItsFolder(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := repository.Load(python)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	want, err := os.ReadFile(filepath.Join(python, repository.ConfigFile))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, repository.ConfigFile))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	again, err := repository.Load(dir)
	require.NoError(t, err)
	for _, n := range nn.Modules(again.Module()) {
		if mode, ok := n.Module.(interface{ Training() bool }); ok {
			assert.False(t, mode.Training(), n.Name)
		}
	}
	sameWeights(t, m, again)
	_, err = again.Predict(t.Context(), "کتاب")
	require.ErrorContains(t, err, "no tokenizer")
	again.Preprocessors.Tokenizer = tokenizer(t)
	alone, err := again.Predict(t.Context(), "کتاب")
	require.NoError(t, err)
	both, err := again.Predict(t.Context(), "کتاب خوب dog .", "کتاب")
	require.NoError(t, err)
	total := 0.0
	for i, class := range alone[0].Classes {
		total += class.Score
		assert.Equal(t, class.Label, both[1].Classes[i].Label, "beside a longer text")
		assert.InDelta(t, class.Score, both[1].Classes[i].Score, 1e-6, "beside a longer text")
	}
	assert.InDelta(t, 1, total, 1e-6)
	assert.Len(t, alone[0].Classes, len(again.Labels()))
	assert.Equal(t, alone[0].Classes[0], repository.Class{Label: alone[0].Label, Score: alone[0].Score})
	none, err := again.Predict(t.Context())
	require.NoError(t, err)
	assert.Empty(t, none)
	_, err = again.Predict(t.Context(), []string{"words"})
	require.ErrorContains(t, err, "an input is a []string; want a string")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = again.Predict(ctx, "کتاب")
	require.ErrorIs(t, err, context.Canceled)
}

func tokenizer(t *testing.T) *hezar.Tokenizer {
	t.Helper()
	tok, err := hezar.LoadTokenizer("../preprocessors/testdata/model")
	require.NoError(t, err)
	return tok
}

// small holds the settings of models for tests, by family of encoders.
var small = map[string]repository.Settings{
	"bert": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
		"max_position_embeddings": 24, "vocab_size": 40},
	"roberta": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
		"max_position_embeddings": 24, "vocab_size": 40, "pad_token_id": 0},
	"distilbert": {"dim": 8, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 24, "vocab_size": 40},
}

func TestEveryKindSurvivesItsFolderAndTagsWords(t *testing.T) {
	testenv.RequireTorch(t)
	for _, kind := range repository.Kinds()[1:7] { // generationtest tests those that generate texts
		t.Run(kind, func(t *testing.T) {
			family, _, _ := strings.Cut(kind, "_")
			settings := maps.Clone(small[family])
			settings["id2label"] = []string{"O", "B-چیز", "I-چیز"}
			config, err := repository.NewConfig(kind, settings)
			require.NoError(t, err)
			m, err := repository.New(config, &preprocessors.Set{Tokenizer: tokenizer(t)})
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			again, err := repository.Load(dir)
			require.NoError(t, err)
			sameWeights(t, m, again)
			text, err := omegaconf.Marshal(m.Config())
			require.NoError(t, err)
			read, err := omegaconf.Marshal(again.Config())
			require.NoError(t, err)
			assert.Equal(t, string(text), string(read))
			assert.Equal(t, kind, again.Kind())
			want, err := m.Predict(t.Context(), "کتاب خوب")
			require.NoError(t, err)
			got, err := again.Predict(t.Context(), "کتاب خوب")
			require.NoError(t, err)
			assert.Equal(t, want, got)
			if !strings.HasSuffix(kind, "labeling") {
				return
			}
			words := []string{"کتابها", "خوب"}
			both, err := again.Predict(t.Context(), words, []string{"dog"})
			require.NoError(t, err)
			require.Len(t, both[0].Tags, 2, "one tag per word")
			require.Len(t, both[1].Tags, 1)
			for i, tag := range both[0].Tags {
				assert.Equal(t, words[i], tag.Token)
				assert.Contains(t, again.Labels(), tag.Label)
			}
		})
	}
}

func TestSettingsThatNoModelHasAreNamed(t *testing.T) {
	_, err := repository.NewConfig("bert_text_classification", repository.Settings{"id2labels": nil})
	require.ErrorContains(t, err, `no setting "id2labels"; there are `)
	_, err = repository.NewConfig("gpt3_text_generation", nil)
	require.ErrorContains(t, err, "want one of crnn_image2text, bert_text_classification")
	config, err := repository.LoadConfig(python, repository.Settings{"id2label": []string{"a", "b", "c"}})
	require.NoError(t, err)
	n, _ := config.Get("num_labels")
	assert.Nil(t, n, "new labels are counted again")
	testenv.RequireTorch(t)
	config, err = repository.NewConfig("bert_text_classification", repository.Settings{"id2label": []string{"a", "b"},
		"num_labels": 3})
	require.NoError(t, err)
	_, err = repository.New(config, nil)
	require.ErrorContains(t, err, "num_labels is 3, but id2label has 2")
}

func sameWeights(t *testing.T, a, b *repository.Model) {
	t.Helper()
	got := nn.StateDict(b.Module())
	for i, want := range nn.StateDict(a.Module()) {
		if got[i].Name != want.Name || !got[i].Tensor.Equal(want.Tensor) {
			t.Errorf("tensor %s differs", want.Name)
		}
	}
}

func TestImage2TextSurvivesItsFolder(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(3)
	model, err := crnn.New(crnn.Config{Charset: []string{"", "۱", "ب", "yes", " "}, ImageWidth: 40, Map2SeqDim: 8,
		RNNDim: 6, ReverseDigits: true})
	require.NoError(t, err)
	p := imageProcessor(t, preprocessors.ImageProcessorConfig{GrayScale: true, Mirror: true, Width: 40, Height: 32,
		Rescale: new(1 / 255.), Mean: []float64{0.5}, Std: []float64{0.5}})
	m := repository.Reader(model, &preprocessors.Set{Image: p})
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again, err := repository.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, model.Config(), again.CRNN.Config())
	sameWeights(t, m, again)
	im := image.NewGray(image.Rect(0, 0, 50, 20))
	for k := range im.Pix {
		im.Pix[k] = uint8(k * 3)
	}
	var raw bytes.Buffer
	require.NoError(t, png.Encode(&raw, im))
	path := filepath.Join(dir, "a.png")
	require.NoError(t, os.WriteFile(path, raw.Bytes(), 0o600))
	want, err := m.Predict(t.Context(), path)
	require.NoError(t, err)
	assert.Greater(t, want[0].Score, 0.2)
	for _, input := range []any{path, raw.Bytes(), im, vision.FromStd(im)} {
		got, err := again.Predict(t.Context(), input)
		require.NoError(t, err)
		assert.Equal(t, want, got, "a picture as a %T", input)
	}
	_, err = again.Predict(t.Context(), 7)
	require.ErrorContains(t, err, "an image is a int; want a path")
	_, err = again.Predict(t.Context(), dir+"/none.png")
	require.ErrorIs(t, err, fs.ErrNotExist)
	again.Preprocessors.Image = imageProcessor(t, preprocessors.ImageProcessorConfig{GrayScale: true})
	_, err = again.Predict(t.Context(), path, image.NewGray(image.Rect(0, 0, 20, 20)))
	require.ErrorContains(t, err, "one size for all")
	again.Preprocessors.Image = nil
	_, err = again.Predict(t.Context(), path)
	require.ErrorContains(t, err, "no image processor")
	damage(t, dir)
}

// damage breaks a folder in several ways.
func damage(t *testing.T, dir string) {
	t.Helper()
	weights := filepath.Join(dir, repository.WeightsFile)
	raw, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(raw)
	flipped[len(flipped)/2] ^= 1
	for claim, content := range map[string][]byte{"a flipped bit": flipped, "half a file": raw[:len(raw)/2],
		"an empty file": nil} {
		if err := os.WriteFile(weights, content, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := repository.Load(dir); err == nil || !strings.Contains(err.Error(),
			repository.WeightsFile) {
			t.Errorf("%s: error %v, want one that names the file", claim, err)
		}
	}
	if err := os.Remove(weights); err != nil {
		t.Fatal(err)
	}
	if _, err := repository.Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no weights: error %v", err)
	}
}

func TestConfigsOfTheWrongKindAreNamed(t *testing.T) {
	const good = "name: crnn_image2text\nid2label:\n  0: ''\n  1: a\nmap2seq_in_dim: 1024\n"
	for _, c := range []struct{ claim, yaml, want string }{
		{"another model", "name: vit_roberta_image2text\n", "want one of crnn_image2text"},
		{"another blank", good + "blank_id: 1\n", "blank_id is 1"},
		{"a width of a word", good + "rnn_dim: wide\n", "rnn_dim is wide; want an integer"},
		{"no labels", "name: crnn_image2text\nmap2seq_in_dim: 1024\n", "id2label is <nil>"},
		{"a label left out", "name: crnn_image2text\nmap2seq_in_dim: 1024\nid2label:\n  0: ''\n  2: a\n",
			"each of the keys 0 to 1 once"},
		{"another input of the sequence", "name: crnn_image2text\nid2label:\n  0: ''\n  1: a\nmap2seq_in_dim: 1000\n",
			"a multiple of the 512 channels"},
		{"a trainer's config", "config_type: trainer\n", "config_type is trainer; want model"},
		{"no YAML", "a: [", "model_config.yaml"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, repository.ConfigFile), []byte(c.yaml), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := repository.Load(dir); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), repository.ConfigFile) {
			t.Errorf("%s: error %v, want the file's name and %q in it", c.claim, err, c.want)
		}
	}
	if _, err := repository.Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: error %v", err)
	}
}

func TestThePicturesMustBeAsHighAsTheModelIsMadeFor(t *testing.T) {
	m := omegaconf.Map{{Key: "id2label", Value: omegaconf.Map{{Key: 0, Value: ""}, {Key: 1, Value: "a"}}}}
	c, err := repository.CRNNConfig(m, nil)
	if err != nil || c.ImageHeight != 64 || c.ImageWidth != 128 {
		t.Errorf("Hezar's default map2seq_in_dim gives %+v (%v), want pictures 64 high", c, err)
	}
	p := imageProcessor(t, preprocessors.ImageProcessorConfig{Width: 96, Height: 32})
	if _, err := repository.CRNNConfig(m, p); err == nil || !strings.Contains(err.Error(),
		"64 pixels high, but the image processor makes them 32") {
		t.Errorf("error %v", err)
	}
	m.Set("map2seq_in_dim", int64(1024))
	if c, err := repository.CRNNConfig(m, p); err != nil || c.ImageHeight != 32 || c.ImageWidth != 96 {
		t.Errorf("%+v (%v), want 96 x 32", c, err)
	}
	p = imageProcessor(t, preprocessors.ImageProcessorConfig{Width: 96, Height: 40})
	if c, err := repository.CRNNConfig(m, p); err != nil || c.ImageHeight != 40 {
		t.Errorf("%+v (%v), want the 40 rows that the image processor makes, of which the model sees 32", c, err)
	}
}

func TestModelsThatHezarCannotBuildAreNotSaved(t *testing.T) {
	testenv.RequireTorch(t)
	for want, c := range map[string]crnn.Config{
		"convolutions have": {ConvChannels: []int64{2, 2, 2, 2, 2, 2, 2}},
		"NormalizeAll":      {NormalizeAll: true, RNNDim: 4},
	} {
		c.Charset = []string{"", "a"}
		m, err := crnn.New(c)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		require.ErrorContains(t, repository.Reader(m, nil).Save(dir), want)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, entries)
	}
}

func TestASaveThatFailsLeavesTheModelOfBefore(t *testing.T) {
	testenv.RequireTorch(t)
	contents := func(dir string) map[string]string {
		files := map[string]string{}
		require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				files[name] = "a folder"
				return err
			}
			text, err := os.ReadFile(filepath.Join(dir, name))
			files[name] = string(text)
			return err
		}))
		return files
	}
	m, err := repository.Load(python)
	require.NoError(t, err)
	dir := t.TempDir()
	preprocessor := filepath.Join(dir, preprocessors.Folder)
	require.NoError(t, os.WriteFile(preprocessor, nil, 0o600)) // the folder cannot be created there
	require.NoError(t, repository.WriteModel(dir, m.Module(), m.Config()))
	before := contents(dir)
	torch.NoGrad(func() { nn.Params(m.Module())[0].Tensor.Zero_() })
	// A killed process has left half of a save.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".saving", preprocessors.Folder), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".saving", repository.WeightsFile), nil, 0o600))

	m.Preprocessors.Normalizer = &hezar.Normalizer{}
	require.Error(t, m.Save(dir))
	assert.Equal(t, before, contents(dir))
	require.NoError(t, os.Remove(preprocessor))
	require.NoError(t, m.Save(dir))
	after := contents(dir)
	assert.NotEqual(t, before[repository.WeightsFile], after[repository.WeightsFile])
	assert.NotContains(t, after, ".saving")
	again, err := repository.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, nn.StateDict(m.Module())[0].Tensor.Bytes(), nn.StateDict(again.Module())[0].Tensor.Bytes())
}

func ExampleModel_Predict() {
	if torch.Load() != nil {
		fmt.Println(2, true) // nothing to show without libtorch
		return
	}
	m, err := repository.Load(python)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A real folder has its own tokenizer in preprocessor/.
	if m.Preprocessors.Tokenizer, err = hezar.LoadTokenizer("../preprocessors/testdata/model"); err != nil {
		fmt.Println(err)
		return
	}
	predictions, err := m.Predict(context.Background(), "کتاب خوب", "bad dog")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(predictions), predictions[0].Score > 0.3)
	// Output: 2 true
}
