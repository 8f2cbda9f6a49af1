package imagetest_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// recorded is the output of testdata/adapter.py for one model. The names in Saved are peft's, the
// others those in files of the model.
type recorded struct {
	Name           string
	Model          map[string]any // config.json
	Config         lora.Config    // adapter_config.json
	Initial, Final map[string]string
	Trained        []string
	Generator      string // after the model was made
	After          string // after the pass
	Checkpointing  bool
	Saved          map[string]string
	Grads          map[string]string
	Norms          map[string]float64
	Losses         []string
	GradNorms      []string `json:"grad_norms"`
	Merged         map[string]string
}

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/adapter.json")
	require.NoError(t, err)
	var f struct{ Models []recorded }
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 6)
	return f.Models, golden.Load(t, "testdata/adapter.safetensors")
}

// base makes the model without an adapter, with the seed 42.
func (r recorded) base(t *testing.T) *auto.ImageClassifier {
	t.Helper()
	torch.ManualSeed(42)
	m, err := auto.ImageClassification(t.Context(), modeltest.ConfigFolder(t, r.Model), auto.Options{FromConfig: true,
		Warnings: io.Discard})
	require.NoError(t, err)
	return m
}

// fresh makes the model with its adapter, with the seed 42.
func (r recorded) fresh(t *testing.T) *auto.ImageClassifier {
	t.Helper()
	m := r.base(t)
	require.NoError(t, m.AddLoRA(r.Config))
	return m
}

// forward computes the logits of the first images of the file.
func forward(t *testing.T, m *auto.ImageClassifier, file *golden.File) torch.Tensor {
	t.Helper()
	b, err := m.Task().Collate(modeltest.EncoderImages(file, m.ImageLimits())[:4])
	require.NoError(t, err)
	return m.Forward(torch.From(b.Pixels, b.Shape...))
}

func TestSameSeedGivesTheAdapterOfPeft(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t)
			if testenv.SameBits() {
				assert.Equal(t, r.Generator, modeltest.Generator(), "the generator has another state")
			}
			modeltest.SameWeights(t, m, r.Initial)
			modeltest.SameAdapter(t, m.Model, r.Trained, r.Saved)
		})
	}
}

func TestPassesHaveTheBitsOfPeft(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+" of images with updates")
			torch.Scope(func() { r.pass(t, file) })
		})
	}
}

func (r recorded) pass(t *testing.T, file *golden.File) {
	m := r.fresh(t)
	m.SetGradientCheckpointing(r.Checkpointing)
	torch.ManualSeed(7)
	logits := forward(t, m, file)
	logits.Square().Mean(torch.DefaultDType).Backward()
	golden.Recorded(t, "logits", logits.Detach(), file.Tensor(r.Name+".logits"))
	if testenv.SameBits() {
		assert.Equal(t, r.After, modeltest.Generator(), "the generator has another state")
	}
	modeltest.SameGrads(t, m, r.Grads, r.Norms, 1e-4)
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		golden.Recorded(t, "logits in evaluation mode", forward(t, m, file), file.Tensor(r.Name+".eval"))
	})
}

func TestRunsHaveTheBitsOfTrainerWithPeft(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+" of images with updates, run")
			m := r.fresh(t)
			modeltest.Train(t, m.Task(), modeltest.EncoderImages(file, m.ImageLimits()), 1, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			nn.SetTraining(m, false)
			torch.NoGrad(func() {
				near(t, "logits after training", forward(t, m, file), file.Tensor(r.Name+".trained"))
				require.NoError(t, m.MergeLoRA())
				near(t, "logits after merging", forward(t, m, file), file.Tensor(r.Name+".merged"))
			})
			modeltest.SameWeights(t, m, r.Merged)
			assert.Nil(t, m.LoRA())
		})
	}
}

// near compares the result of several updates, bit for bit on machines that compute the same
// numbers.
func near(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	if testenv.SameBits() {
		golden.Bits(t, name, got, want)
		return
	}
	assert.True(t, got.AllClose(want, 1e-3, 1e-3, false), name)
}

