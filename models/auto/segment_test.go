package auto_test

import (
	"bytes"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/segformer"
	"github.com/gotrainer/gotrainer/models/segment"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// smallSegformer is a model of one stage that tells the given labels apart.
func smallSegformer(labels ...string) segformer.Config {
	return segformer.Config{HiddenSizes: []int64{8}, Depths: []int64{1}, NumHeads: []int64{2}, SRRatios: []int64{1},
		PatchSizes: []int64{3}, Strides: []int64{2}, MLPRatios: []int64{2}, DecoderHiddenSize: 8,
		Head: classify.Head{ID2Label: labels}}
}

const segformerProcessor = `{"size": {"height": 8, "width": 12}, "do_reduce_labels": true, "note": 3}`

// segformerFolder returns a folder with a model, made with the seed 3, and an image processor.
func segformerFolder(t *testing.T, labels ...string) string {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(3)
	m, err := auto.NewSemanticSegmentation(smallSegformer(labels...), nil)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(segformerProcessor), 0o600))
	return dir
}

// halves returns an image whose left half is red and whose right half is green, and its classes: 1
// and 2, and 0, which is no class, in the first row.
func halves(i int) (*vision.Image, *vision.LabelMap) {
	im, labels := vision.NewImage(9+i%3, 7, 3), vision.NewLabelMap(9+i%3, 7)
	for at := range labels.Pix {
		right := at % im.Width / (im.Width/2 + 1)
		im.Pix[3*at+right] = uint8(150 + 5*i)
		if at >= im.Width {
			labels.Pix[at] = uint16(1 + right)
		}
	}
	return im, labels
}

// TestAModelOfPixelsIsTrainedSavedAndLoaded checks that checkpoints and the output of Save are
// complete.
func TestAModelOfPixelsIsTrainedSavedAndLoaded(t *testing.T) {
	m, err := auto.SemanticSegmentation(t.Context(), segformerFolder(t, "left", "right"), auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, "SegformerForSemanticSegmentation", m.Architecture())
	var samples []segment.Sample
	for i := range 20 {
		s, err := m.Encode(halves(i))
		require.NoError(t, err)
		samples = append(samples, s)
	}
	assert.Equal(t, []int64{3, 8, 12}, samples[0].Shape)
	assert.Equal(t, []int64{255, 255, 0, 0, 1}, []int64{samples[0].Labels[0], samples[0].Labels[11], samples[0].Labels[24],
		samples[0].Labels[84], samples[0].Labels[95]})
	step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
	require.NoError(t, err)
	out := t.TempDir()
	fit, err := trainer.New(step, trainer.Options{Epochs: 6, BatchSize: 4, OutputDir: out, Progress: io.Discard})
	require.NoError(t, err)
	set := data.Slice[segment.Sample](samples)
	result, err := fit.Fit(t.Context(), set, set)
	require.NoError(t, err)
	last := result.History[len(result.History)-2] // the entry before that of the whole run
	assert.Greater(t, last["eval_mean_iou"], 0.9, "%v", last)
	assert.Contains(t, last, "eval_accuracy_left")
	checkpoints, err := filepath.Glob(filepath.Join(out, "checkpoint-*"))
	require.NoError(t, err)
	require.NotEmpty(t, checkpoints)

	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	for _, dir := range []string{dir, checkpoints[0]} {
		text, err := os.ReadFile(filepath.Join(dir, "preprocessor_config.json"))
		require.NoError(t, err)
		assert.Contains(t, string(text), `"note": 3`)
		assert.Contains(t, string(text), `"do_reduce_labels": true`)
		text, err = os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		assert.NotContains(t, string(text), "problem_type")
	}
	again, err := auto.SemanticSegmentation(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	im, labels := halves(4)
	want, err := m.Predict(im)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, im.Std()))
	file, mask := filepath.Join(dir, "halves.png"), filepath.Join(dir, "mask.png")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	got, err := again.PredictFile(file)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, []uint16{0, 1}, []uint16{got.Row(5)[1], got.Row(5)[8]})

	b.Reset()
	require.NoError(t, png.Encode(&b, labels.Std()))
	require.NoError(t, os.WriteFile(mask, b.Bytes(), 0o600))
	fromFiles, err := again.EncodeFile(file, mask)
	require.NoError(t, err)
	encoded, err := m.Encode(im, labels)
	require.NoError(t, err)
	assert.Equal(t, encoded, fromFiles)
	bare, err := again.EncodeFile(file, "")
	require.NoError(t, err)
	assert.Nil(t, bare.Labels)
	_, err = again.EncodeFile(file, file)
	require.ErrorContains(t, err, "its pixels are RGB colors")
}

