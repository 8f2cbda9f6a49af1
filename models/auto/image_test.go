package auto_test

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// vitFolder returns a folder with a small ViT, without weights.
func vitFolder(t *testing.T, processor string) string {
	t.Helper()
	testenv.RequireTorch(t)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	write("config.json", `{"model_type": "vit", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
		"intermediate_size": 16, "image_size": 8, "patch_size": 4, "id2label": {"0": "red", "1": "green", "2": "blue"}}`)
	if processor != "" {
		write("preprocessor_config.json", processor)
	}
	return dir
}

const vitProcessor = `{"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}, "note": 3}`

func freshViT(t *testing.T, dir string, o auto.Options) *auto.ImageClassifier {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(3)
	m, err := auto.ImageClassification(t.Context(), dir, o)
	require.NoError(t, err)
	return m
}

// colour returns an image in one of three colours, whose brightness depends on i.
func colour(class, i int) *vision.Image {
	im := vision.NewImage(11, 9, 3)
	for at := class; at < len(im.Pix); at += 3 {
		im.Pix[at] = uint8(100 + 5*i)
	}
	return im
}

// TestAModelOfPicturesIsTrainedSavedAndLoaded checks that checkpoints and the output of Save are
// complete.
func TestAModelOfPicturesIsTrainedSavedAndLoaded(t *testing.T) {
	m := freshViT(t, vitFolder(t, vitProcessor), auto.Options{})
	var samples []classify.ImageSample
	for i := range 30 {
		s, err := m.Encode(colour(i%3, i), int64(i%3))
		require.NoError(t, err)
		samples = append(samples, s)
	}
	step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
	require.NoError(t, err)
	out := t.TempDir()
	fit, err := trainer.New(step, trainer.Options{Epochs: 8, BatchSize: 6, OutputDir: out, Progress: io.Discard})
	require.NoError(t, err)
	set := data.Slice[classify.ImageSample](samples)
	result, err := fit.Fit(t.Context(), set, set)
	require.NoError(t, err)
	last := result.History[len(result.History)-2] // the entry before that of the whole run
	assert.InDelta(t, 1, last["eval_accuracy"], 0, "%v", last)
	checkpoints, err := filepath.Glob(filepath.Join(out, "checkpoint-*", "preprocessor_config.json"))
	require.NoError(t, err)
	assert.NotEmpty(t, checkpoints)

	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	text, err := os.ReadFile(filepath.Join(dir, "preprocessor_config.json"))
	require.NoError(t, err)
	assert.Contains(t, string(text), `"note": 3`)
	again, err := auto.ImageClassification(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.False(t, again.Training())
	file := filepath.Join(dir, "green.ppm")
	require.NoError(t, os.WriteFile(file, append([]byte("P6 11 9 255\n"), colour(1, 4).Pix...), 0o666))
	want, err := m.Predict(colour(1, 4))
	require.NoError(t, err)
	got, err := again.PredictFile(file)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	require.Len(t, got, 3)
	assert.Equal(t, "green", got[0].Label)
	assert.Equal(t, int64(1), got[0].ID)
	assert.InDelta(t, 1, got[0].Score+got[1].Score+got[2].Score, 1e-12)
	assert.GreaterOrEqual(t, got[1].Score, got[2].Score)
}

// TestScoresAreWhatTheHeadMeans expects independent probabilities for multi-label classification,
// and plain numbers for regression.
func TestScoresAreWhatTheHeadMeans(t *testing.T) {
	for _, problem := range []classify.ProblemType{classify.MultiLabel, classify.Regression} {
		m := freshViT(t, vitFolder(t, vitProcessor), auto.Options{ProblemType: problem})
		classes, err := m.Predict(colour(0, 0))
		require.NoError(t, err)
		s, err := m.Encode(colour(0, 0), 0)
		require.NoError(t, err)
		nn.SetTraining(m, false)
		torch.NoGrad(func() {
			logits := torch.Values[float32](m.Forward(torch.From(s.Pixels, 1, 3, 8, 8)))
			for _, c := range classes {
				want := float64(logits[c.ID])
				if problem == classify.MultiLabel {
					want = 1 / (1 + math.Exp(-want))
				}
				assert.InDelta(t, want, c.Score, 1e-6)
			}
		})
	}
}

// TestAnotherImageProcessorIsSaved replaces the folder's image processor, or adds one.
func TestAnotherImageProcessorIsSaved(t *testing.T) {
	for processor, dtype := range map[string]torch.DType{vitProcessor: torch.BFloat16, "": torch.Float16} {
		m := freshViT(t, vitFolder(t, processor), auto.Options{DType: dtype})
		p, err := vision.NewProcessor(vision.ProcessorOptions{Width: 8, Height: 8, Rescale: 1 / 255., Float32: true,
			Filter: vision.Lanczos})
		require.NoError(t, err)
		m.ImageProcessor = p
		dir := t.TempDir()
		require.NoError(t, m.Save(dir))
		again, err := auto.ImageClassification(t.Context(), dir, auto.Options{KeepDType: true})
		require.NoError(t, err)
		assert.Equal(t, p.Options(), again.ImageProcessor.Options())
		want, err := m.Predict(colour(2, 3))
		require.NoError(t, err)
		got, err := again.Predict(colour(2, 3))
		require.NoError(t, err)
		assert.Equal(t, want, got, "in %v", dtype)
	}
}

func TestWhatAModelOfPicturesCannotTakeIsNamed(t *testing.T) {
	dir := vitFolder(t, "")
	var told bytes.Buffer
	m, err := auto.ImageClassification(t.Context(), dir, auto.Options{FromConfig: true, Warnings: &told})
	require.NoError(t, err)
	assert.Contains(t, told.String(), "has no preprocessor_config.json")
	_, err = m.Predict(colour(0, 0))
	assert.ErrorContains(t, err, "set Model.ImageProcessor")
	_, err = m.EncodeFile(filepath.Join(dir, "none.png"), 0)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, m.SetPaddingFree(true), "ViT cannot leave padding out")
	assert.Nil(t, m.InputEmbeddings())
	assert.Nil(t, m.OutputEmbeddings())
	assert.Empty(t, m.TiedWeights())
	assert.ErrorContains(t, torch.Try(func() { m.Model.Forward(torch.Zeros(1, 1), torch.Tensor{}, torch.Tensor{}) }),
		"takes pictures")
	_, err = engine.New(m.Task(), engine.Options{NEFTuneAlpha: 5})
	assert.ErrorContains(t, err, "NEFTuneAlpha is 5; want 0")

	m.ImageProcessor, err = vision.NewProcessor(vision.ProcessorOptions{Width: 7, Height: 8})
	require.NoError(t, err)
	_, err = m.Predict(colour(0, 0))
	assert.ErrorContains(t, err, "Shape is [3 8 7]; the model takes pictures of [3 8 8]")
	_, err = m.Predict(nil)
	assert.ErrorContains(t, err, "want one of at least 1x1")
	require.NoError(t, m.InterpolatePosEncoding(true))
	_, err = m.Predict(colour(0, 0))
	assert.NoError(t, err)

	load := func(dir string, o auto.Options) error {
		o.FromConfig, o.Warnings = true, io.Discard
		_, err := auto.ImageClassification(t.Context(), dir, o)
		return err
	}
	assert.ErrorContains(t, load(vitFolder(t, `{"image_processor_type": "Other"}`), auto.Options{}),
		`image_processor_type is "Other"`)
	assert.ErrorContains(t, load(dir, auto.Options{Quantize: &quantized.Config{}}), "Options.Quantize is set")
	assert.ErrorContains(t, load(dir, auto.Options{Attention: transformer.Attention("flash")}), "flash")
	_, err = auto.SequenceClassification(t.Context(), vitFolder(t, ""), auto.Options{FromConfig: true})
	assert.ErrorContains(t, err, `model_type is "vit"; want one of`)
}