// TestAnAdapterOfPeftIsLoadedAndSaved loads an adapter that peft has trained and saved, over a model
// with another head, and saves it with the labels and the image processor.
func TestAnAdapterOfPeftIsLoadedAndSaved(t *testing.T) {
	models, file := load(t)
	for _, name := range []string{"vit", "convnext"} {
		r := models[slices.IndexFunc(models, func(r recorded) bool { return r.Name == name })]
		whole, base, dir, again := r.base(t), t.TempDir(), t.TempDir(), t.TempDir()
		require.NoError(t, whole.Save(base))
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
		processor := `{"image_processor_type": "ViTImageProcessor", "note": 3}`
		require.NoError(t, os.WriteFile(filepath.Join(base, "preprocessor_config.json"), []byte(processor), 0o600))
		m, err := auto.ImageClassification(t.Context(), dir, auto.Options{BaseModel: base, Warnings: io.Discard})
		require.NoError(t, err)
		require.NotNil(t, m.ImageProcessor)
		torch.NoGrad(func() { near(t, name, forward(t, m, file), file.Tensor(name+".trained")) })

		require.NoError(t, m.Save(again))
		assert.FileExists(t, filepath.Join(again, "preprocessor_config.json"))
		a, b := golden.Load(t, filepath.Join(dir, lora.WeightsName)), golden.Load(t, filepath.Join(again, lora.WeightsName))
		require.ElementsMatch(t, a.Names(), b.Names())
		for _, name := range a.Names() {
			golden.Bits(t, name, b.Tensor(name), a.Tensor(name))
		}
		m, err = auto.ImageClassification(t.Context(), again, auto.Options{BaseModel: base, Warnings: io.Discard})
		require.NoError(t, err)
		torch.NoGrad(func() { near(t, name, forward(t, m, file), file.Tensor(name+".trained")) })
	}
}

// TestConvolutionsTakeNoUpdates names the layer that would get one.
func TestConvolutionsTakeNoUpdates(t *testing.T) {
	models, _ := load(t)
	m := models[4].base(t)
	assert.ErrorContains(t, m.AddLoRA(lora.Config{TargetModules: []string{"dwconv"}}),
		`convnext.encoder.stages.0.layers.0.dwconv, which Config.TargetModules ["dwconv"] names, is a *nn.Conv2d`)
	assert.ErrorContains(t, models[0].base(t).AddLoRA(lora.Config{TargetModules: []string{"query"}}),
		"the linear ones are called classifier, fc1, fc2, k_proj, o_proj, q_proj, v_proj")
}

// TestCheckpointsOfATrainedAdapterLoad: they hold the adapter and the image processor only.
func TestCheckpointsOfATrainedAdapterLoad(t *testing.T) {
	models, file := load(t)
	m, base, out := models[0].base(t), t.TempDir(), t.TempDir()
	p, err := vision.NewProcessor(vision.ProcessorOptions{Width: 12, Height: 12, Float32: true})
	require.NoError(t, err)
	m.ImageProcessor = p
	require.NoError(t, m.Save(base))
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	assert.Contains(t, m.LoRA().Layers(), "vit.layers.1.attention.v_proj")
	step, err := engine.New(m.Task(), engine.Options{})
	require.NoError(t, err)
	fit, err := trainer.New(step, trainer.Options{OutputDir: out, MaxSteps: 3, Save: trainer.Every(3, trainer.Update),
		Progress: io.Discard})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), data.Slice[classify.ImageSample](modeltest.EncoderImages(file, m.ImageLimits())), nil)
	require.NoError(t, err)
	checkpoint := filepath.Join(out, "checkpoint-3")
	assert.NoFileExists(t, filepath.Join(checkpoint, "model.safetensors"))
	again, err := auto.ImageClassification(t.Context(), checkpoint, auto.Options{BaseModel: base, Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, p.Options(), again.ImageProcessor.Options())
	nn.SetTraining(m, false)
	torch.NoGrad(func() { golden.Bits(t, "logits", forward(t, again, file), forward(t, m, file)) })
}