// TestASegformerForImagesGetsADecodeHead: nvidia/mit-b0 is a classifier of images.
func TestASegformerForImagesGetsADecodeHead(t *testing.T) {
	testenv.RequireTorch(t)
	whole, err := auto.NewImageClassification(smallSegformer("cat", "dog", "bird"), nil)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, whole.Save(dir))
	var warnings bytes.Buffer
	m, err := auto.SemanticSegmentation(t.Context(), dir, auto.Options{ID2Label: []string{"road", "sky"},
		Warnings: &warnings})
	require.NoError(t, err)
	assert.Contains(t, warnings.String(), "decode_head.linear_fuse.weight")
	assert.Contains(t, warnings.String(), "classifier.weight")
	encoder := nn.StateDict(whole.OwnModules()[0].Module)
	for i, s := range nn.StateDict(m.OwnModules()[0].Module) {
		golden.Bits(t, s.Name, s.Tensor, encoder[i].Tensor)
	}
	classifier, err := auto.ImageClassification(t.Context(), dir, auto.Options{DType: torch.BFloat16,
		Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, "SegformerForImageClassification", classifier.Architecture())
	torch.NoGrad(func() {
		assert.Equal(t, []int64{2, 3}, classifier.Forward(torch.Zeros(2, 3, 9, 8)).Shape())
	})
}

// TestWhatASegmenterCannotDoIsNamed tries what other models can do.
func TestWhatASegmenterCannotDoIsNamed(t *testing.T) {
	dir := segformerFolder(t, "left", "right")
	load := func(o auto.Options) error {
		o.Warnings = io.Discard
		_, err := auto.SemanticSegmentation(t.Context(), dir, o)
		return err
	}
	require.ErrorContains(t, load(auto.Options{Quantize: &quantized.Config{}}),
		"weights in four bits are for models of texts")
	require.ErrorContains(t, load(auto.Options{ProblemType: classify.Regression}), `Options.ProblemType is "regression"`)
	require.ErrorContains(t, load(auto.Options{ID2Label: []string{"one"}}), "decode_head.classifier.weight")
	_, err := auto.SemanticSegmentation(t.Context(), vitFolder(t, ""), auto.Options{FromConfig: true})
	require.ErrorContains(t, err, `model_type is "vit"; want one of ["segformer"]`)
	_, err = auto.NewSemanticSegmentation(vit.Config{}, nil)
	require.ErrorContains(t, err, "a ViT is not for ForSemanticSegmentation")

	m, err := auto.NewSemanticSegmentation(smallSegformer("left", "right"), nil)
	require.NoError(t, err)
	im, labels := halves(0)
	_, err = m.Predict(im)
	require.ErrorContains(t, err, "the model has no image processor")
	m.ImageProcessor, err = vision.NewProcessor(vision.ProcessorOptions{Float32: true})
	require.NoError(t, err)
	_, err = m.Encode(im, vision.NewLabelMap(3, 7))
	require.ErrorContains(t, err, "the picture is 9x7 RGB and its map 3x7 labels; want the same size")
	_, err = m.Encode(nil, labels)
	require.ErrorContains(t, err, "want one of at least 1x1")
	require.ErrorContains(t, torch.Try(func() { m.Model.Forward(torch.Zeros(1, 2), torch.Tensor{}, torch.Tensor{}) }),
		"SemanticSegmenter.Forward")
	require.ErrorContains(t, m.FuseQKVProjections(true), "Segformer have no fused query")
}

// TestOneLabelIsPredicted where its logit is positive.
func TestOneLabelIsPredicted(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := auto.NewSemanticSegmentation(smallSegformer("road"), nil)
	require.NoError(t, err)
	m.ImageProcessor, err = vision.NewProcessor(vision.ProcessorOptions{Float32: true})
	require.NoError(t, err)
	im, _ := halves(0)
	for _, bias := range []float64{-100, 100} {
		torch.NoGrad(func() {
			m.OwnModules()[1].Module.(*segformer.DecodeHead).Classifier.Bias.Fill_(bias)
		})
		labels, err := m.Predict(im)
		require.NoError(t, err)
		for _, class := range labels.Pix {
			require.Equal(t, bias > 0, class == 1)
		}
	}
}
