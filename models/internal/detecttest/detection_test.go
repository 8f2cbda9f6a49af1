package detecttest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/detect"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// file is the output of testdata/detection.py.
type file struct {
	Models      []*recorded
	Annotations [][]struct {
		BBox       [4]float64
		CategoryID int `json:"category_id"`
		Area       float64
		IsCrowd    int
	}

	values *golden.File
}

// recorded is a model. Tensors are represented by the first digits of their SHA-256, in the order
// of the parameters.
type recorded struct {
	Name, Architecture   string
	Config               map[string]any
	Parameters, Saved    []string
	Initial, Fine, Final []string
	Generator            string // after the model was made
	FineGenerator        string `json:"fine_generator"`
	FinalGenerator       string `json:"final_generator"`
	Losses               []string
	GradNorms            []string `json:"grad_norms"`
	Cases                []pass
}

// pass is a forward and backward pass in training mode, and one forward pass in evaluation mode.
type pass struct {
	Name                string
	Attention           transformer.Attention
	BF16, Checkpointing bool
	First, Count        int // of the images
	Generator           string
	Grads               []string // empty where a parameter has none
	Norms               []float64
}

func load(t *testing.T) file {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/detection.json")
	require.NoError(t, err)
	var f file
	require.NoError(t, json.Unmarshal(text, &f))
	f.values = golden.Load(t, "testdata/detection.safetensors")
	return f
}

// image returns an image and what is in it.
func (f file) image(i int) (*vision.Image, []detect.Object) {
	raw := f.values.Tensor(fmt.Sprintf("image.%d", i))
	im := vision.NewImage(int(raw.Size(1)), int(raw.Size(0)), 3)
	copy(im.Pix, torch.Values[uint8](raw))
	var objects []detect.Object
	for _, a := range f.Annotations[i] {
		objects = append(objects, detect.Object{Class: a.CategoryID, X: a.BBox[0], Y: a.BBox[1], Width: a.BBox[2],
			Height: a.BBox[3], Area: a.Area, Crowd: a.IsCrowd == 1})
	}
	return im, objects
}

// samples prepares the images for a model.
func (f file) samples(t *testing.T, m *auto.ObjectDetector, first, count int) (samples []detect.Sample) {
	t.Helper()
	for i := first; i < first+count; i++ {
		s, err := m.Encode(f.image(i))
		require.NoError(t, err)
		samples = append(samples, s)
	}
	return samples
}

// fresh makes the model with the seed 42.
func (r *recorded) fresh(t *testing.T, o auto.Options) *auto.ObjectDetector {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(42)
	m, err := auto.ObjectDetection(t.Context(), modeltest.ConfigFolder(t, r.Config), o)
	require.NoError(t, err)
	config, err := vision.ParseProcessorConfig([]byte(`{"do_resize": false}`), "YolosImageProcessor")
	require.NoError(t, err)
	m.ImageProcessor, err = vision.NewProcessor(config.ProcessorOptions)
	require.NoError(t, err)
	return m
}

// same compares the parameters, or what belongs to them, on machines that compute the same numbers.
func same(t *testing.T, m any, what string, want []string, of func(t torch.Tensor) torch.Tensor) {
	t.Helper()
	params := nn.Params(m)
	require.Len(t, params, len(want))
	for i, p := range params {
		if testenv.SameBits() && want[i] != "" {
			assert.Equal(t, want[i], modeltest.Sum(of(p.Tensor).Bytes())[:8], "%s of %s", what, p.Name)
		}
	}
}

func identity(t torch.Tensor) torch.Tensor { return t }

func sameGenerator(t *testing.T, want string) {
	t.Helper()
	if testenv.SameBits() {
		assert.Equal(t, want, modeltest.Generator()[:8], "the generator has another state")
	}
}

func TestDetectorsHaveTransformersBits(t *testing.T) {
	f := load(t)
	for _, r := range f.Models {
		t.Run(r.Name, func(t *testing.T) {
			t.Run("initial weights", func(t *testing.T) {
				m := r.fresh(t, auto.Options{})
				require.Equal(t, r.Architecture, m.Architecture())
				sameGenerator(t, r.Generator)
				var names []string
				for _, p := range nn.Params(m) {
					names = append(names, p.Name)
				}
				require.Equal(t, r.Parameters, names)
				same(t, m, "initial weight", r.Initial, identity)
			})
			for _, c := range r.Cases {
				t.Run(c.Name, func(t *testing.T) {
					goldencount.Start(t, "models", r.Name+", "+c.Name)
					torch.Scope(func() { f.pass(t, r, c) })
				})
			}
			t.Run("saved and loaded", r.saveAndLoad)
			t.Run("twenty updates", func(t *testing.T) {
				goldencount.Start(t, "models", r.Name+", run")
				f.run(t, r)
			})
		})
	}
}

