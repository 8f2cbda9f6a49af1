package modeltest

import (
	"encoding/json"
	"image"
	"image/png"
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
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Dual compares models of images and texts with golden files of transformers: testdata/NAME.json and
// testdata/NAME.safetensors, which testdata/NAME.py wrote.
type Dual struct {
	Name, Class string
	Models      int // how many there are
	// Whole completes the tokens of a text, and Full makes a text of the largest number of tokens of
	// it.
	Whole, Full func(ids []int64) []int64
	// Prepare adds the tokenizer and the image processor of the golden files to a folder that a model
	// was saved to.
	Prepare func(t *testing.T, dir string)
}

// recordedDual is what was recorded of one model.
type recordedDual struct {
	Name           string
	Config         map[string]any
	Parameters     []string
	Initial, Final map[string]string
	Generator      string
	Cases          []recordedDualCase
	Losses         []string
	GradNorms      []string  `json:"grad_norms"`
	Scores         []float64 // of labels, by the pipeline
}

type recordedDualCase struct {
	CausalCase
	Side int64 // of images; zero: that of the model
}

func (d Dual) load(t *testing.T) ([]recordedDual, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/" + d.Name + ".json")
	require.NoError(t, err)
	var f struct{ Models []recordedDual }
	require.NoError(t, json.Unmarshal(content, &f))
	require.Len(t, f.Models, d.Models)
	return f.Models, golden.Load(t, "testdata/"+d.Name+".safetensors")
}

// fresh makes the model with the seed 42.
func (r recordedDual) fresh(t *testing.T, o auto.Options) *auto.ZeroShotImageClassifier {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(42)
	m, err := auto.ZeroShotImageClassification(t.Context(), ConfigFolder(t, r.Config), o)
	require.NoError(t, err)
	return m
}

// Samples returns the images of the given size in the golden file, with their texts.
func (d Dual) Samples(file *golden.File, side int64) (list []contrastive.Sample) {
	raw := file.Tensor("images." + strconv.FormatInt(side, 10))
	pixels := torch.Values[float32](raw.ToDType(torch.Float32).DivScalar(128).AddScalar(-1))
	each := len(pixels) / int(raw.Size(0))
	for i := range int(raw.Size(0)) {
		ids := torch.Values[int64](file.Tensor("row." + strconv.Itoa(i)))
		list = append(list, contrastive.Sample{Text: inputs.Text{InputIDs: d.Whole(ids)},
			Image: inputs.Image{Pixels: pixels[i*each:][:each], Shape: raw.Shape()[1:]}})
	}
	return list
}

// SameFresh compares the weights that models draw.
func (d Dual) SameFresh(t *testing.T) {
	models, _ := d.load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, auto.Options{})
			assert.Equal(t, d.Class, m.Architecture())
			SameFresh(t, m, r.Generator, r.Parameters, r.Initial)
		})
	}
}

// SamePasses compares forward and backward passes.
func (d Dual) SamePasses(t *testing.T) {
	models, file := d.load(t)
	for _, r := range models {
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				goldencount.Start(t, "models", c.Name)
				torch.Scope(func() { d.pass(t, r, c, file) })
			})
		}
	}
}

func (d Dual) pass(t *testing.T, r recordedDual, c recordedDualCase, file *golden.File) {
	o := auto.Options{Attention: c.Attention}
	if c.Half {
		o.DType = torch.BFloat16
	}
	m := r.fresh(t, o)
	m.SetGradientCheckpointing(c.Checkpointing)
	side := m.ImageLimits().Height
	if c.Side > 0 {
		side = c.Side
		require.NoError(t, m.InterpolatePosEncoding(true))
	}
	rows := d.Samples(file, side)[:4]
	if c.Full {
		for i, s := range rows {
			rows[i].InputIDs = d.Full(s.InputIDs)
		}
	}
	task := m.Task()
	b, err := task.Collate(rows)
	require.NoError(t, err)
	c.HalfTolerance = 5e-2 // similarities, rounded to three digits, are multiplied by 14 or so
	c.Pass(t, m, file, func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
		func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value })
}

// SameRuns compares runs of Trainer, then what the pipeline of transformers says of an image and
// some texts.
func (d Dual) SameRuns(t *testing.T) {
	models, file := d.load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t, auto.Options{})
			Train(t, m.Task(), d.Samples(file, m.ImageLimits().Height), 1, r.Losses, r.GradNorms)
			SameWeights(t, m, r.Final)
			r.answers(t, d.prepared(t, m), file)
		})
	}
}

// prepared gives a model the tokenizer and the image processor of the golden files, by way of files.
func (d Dual) prepared(t *testing.T, m *auto.ZeroShotImageClassifier) *auto.ZeroShotImageClassifier {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	d.Prepare(t, dir)
	m, err := auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	return m
}

// Tiny returns the first model of the golden file, with its tokenizer and image processor, in
// evaluation mode, and the file.
func (d Dual) Tiny(t *testing.T) (*auto.ZeroShotImageClassifier, *golden.File) {
	t.Helper()
	models, file := d.load(t)
	return d.prepared(t, models[0].fresh(t, auto.Options{})), file
}

// DualLabels are the texts that Dual.SameRuns compares with an image.
var DualLabels = []string{"a cat", "dogs", "a red running shoe in the rain", "2"}

// answers compares the answers of a trained model with those of the pipeline.
func (r recordedDual) answers(t *testing.T, m *auto.ZeroShotImageClassifier, file *golden.File) {
	t.Helper()
	raw := file.Tensor("images.21").Select(0, 0).Permute(1, 2, 0).Contiguous()
	path := writePNG(t, 21, torch.Values[uint8](raw))
	classes, err := m.PredictFile(path, DualLabels, auto.ZeroShotOptions{})
	require.NoError(t, err)
	require.Len(t, classes, len(DualLabels))
	for i, c := range classes {
		assert.InDelta(t, r.Scores[c.ID], c.Score, 1e-3, c.Label)
		if testenv.SameBits() {
			assert.InDelta(t, r.Scores[c.ID], c.Score, 1e-7, c.Label)
		}
		assert.Equal(t, DualLabels[c.ID], c.Label)
		assert.LessOrEqual(t, c.Score, classes[max(0, i-1)].Score)
	}
	want := file.Tensor(r.Name + ".texts")
	want = want.Div(want.Square().SumDim([]int64{-1}, true, torch.DefaultDType).Sqrt())
	got, err := m.EmbedTexts(t.Context(), DualLabels)
	require.NoError(t, err)
	for i, row := range got {
		golden.Close(t, DualLabels[i], torch.From(row, int64(len(row))), want.Select(0, int64(i)), 1e-3, 1e-3)
	}
}

// writePNG writes a square of pixels, 3 numbers each, to a file.
func writePNG(t *testing.T, side int, pixels []uint8) (path string) {
	t.Helper()
	im := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		copy(im.Pix[4*i:], append(pixels[3*i:][:3:3], 255))
	}
	path = filepath.Join(t.TempDir(), "image.png")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, png.Encode(f, im))
	require.NoError(t, f.Close())
	return path
}
