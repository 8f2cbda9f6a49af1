package repository_test

import (
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

const published = "testdata/published" // testdata/published.py

// publishedModel returns a model with the published labels and random weights.
func publishedModel(t *testing.T) *repository.Model {
	t.Helper()
	config, err := repository.ReadConfig(published)
	require.NoError(t, err)
	set, err := preprocessors.Load(published)
	require.NoError(t, err)
	m, err := repository.New(config, set)
	require.NoError(t, err)
	c := m.CRNN.Config()
	assert.Equal(t, [2]int64{64, 256}, [2]int64{c.ImageHeight, c.ImageWidth}, "the pictures of the image processor")
	return m
}

func TestPublishedLabelsHoldALetterTwice(t *testing.T) {
	testenv.RequireTorch(t)
	var golden struct {
		IDs, Labels [][]int64
		Texts       []string
	}
	raw, err := os.ReadFile(filepath.Join(published, "readings.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &golden))
	m := publishedModel(t)
	for i, ids := range golden.IDs {
		assert.Equal(t, golden.Texts[i], m.CRNN.Text(ids), "ids decide: %v", ids)
	}
	picture := filepath.Join(t.TempDir(), "a.png")
	f, err := os.Create(picture)
	require.NoError(t, err)
	require.NoError(t, png.Encode(f, image.NewGray(image.Rect(0, 0, 8, 8))))
	require.NoError(t, f.Close())
	var rows []datasets.OCRRow
	for _, text := range []string{"۱۲ه۳۴۵", "هه", "ب"} {
		rows = append(rows, datasets.OCRRow{Path: picture, Text: text})
	}
	set, err := datasets.NewOCR(rows, m.Preprocessors.Image, datasets.OCROptions{Charset: m.Labels()})
	require.NoError(t, err)
	for i, want := range golden.Labels {
		s, err := set.At(i)
		require.NoError(t, err)
		assert.Equal(t, want, s.Labels, rows[i].Text)
	}
}

func TestPublishedFolderSurvives(t *testing.T) {
	testenv.RequireTorch(t)
	m, dir := publishedModel(t), t.TempDir()
	require.NoError(t, m.Save(dir))
	again, err := repository.Load(dir)
	require.NoError(t, err)
	sameWeights(t, m, again)
	config := filepath.Join(dir, repository.ConfigFile)
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(published, repository.ConfigFile))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(text))
	none := strings.NewReplacer("image_height: 32\nimage_width: 128\n", "")
	require.NoError(t, os.WriteFile(config, []byte(none.Replace(string(text))), 0o600))
	again, err = repository.Load(dir)
	require.NoError(t, err, "sizes that are absent")
	assert.Equal(t, m.CRNN.Config(), again.CRNN.Config())
}

func TestWeightsOfOtherNamesLoadByTheirPlace(t *testing.T) {
	testenv.RequireTorch(t)
	m, dir := publishedModel(t), t.TempDir()
	require.NoError(t, m.Save(dir))
	write := func(leave int) {
		entries, err := tensorio.Entries(nn.StateDict(m.Module()))
		require.NoError(t, err)
		for i := range entries {
			entries[i].Name = "model." + entries[i].Name
		}
		state, err := pickle.StateDict(entries[leave:])
		require.NoError(t, err)
		require.NoError(t, pickle.WriteFile(filepath.Join(dir, repository.WeightsFile), state))
	}
	write(0)
	again, err := repository.Load(dir)
	require.NoError(t, err)
	sameWeights(t, m, again)
	write(1)
	_, err = repository.Load(dir)
	assert.ErrorContains(t, err, repository.WeightsFile, "a missing tensor must be an error")
}
