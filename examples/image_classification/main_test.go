package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/examples/internal/shapes"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// command parses the flags and trains as the program does.
func command(t *testing.T, args ...string) (accuracy float64, err error) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1) // quick on a busy machine
	o, err := parse(append([]string{"-device", "cpu"}, args...))
	require.NoError(t, err)
	return train(t.Context(), o, io.Discard)
}

// TestTellsShapesApart trains on shapes and then classifies one of the images.
func TestTellsShapesApart(t *testing.T) {
	dir := t.TempDir()
	accuracy, err := command(t, "-out", dir, "-epochs", "4")
	require.NoError(t, err)
	assert.Greater(t, accuracy, 0.5, "a third is chance")
	path := filepath.Join(dir, "pictures", "val", "stripes", "000.png")
	o, err := parse([]string{"-predict", "-out", dir, path})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, predict(t.Context(), o, &out))
	assert.Regexp(t, `000\.png: (circle|cross|stripes) 0\.\d\d\d\n$`, out.String())

	_, err = command(t, "-out", dir)
	assert.ErrorContains(t, err, "earlier run")
}

// TestBeginsWithAnotherModel starts from a model with other classes, and holds out images because
// there is no val.
func TestBeginsWithAnotherModel(t *testing.T) {
	pictures, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, shapes.Draw(pictures, 8, 1))
	args := []string{"-data", pictures, "-epochs", "1", "-batch-size", "8"}
	_, err := command(t, append(args, "-out", first)...)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(pictures, "val")))
	require.NoError(t, os.RemoveAll(filepath.Join(pictures, "train", "cross")))
	args = append(args, "-model", first)
	_, err = command(t, append(args, "-out", second)...)
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(second, "preprocessor_config.json"))
	require.NoError(t, os.Remove(filepath.Join(first, "preprocessor_config.json")))
	_, err = command(t, append(args, "-out", t.TempDir())...)
	assert.ErrorContains(t, err, "says how pictures are prepared")
}

// TestBeginsWithAConvolutionalModel starts from a ResNet, whose images may have any size: its image
// processor says which.
func TestBeginsWithAConvolutionalModel(t *testing.T) {
	testenv.RequireTorch(t)
	pictures, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, shapes.Draw(pictures, 8, 1))
	p, err := vision.NewProcessor(vision.ProcessorOptions{ShortestEdge: 36, CropWidth: 32, CropHeight: 32, Float32: true,
		Rescale: 1 / 255.})
	require.NoError(t, err)
	m, err := auto.NewImageClassification(resnet.Config{EmbeddingSize: 8, HiddenSizes: []int64{8, 16},
		Depths: []int64{1, 1}, LayerType: resnet.BasicLayer, Head: classify.Head{NumLabels: 7}}, p)
	require.NoError(t, err)
	require.NoError(t, m.Save(first))
	_, err = command(t, "-data", pictures, "-epochs", "1", "-batch-size", "8", "-model", first, "-out", second)
	require.NoError(t, err)
	again, err := auto.ImageClassification(t.Context(), second, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, "ResNetForImageClassification", again.Architecture())
	assert.Equal(t, p.Options(), again.ImageProcessor.Options())
	assert.Equal(t, []string{"circle", "cross", "stripes"}, again.Head().ID2Label)
}

func TestMistakesAreNamed(t *testing.T) {
	for _, args := range [][]string{{"-batch-size", "-1"}, {"-epochs", "-1"}, {"-lr", "nan"}, {"-train-val-split", "1"}} {
		_, err := parse(args)
		assert.ErrorContains(t, err, "above 0", "%q", args)
	}
	for _, args := range [][]string{{"-predict"}, {"photo.jpg"}} {
		_, err := parse(args)
		assert.ErrorContains(t, err, "after -predict", "%q", args)
	}
	dir := t.TempDir()
	_, err := command(t, "-data", dir, "-out", t.TempDir())
	assert.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, shapes.Draw(dir, 1, 1))
	require.NoError(t, os.Rename(filepath.Join(dir, "val", "cross"), filepath.Join(dir, "val", "plus")))
	_, err = command(t, "-data", dir, "-out", t.TempDir())
	assert.ErrorContains(t, err, "in val: want the same")
}
