package metrics_test

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/metrics"
)

// orNaN is null for NaN.
type orNaN float64

func (n *orNaN) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = orNaN(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

type meanIoUCase struct {
	Classes, Ignored int
	Reduce           bool
	Maps             []struct{ Predictions, References []int }
	Result           struct {
		Mean     orNaN   `json:"mean_iou"`
		Accuracy orNaN   `json:"mean_accuracy"`
		Overall  orNaN   `json:"overall_accuracy"`
		IoUs     []orNaN `json:"per_category_iou"`
		Each     []orNaN `json:"per_category_accuracy"`
	}
}

// sameNumber requires all bits, and NaN where it is NaN.
func sameNumber(t *testing.T, name string, want orNaN, got float64) {
	t.Helper()
	if math.IsNaN(float64(want)) {
		assert.True(t, math.IsNaN(got), "%s is %v, want NaN", name, got)
		return
	}
	assert.Equal(t, float64(want), got, name)
}

// TestMeanIoUIsThatOfEvaluate adds up the maps of two processes.
func TestMeanIoUIsThatOfEvaluate(t *testing.T) {
	text, err := os.ReadFile("testdata/meaniou.json")
	require.NoError(t, err)
	var f struct{ Cases []meanIoUCase }
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Cases, 9)
	for _, c := range f.Cases {
		total, part := &metrics.MeanIoU{}, &metrics.MeanIoU{}
		for _, m := range []*metrics.MeanIoU{total, part} {
			m.NumLabels, m.IgnoreIndex, m.ReduceLabels = c.Classes, &c.Ignored, c.Reduce
		}
		for i, maps := range c.Maps {
			for k, p := range maps.Predictions {
				[]*metrics.MeanIoU{total, part}[i%2].Add(p, maps.References[k])
			}
		}
		state, err := part.State()
		require.NoError(t, err)
		require.NoError(t, total.Merge(state))
		r := total.Result()
		require.Len(t, r, 3+2*c.Classes)
		sameNumber(t, "mean_iou", c.Result.Mean, r["mean_iou"])
		sameNumber(t, "mean_accuracy", c.Result.Accuracy, r["mean_accuracy"])
		sameNumber(t, "overall_accuracy", c.Result.Overall, r["overall_accuracy"])
		for i := range c.Classes {
			sameNumber(t, "iou", c.Result.IoUs[i], r["iou_"+strconv.Itoa(i)])
			sameNumber(t, "accuracy", c.Result.Each[i], r["accuracy_"+strconv.Itoa(i)])
		}
	}
}

func TestMeanIoUNamesClassesAndFindsHowManyThereAre(t *testing.T) {
	m := &metrics.MeanIoU{Labels: []string{"road", "sky"}}
	m.Add(0, 0)
	m.Add(1, 0)
	m.Add(1, 255)
	require.NoError(t, m.AddAreas([]int64{0, 3}, []int64{0, 3}, []int64{1, 3}))
	assert.Equal(t, map[string]float64{"mean_iou": (1./3 + 3./4) / 2, "mean_accuracy": (1./3 + 1) / 2,
		"overall_accuracy": 4. / 6, "iou_road": 1. / 3, "accuracy_road": 1. / 3, "iou_sky": 3. / 4, "accuracy_sky": 1},
		m.Result())
	assert.ErrorContains(t, m.AddAreas([]int64{1}, nil, []int64{1}),
		"areas of 1 intersections, 0 predictions and 1 labels; want as many of each")
	other := &metrics.MeanIoU{NumLabels: 3}
	state, err := other.State()
	require.NoError(t, err)
	require.ErrorIs(t, m.Merge(state), metrics.ErrState)
	m.Reset()
	assert.True(t, math.IsNaN(m.Result()["mean_iou"]))

	var all metrics.MeanIoU
	all.Add(2, 4)
	all.Add(-1, 1<<40)
	iou, accuracy := all.PerCategory()
	assert.Len(t, iou, 5)
	assert.Zero(t, accuracy[4])
}