// pass compares a pass: predictions and loss, each gradient, and the state of the generator.
func (f file) pass(t *testing.T, r *recorded, c pass) {
	precision, computed := amp.FP32, torch.Float32
	if c.BF16 {
		precision, computed = amp.BF16, torch.BFloat16
	}
	m := r.fresh(t, auto.Options{Attention: c.Attention})
	m.SetGradientCheckpointing(c.Checkpointing)
	task := m.Task()
	count := c.Count
	if count == 0 {
		count = 4
	}
	b, err := task.Collate(f.samples(t, m, c.First, count))
	require.NoError(t, err)
	key := r.Name + ", " + c.Name
	compare := func(what string, got torch.Tensor) {
		want := f.values.Tensor(key + "." + what)
		golden.RecordedIn(t, what, got.Detach().ToDType(want.DType()), want, computed)
	}
	var o engine.Outputs
	var loss torch.Tensor
	forward := func() {
		amp.Autocast(torch.CPU, precision, func() {
			o = task.Predict(engine.ForwardPass{}, b)
			loss = task.LossOf(engine.ForwardPass{}, o).Value
		})
	}
	torch.ManualSeed(7)
	forward()
	loss.Backward()
	sameGenerator(t, c.Generator)
	compare("logits", o.Logits[0])
	compare("boxes", o.Logits[1])
	compare("loss", loss)
	tolerance := map[torch.DType]float64{torch.Float32: 1e-3, torch.BFloat16: 5e-2}[computed]
	for i, p := range nn.Params(m) {
		require.Equal(t, c.Grads[i] != "", p.Tensor.Grad().Defined(), "whether %s has a gradient", p.Name)
		if c.Grads[i] != "" && !strings.HasSuffix(p.Name, "key.bias") && !strings.HasSuffix(p.Name, "k_proj.bias") {
			assert.InDelta(t, c.Norms[i], p.Tensor.Grad().ToDType(torch.Float64).Norm(2).Item(),
				1e-6+tolerance*c.Norms[i], p.Name)
		}
	}
	// Under checkpointing, gradients to which several layers of a decoder contribute are summed in
	// another order than in transformers.
	if !c.Checkpointing || r.Architecture != "DetrForObjectDetection" {
		same(t, m, "gradient", c.Grads, torch.Tensor.Grad)
	}
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		forward()
		compare("eval", o.Logits[0])
		compare("evalloss", loss)
		direct := task.Loss(engine.ForwardPass{}, b)
		if precision == amp.FP32 {
			golden.Bits(t, "Loss and LossOf", direct.Value, loss)
		}
	})
}

// saveAndLoad saves and loads the model, and draws a head for other classes.
func (r *recorded) saveAndLoad(t *testing.T) {
	m, dir := r.fresh(t, auto.Options{}), t.TempDir()
	require.NoError(t, m.Save(dir))
	before := modeltest.Generator()
	again, err := auto.ObjectDetection(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, before, modeltest.Generator(), "loading drew numbers")
	assert.Empty(t, again.Report.Initialized)
	assert.Empty(t, again.Report.Unexpected)
	for i, want := range nn.StateDict(m) {
		golden.Bits(t, want.Name, nn.StateDict(again)[i].Tensor, want.Tensor)
	}
	assert.Equal(t, m.ImageProcessor.Options(), again.ImageProcessor.Options())
	assert.Equal(t, m.LossSettings(), again.LossSettings())
	assert.ElementsMatch(t, r.Saved, golden.Load(t, filepath.Join(dir, "model.safetensors")).Names())
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(text, &config))
	for key, want := range r.Config {
		assert.Equal(t, want, config[key], key)
	}
	torch.ManualSeed(5)
	fine, err := auto.ObjectDetection(t.Context(), dir, auto.Options{ID2Label: []string{"a", "b", "c", "d", "e"},
		InitMismatched: true, Warnings: io.Discard})
	require.NoError(t, err)
	sameGenerator(t, r.FineGenerator)
	same(t, fine, "weight", r.Fine, identity)
}

// run repeats a run of Trainer, and compares what the trained model finds.
func (f file) run(t *testing.T, r *recorded) {
	m := r.fresh(t, auto.Options{})
	require.Len(t, r.Losses, 20)
	modeltest.Train(t, m.Task(), f.samples(t, m, 0, len(f.Annotations)), 1, r.Losses, r.GradNorms)
	sameGenerator(t, r.FinalGenerator)
	same(t, m, "final weight", r.Final, identity)
	if !testenv.SameBits() {
		return // the order of the found objects may differ
	}
	for _, i := range []int{3, 7} {
		im, _ := f.image(i)
		found, err := m.Predict(im, 0)
		require.NoError(t, err)
		value := func(what string) torch.Tensor {
			return f.values.Tensor(fmt.Sprintf("%s.found.%d.%s", r.Name, i, what)).ToDType(torch.Float64)
		}
		scores, boxes := torch.Values[float64](value("scores")), torch.Values[float64](value("boxes"))
		require.Len(t, found, len(scores))
		for k, label := range torch.Values[float64](value("labels")) {
			b := boxes[4*k:]
			assert.Contains(t, found, auto.Detection{Label: m.Head().ID2Label[int(label)], ID: int64(label), Score: scores[k],
				XMin: b[0], YMin: b[1], XMax: b[2], YMax: b[3]})
		}
		for k := range found[1:] {
			assert.GreaterOrEqual(t, found[k].Score, found[k+1].Score)
		}
	}
}