// TestModelsOfNoFileAreMade makes models without files, and refuses other tasks.
func TestModelsOfNoFileAreMade(t *testing.T) {
	testenv.RequireTorch(t)
	c := vit.Config{HiddenSize: 8, NumLayers: 1, NumHeads: 2, IntermediateSize: 8,
		PatchSize: vit.Size{Height: 4, Width: 2}, ImageSize: vit.Size{Height: 8, Width: 6}, DeiT: true,
		Head: classify.Head{ID2Label: []string{"a", "b"}}}
	p, err := vision.NewProcessor(vision.ProcessorOptions{Height: 8, Width: 6, Float32: true})
	require.NoError(t, err)
	m, err := auto.NewImageClassification(c, p)
	require.NoError(t, err)
	assert.True(t, m.Training())
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again, err := auto.ImageClassification(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, "DeiTForImageClassification", again.Architecture())
	assert.Equal(t, p.Options(), again.ImageProcessor.Options())
	want, err := m.Predict(colour(0, 0))
	require.NoError(t, err)
	got, err := again.Predict(colour(0, 0))
	require.NoError(t, err)
	assert.Equal(t, want, got)

	m, err = auto.NewImageClassification(c, nil)
	require.NoError(t, err)
	_, err = m.Predict(colour(0, 0))
	assert.ErrorContains(t, err, "the model has no image processor")
	_, err = auto.NewImageClassification(gpt2.Config{}, nil)
	assert.ErrorContains(t, err, "a GPT2 is not for ForImageClassification")
	_, err = auto.NewCausalLM(c, nil)
	assert.ErrorContains(t, err, "a DeiT is not for ForCausalLM")
	c.NumHeads = 3
	_, err = auto.NewImageClassification(c, nil)
	assert.ErrorContains(t, err, "HiddenSize is 8")
}

// TestAHeadOfOtherClassesIsDrawn checks that this needs InitMismatched.
func TestAHeadOfOtherClassesIsDrawn(t *testing.T) {
	m, dir := freshViT(t, vitFolder(t, vitProcessor), auto.Options{}), t.TempDir()
	require.NoError(t, m.Save(dir))
	o := auto.Options{ID2Label: []string{"cat", "dog"}, Warnings: io.Discard}
	_, err := auto.ImageClassification(t.Context(), dir, o)
	require.ErrorContains(t, err, "InitMismatched")
	o.InitMismatched = true
	again, err := auto.ImageClassification(t.Context(), dir, o)
	require.NoError(t, err)
	assert.Equal(t, []string{"classifier.weight", "classifier.bias"}, again.Report.Initialized)
	assert.Equal(t, []string{"cat", "dog"}, again.Head().ID2Label)
}
