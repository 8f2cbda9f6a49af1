package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/examples/internal/shapes"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// command runs the program.
func command(t *testing.T, args ...string) (pa.RunHistory, error) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1) // quick on a busy machine
	o, err := parse(append([]string{"-device", "cpu"}, args...))
	require.NoError(t, err)
	return execute(context.Background(), o, io.Discard)
}

func TestTellsShapesApart(t *testing.T) {
	dir := t.TempDir()
	history, err := command(t, "-out", dir)
	require.NoError(t, err)
	accuracy := history.MetricValues("accuracy")
	require.Len(t, accuracy, 8, "epochs of both runs")
	assert.GreaterOrEqual(t, accuracy[7], 0.8)
	again := resnet.ResNet18(&resnet.Options{NumClasses: 3})
	_, err = nn.Load(filepath.Join(dir, "model.safetensors"), again, nn.LoadOptions{})
	require.NoError(t, err)
}

func TestBeginsWithTheWeightsOfAFile(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	weights := filepath.Join(dir, "resnet18.safetensors")
	require.NoError(t, nn.Save(weights, resnet.ResNet18(nil), nil))
	history, err := command(t, "-out", dir, "-weights", weights, "-size", "8", "-epochs", "1", "-batch-size", "64")
	require.NoError(t, err)
	assert.Len(t, history.MetricValues("accuracy"), 3)

	require.NoError(t, nn.Save(weights, nn.NewLinear(1, 1, nil), nil))
	_, err = command(t, "-out", dir, "-weights", weights)
	var report *nn.LoadError
	assert.ErrorAs(t, err, &report)
}

// The numbers are those of pytorch-accelerated's ModelFreezer on torchvision's resnet18.
func TestFreezesAsInPython(t *testing.T) {
	testenv.RequireTorch(t)
	freezer := pa.NewModelFreezer(resnet.ResNet18(&resnet.Options{NumClasses: 3}), false)
	assert.Equal(t, 10, freezer.NumGroups())
	assert.Len(t, freezer.Layers(), 52)
	require.NoError(t, freezer.Freeze(0, -2, false))
	assert.Len(t, freezer.TrainableParameters(), 42, "of the batch normalisations and the head")
	groups, err := freezer.Unfreeze(-1, 0, true)
	require.NoError(t, err)
	sizes := map[int]int{}
	for group, params := range groups {
		sizes[group] = len(params)
	}
	assert.Equal(t, map[int]int{0: 1, 4: 4, 5: 5, 6: 5, 7: 5}, sizes)
}

func TestMistakesAreNamed(t *testing.T) {
	for _, args := range [][]string{{"-size", "0"}, {"-batch-size", "-1"}, {"-epochs", "0"}, {"-lr", "-1"},
		{"-lr", "nan"}, {"pictures"}} {
		_, err := parse(args)
		assert.ErrorContains(t, err, "want flags alone", "%q", args)
	}
	dir := t.TempDir()
	_, err := command(t, "-data", dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, shapes.Draw(dir, 1, 1))
	require.NoError(t, os.Rename(filepath.Join(dir, "val", "cross"), filepath.Join(dir, "val", "plus")))
	_, err = command(t, "-data", dir)
	assert.ErrorContains(t, err, "in val: want the same")
}
