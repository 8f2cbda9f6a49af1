package metrics_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/metrics"
)

// mapCase is a case of testdata/meanaverageprecision.json, recorded with pycocotools.
type mapCase struct {
	Name string
	// Images are for each image the boxes found (class, x, y, width, height, score) and those there
	// (class, x, y, width, height, area, crowd).
	Images  [][2][][]float64
	Results map[string]float64
}

func mapCases(t *testing.T) []mapCase {
	t.Helper()
	text, err := os.ReadFile("testdata/meanaverageprecision.json")
	require.NoError(t, err)
	var file struct{ Cases []mapCase }
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Cases)
	return file.Cases
}

// add adds some of the images.
func (c mapCase) add(m *metrics.MeanAveragePrecision, from, to int) {
	for _, im := range c.Images[from:to] {
		var found, there []metrics.Box
		for _, b := range im[0] {
			found = append(found, metrics.Box{Class: int(b[0]), X: b[1], Y: b[2], Width: b[3], Height: b[4], Score: b[5]})
		}
		for _, b := range im[1] {
			there = append(there, metrics.Box{Class: int(b[0]), X: b[1], Y: b[2], Width: b[3], Height: b[4], Area: b[5],
				Crowd: b[6] == 1})
		}
		m.Add(found, there)
	}
}

func same(t *testing.T, name string, want, got map[string]float64) {
	t.Helper()
	require.Len(t, got, len(want), name)
	for key, v := range want {
		assert.InDelta(t, v, got[key], 1e-12, "%s: %s", name, key)
	}
}

// TestMeanAveragePrecisionIsPycocotools covers crowds, areas, ties, boxes without area and more
// predictions than count, on boxes made by hand and at random.
func TestMeanAveragePrecisionIsPycocotools(t *testing.T) {
	for _, c := range mapCases(t) {
		m := &metrics.MeanAveragePrecision{PerClass: true}
		c.add(m, 0, len(c.Images))
		same(t, c.Name, c.Results, m.Result())

		half := len(c.Images) / 2
		total, part := &metrics.MeanAveragePrecision{PerClass: true}, &metrics.MeanAveragePrecision{}
		c.add(total, 0, half)
		c.add(part, half, len(c.Images))
		state, err := part.State()
		require.NoError(t, err)
		require.NoError(t, total.Merge(state))
		same(t, c.Name+", in two parts", c.Results, total.Result())
		total.Reset()
		assert.InDelta(t, -1, total.Result()["map"], 0)
	}
}

func TestClassesOfMeanAveragePrecisionHaveNames(t *testing.T) {
	m := &metrics.MeanAveragePrecision{PerClass: true, Classes: []string{"cat"}}
	m.Add([]metrics.Box{{Class: 0, Width: 4, Height: 4, Score: 0.5}},
		[]metrics.Box{{Class: 0, Width: 4, Height: 4}, {Class: 1, Width: 2, Height: 2}})
	r := m.Result()
	assert.InDelta(t, 1, r["map_cat"], 1e-9)
	assert.Zero(t, r["mar_100_1"])
	assert.InDelta(t, 0.5, r["map"], 1e-9)
	assert.Equal(t, "map", m.Name())
	assert.ErrorIs(t, m.Merge([]byte("x")), metrics.ErrState)
}
