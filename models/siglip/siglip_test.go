package siglip_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/contrastive"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestImageClassifiersHaveTransformersBits compares initial weights, passes in training and
// evaluation, and 20 updates of Trainer.
func TestImageClassifiersHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "images") }

// recorded is the output of testdata/siglip.py for one model.
type recorded struct {
	Name           string
	Config         map[string]any
	Parameters     []string
	Initial, Final map[string]string
	Generator      string
	Cases          []recordedCase
	Losses         []string
	GradNorms      []string  `json:"grad_norms"`
	Scores         []float64 // of labels, by the pipeline
}

type recordedCase struct {
	modeltest.CausalCase
	Side int64 // of images; zero: that of the model
}

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/siglip.json")
	require.NoError(t, err)
	var f struct{ Models []recorded }
	require.NoError(t, json.Unmarshal(content, &f))
	require.Len(t, f.Models, 3)
	return f.Models, golden.Load(t, "testdata/siglip.safetensors")
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T, o auto.Options) *auto.ZeroShotImageClassifier {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(42)
	m, err := auto.ZeroShotImageClassification(t.Context(), modeltest.ConfigFolder(t, r.Config), o)
	require.NoError(t, err)
	return m
}

// Of the golden file: the side of the images, the largest number of tokens, and padding.
const side, length, padding = 12, 24, 1

// samples returns the images of the given size in the golden file, with their texts.
func samples(file *golden.File, side int64) (list []contrastive.Sample) {
	raw := file.Tensor("images." + strconv.FormatInt(side, 10))
	pixels := torch.Values[float32](raw.ToDType(torch.Float32).DivScalar(128).AddScalar(-1))
	each := len(pixels) / int(raw.Size(0))
	for i := range int(raw.Size(0)) {
		list = append(list, contrastive.Sample{
			Text:  inputs.Text{InputIDs: torch.Values[int64](file.Tensor("row." + strconv.Itoa(i)))},
			Image: inputs.Image{Pixels: pixels[i*each:][:each], Shape: raw.Shape()[1:]}})
	}
	return list
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, auto.Options{})
			assert.Equal(t, "SiglipModel", m.Architecture())
			modeltest.SameFresh(t, m, r.Generator, r.Parameters, r.Initial)
		})
	}
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				goldencount.Start(t, "models", c.Name)
				torch.Scope(func() { r.pass(t, c, file) })
			})
		}
	}
}

func (r recorded) pass(t *testing.T, c recordedCase, file *golden.File) {
	o := auto.Options{Attention: c.Attention}
	if c.Half {
		o.DType = torch.BFloat16
	}
	m := r.fresh(t, o)
	m.SetGradientCheckpointing(c.Checkpointing)
	size := int64(side)
	if c.Side > 0 {
		size = c.Side
		require.NoError(t, m.InterpolatePosEncoding(true))
	}
	rows := samples(file, size)[:4]
	if c.Full {
		for i, s := range rows {
			for len(s.InputIDs) < length {
				s.InputIDs = append(s.InputIDs, padding)
			}
			rows[i] = s
		}
	}
	task := m.Task()
	b, err := task.Collate(rows)
	require.NoError(t, err)
	c.HalfTolerance = 5e-2 // as similarities, rounded to three digits
	c.Pass(t, m, file, func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
		func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value })
}

// TestRunsHaveTransformersBits compares a run of Trainer, then how well the pipeline of
// transformers finds that some texts describe an image.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t, auto.Options{})
			modeltest.Train(t, m.Task(), samples(file, side), 1, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			r.compare(t, m, file)
		})
	}
}

var labels = []string{"a cat", "dogs", "a red running shoe in the rain", "2"}

// compare compares the answers of a trained model with those of the pipeline.
func (r recorded) compare(t *testing.T, m *auto.ZeroShotImageClassifier, file *golden.File) {
	t.Helper()
	m = prepared(t, m)
	raw := file.Tensor("images.21").Select(0, 0).Permute(1, 2, 0).Contiguous()
	im := &vision.Image{Width: 21, Height: 21, Channels: 3, Pix: torch.Values[uint8](raw)}
	classes, err := m.Predict(im, labels, auto.ZeroShotOptions{})
	require.NoError(t, err)
	require.Len(t, classes, len(labels))
	for i, c := range classes {
		assert.InDelta(t, r.Scores[c.ID], c.Score, 1e-3, c.Label)
		if testenv.SameBits() {
			assert.InDelta(t, r.Scores[c.ID], c.Score, 1e-7, c.Label)
		}
		assert.Equal(t, labels[c.ID], c.Label)
		assert.LessOrEqual(t, c.Score, classes[max(0, i-1)].Score)
	}
	want := file.Tensor(r.Name + ".texts")
	want = want.Div(want.Square().SumDim([]int64{-1}, true, torch.DefaultDType).Sqrt())
	got, err := m.EmbedTexts(t.Context(), labels)
	require.NoError(t, err)
	for i, row := range got {
		golden.Close(t, labels[i], torch.From(row, int64(len(row))), want.Select(0, int64(i)), 1e-3, 1e-3)
	}
}

// prepared gives a model the tokenizer and the image processor of the golden files, by way of
// files.
func prepared(t *testing.T, m *auto.ZeroShotImageClassifier) *auto.ZeroShotImageClassifier {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	for _, name := range []string{"spiece.model", "tokenizer_config.json"} {
		content, err := os.ReadFile(filepath.Join("testdata/tokenizer", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "preprocessor_config.json"),
		[]byte(`{"image_processor_type": "SiglipImageProcessor", "size": {"height": 12, "width": 12}}`), 0o600))
	m, err := auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	return m
}
