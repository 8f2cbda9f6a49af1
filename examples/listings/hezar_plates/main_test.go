package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/examples/listings/internal/fakehub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

func TestListing(t *testing.T) {
	testenv.RequireTorch(t)
	data, err := filepath.Abs("../../../compat/hezar/datasets/testdata/hub/ocr")
	require.NoError(t, err)
	server := fakehub.Start(t)
	fakehub.Add(t, server, hubtest.Dataset, "hezarai/persian-license-plate-v1", data)
	p, err := preprocessors.NewImageProcessor(preprocessors.ImageProcessorConfig{GrayScale: true, Mirror: true,
		Width: 64, Height: 64, Rescale: new(1 / 255.)})
	require.NoError(t, err)
	base, err := hezar.NewModel("crnn_image2text", hezar.Settings{"id2label": []string{"", "a", "b"}},
		&preprocessors.Set{Image: p})
	require.NoError(t, err)
	require.NoError(t, base.Save("base"))
	fakehub.Add(t, server, hubtest.Model, baseModelPath, "base")

	trainConfig.NumEpochs = 1
	require.NoError(t, train(t.Context()))
	again, err := hezar.LoadModel(t.Context(), "crnn-plate-fa-v1/checkpoints/1")
	require.NoError(t, err)
	assert.Greater(t, len(again.Labels()), 3, "those of the data set, not of the base")
}
