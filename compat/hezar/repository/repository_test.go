package repository_test

import (
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text/hezar"
	"github.com/gotrainer/gotrainer/torch"
)

// scripts/hezar_interop.py has the proof with Python's Hezar on the other side; these tests need
// none.

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
	m, err := repository.LoadTextClassification(python)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(python, repository.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, repository.ConfigFile))
	if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
		t.Errorf("model_config.yaml: %v\n%s", err, diff)
	}
	again, err := repository.LoadTextClassification(dir)
	if err != nil {
		t.Fatal(err)
	}
	sameWeights(t, m.Model, again.Model)
	if _, err := again.Predict(1, "کتاب"); err == nil || !strings.Contains(err.Error(), "no tokenizer") {
		t.Errorf("a prediction without a tokenizer: error %v", err)
	}
	if again.Preprocessors.Tokenizer, err = hezar.LoadTokenizer("../preprocessors/testdata/model"); err != nil {
		t.Fatal(err)
	}
	alone, err := again.Predict(9, "کتاب")
	if err != nil {
		t.Fatal(err)
	}
	both, err := again.Predict(9, "کتاب خوب dog .", "کتاب")
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for i, class := range alone[0] {
		total += class.Score
		if d := class.Score - both[1][i].Score; class.Label != both[1][i].Label || d > 1e-6 || d < -1e-6 {
			t.Errorf("alone %+v, beside a longer text %+v", alone[0], both[1])
		}
	}
	if total < 0.999999 || total > 1.000001 || len(alone[0]) != len(again.Model.Head().ID2Label) {
		t.Errorf("probabilities %+v", alone[0])
	}
	if none, err := again.Predict(1); err != nil || none != nil {
		t.Errorf("nothing was classified as %v (%v)", none, err)
	}
}

func sameWeights(t *testing.T, a, b any) {
	t.Helper()
	got := nn.StateDict(b)
	for i, want := range nn.StateDict(a) {
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
	if err != nil {
		t.Fatal(err)
	}
	p := imageProcessor(t, preprocessors.ImageProcessorConfig{GrayScale: true, Mirror: true, Width: 40, Height: 32,
		Rescale: new(1 / 255.), Mean: []float64{0.5}, Std: []float64{0.5}})
	m := &repository.Image2Text{Model: model, Preprocessors: &preprocessors.Set{Image: p}}
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := repository.LoadImage2Text(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(model.Config(), again.Model.Config()); diff != "" {
		t.Error(diff)
	}
	sameWeights(t, model, again.Model)
	files := []string{filepath.Join(dir, "a.png"), filepath.Join(dir, "b.png")}
	for i, file := range files {
		im := image.NewGray(image.Rect(0, 0, 50+i, 20))
		for k := range im.Pix {
			im.Pix[k] = uint8(k * (i + 3))
		}
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(png.Encode(f, im), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want, err := m.Predict(files...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Predict(files...)
	if err != nil || !slices.Equal(got, want) || len(got) != 2 || got[0].Score <= 0.2 {
		t.Errorf("read %v (%v), want %v", got, err, want)
	}
	if _, err := again.Predict(dir + "/none.png"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a picture that is not there: error %v", err)
	}
	again.Preprocessors.Image = imageProcessor(t, preprocessors.ImageProcessorConfig{GrayScale: true})
	if _, err := again.Predict(files...); err == nil || !strings.Contains(err.Error(), "one size for all") {
		t.Errorf("pictures of two sizes: error %v", err)
	}
	again.Preprocessors = nil
	if _, err := again.Predict(files...); err == nil || !strings.Contains(err.Error(), "no image processor") {
		t.Errorf("no image processor: error %v", err)
	}
	damage(t, dir)
}

// damage spoils a folder in several ways.
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
		if _, err := repository.LoadImage2Text(dir); err == nil || !strings.Contains(err.Error(),
			repository.WeightsFile) {
			t.Errorf("%s: error %v, want one that names the file", claim, err)
		}
	}
	if err := os.Remove(weights); err != nil {
		t.Fatal(err)
	}
	if _, err := repository.LoadImage2Text(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no weights: error %v", err)
	}
}

func TestConfigsOfTheWrongKindAreNamed(t *testing.T) {
	const good = "name: crnn_image2text\nid2label:\n  0: ''\n  1: a\nmap2seq_in_dim: 1024\n"
	for _, c := range []struct{ claim, yaml, want string }{
		{"another model", "name: vit_roberta_image2text\n", "want crnn_image2text"},
		{"another blank", good + "blank_id: 1\n", "blank_id is 1"},
		{"a width of a word", good + "rnn_dim: wide\n", "rnn_dim is wide; want an integer"},
		{"no labels", "map2seq_in_dim: 1024\n", "id2label is <nil>"},
		{"a label left out", "map2seq_in_dim: 1024\nid2label:\n  0: ''\n  2: a\n", "each of the keys 0 to 1 once"},
		{"another input of the sequence", "id2label:\n  0: ''\n  1: a\nmap2seq_in_dim: 1000\n",
			"a multiple of the 512 channels"},
		{"a trainer's config", "config_type: trainer\n", "config_type is trainer; want model"},
		{"no YAML", "a: [", "model_config.yaml"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, repository.ConfigFile), []byte(c.yaml), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := repository.LoadImage2Text(dir); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), repository.ConfigFile) {
			t.Errorf("%s: error %v, want the file's name and %q in it", c.claim, err, c.want)
		}
	}
	if _, err := repository.LoadTextClassification(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
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
		if err := (&repository.Image2Text{Model: m}).Save(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%d files were written (%v)", len(entries), err)
		}
	}
}

func ExampleTextClassification_Predict() {
	if torch.Load() != nil {
		fmt.Println(2, 2) // without libtorch there is nothing to show
		return
	}
	m, err := repository.LoadTextClassification(python)
	if err != nil {
		fmt.Println(err)
		return
	}
	// a folder with preprocessor/ has its own
	if m.Preprocessors.Tokenizer, err = hezar.LoadTokenizer("../preprocessors/testdata/model"); err != nil {
		fmt.Println(err)
		return
	}
	classes, err := m.Predict(2, "کتاب خوب", "bad dog")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(classes), len(classes[0]))
	// Output: 2 2
}
