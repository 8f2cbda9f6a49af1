package segment_test

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
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/segment"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recordedRun is a run of Trainer.
type recordedRun struct {
	Losses     []string
	GradNorms  []string `json:"grad_norms"`
	Final      map[string]string
	Evaluation map[string]string
}

// recorded is the output of testdata/segment.py.
type recorded struct {
	Model   map[string]any // config.json
	Run     recordedRun
	Adapter struct {
		recordedRun
		Config     lora.Config
		Initial    map[string]string
		Trained    []string
		Saved      map[string]string
		FinalSaved map[string]string `json:"final_saved"`
	}
}

func load(t *testing.T) (r recorded, f *golden.File, samples []segment.Sample) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/segment.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	f = golden.Load(t, "testdata/segment.safetensors")
	return r, f, modeltest.EncoderMaps(f, inputs.ImageLimits{Channels: 3, Height: 16, Width: 24}, 4)
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T) *auto.SemanticSegmenter {
	t.Helper()
	torch.ManualSeed(42)
	m, err := auto.SemanticSegmentation(t.Context(), modeltest.ConfigFolder(t, r.Model), auto.Options{FromConfig: true,
		Warnings: io.Discard})
	require.NoError(t, err)
	return m
}

// TestARunIsThatOfTransformers repeats 20 updates of two micro-batches each, the evaluation with
// mean_iou, and the maps of a picture.
func TestARunIsThatOfTransformers(t *testing.T) {
	r, f, samples := load(t)
	goldencount.Start(t, "models", "segformer, accumulated run, evaluation and maps")
	m := r.fresh(t)
	task := segment.NewTask(m, segment.TaskOptions{SumWindow: true})
	fit := modeltest.TrainWithin(t, modeltest.Normalizing, task, samples, 2, r.Run.Losses, r.Run.GradNorms)
	modeltest.SameWeights(t, m, r.Run.Final)
	got, err := fit.Evaluate(t.Context(), data.Slice[segment.Sample](samples[:45]))
	require.NoError(t, err)
	modeltest.SameNumbers(t, r.Run.Evaluation, got, 5e-2)

	im, err := vision.Open("../../vision/testdata/files/rgb.png", vision.DecodeOptions{})
	require.NoError(t, err)
	m.ImageProcessor = processor(t, 20, 28)
	labels, err := m.Predict(im)
	require.NoError(t, err)
	sameMap(t, labels, f.Tensor("predicted.whole"))
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		s, err := m.Encode(im, nil)
		require.NoError(t, err)
		logits := m.Forward(torch.From(s.Pixels, append([]int64{1}, s.Shape...)...))
		small := segment.Predicted(segment.Resize(logits, 5, 7)).SqueezeDim(0)
		agree(t, small, f.Tensor("predicted.small"))
	})
}

// processor is a SegformerImageProcessor for pictures of that size.
func processor(t *testing.T, height, width int) *vision.Processor {
	t.Helper()
	c, err := vision.ParseProcessorConfig([]byte("{}"), "SegformerImageProcessor")
	require.NoError(t, err)
	c.Height, c.Width = height, width
	p, err := vision.NewProcessor(c.ProcessorOptions)
	require.NoError(t, err)
	return p
}

func sameMap(t *testing.T, got *vision.LabelMap, want torch.Tensor) {
	t.Helper()
	require.Equal(t, want.Shape(), []int64{int64(got.Height), int64(got.Width)})
	classes := make([]int64, len(got.Pix))
	for i, class := range got.Pix {
		classes[i] = int64(class)
	}
	agree(t, torch.From(classes, want.Shape()...), want)
}

// agree wants the same classes; on other machines for nearly all pixels.
func agree(t *testing.T, got, want torch.Tensor) {
	t.Helper()
	require.Equal(t, want.Shape(), got.Shape())
	share := got.Eq(want.ToDType(torch.Int64)).ToDType(torch.Float64).Mean(torch.DefaultDType).Item()
	if testenv.SameBits() {
		assert.InDelta(t, 1, share, 0)
		return
	}
	assert.Greater(t, share, 0.95)
}

// TestAnAdapterIsThatOfPeft covers the names of layers, the decode head with its running
// statistics, a run of Trainer, and loading what was saved.
func TestAnAdapterIsThatOfPeft(t *testing.T) {
	r, _, samples := load(t)
	a, m, base, dir := r.Adapter, r.fresh(t), t.TempDir(), t.TempDir()
	m.ImageProcessor = processor(t, 16, 24)
	require.NoError(t, m.Save(base))
	require.NoError(t, m.AddLoRA(a.Config))
	t.Run("run", func(t *testing.T) {
		goldencount.Start(t, "models", "segformer with updates, run")
		modeltest.SameWeights(t, m, a.Initial)
		modeltest.SameAdapter(t, m.Model, a.Trained, a.Saved)
		modeltest.TrainWithin(t, modeltest.Normalizing, m.Task(), samples, 1, a.Losses, a.GradNorms)
		modeltest.SameWeights(t, m, a.Final)
		modeltest.SameAdapter(t, m.Model, a.Trained, a.FinalSaved)
	})

	require.NoError(t, m.Save(dir))
	assert.FileExists(t, filepath.Join(dir, "preprocessor_config.json"))
	again, err := auto.SemanticSegmentation(t.Context(), dir, auto.Options{BaseModel: base, Warnings: io.Discard})
	require.NoError(t, err)
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		x := torch.Randn(2, 3, 16, 24)
		want := m.Forward(x)
		golden.Bits(t, "logits", again.Forward(x), want)
		require.NoError(t, again.MergeLoRA())
		golden.Close(t, "merged", again.Forward(x), want, 1e-4, 1e-5)
	})
	m = r.fresh(t)
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	assert.Contains(t, m.LoRA().Layers(), "segformer.stages.1.blocks.0.attention.v_proj")
	assert.Equal(t, []string{"decode_head"}, m.LoRA().Config().ModulesToSave)
}
