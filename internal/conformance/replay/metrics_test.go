package replay

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// Compares the metrics with numpy's, computed by testdata/metrics.py.
func TestMetricsAreNumpys(t *testing.T) {
	testenv.RequireTorch(t)
	text, err := os.ReadFile("testdata/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name     string
		Metrics  []string
		Logits   []any
		Width    int
		Labels   []float64
		Expected map[string]float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 8 {
		t.Fatalf("%d cases, want 8", len(cases))
	}
	for _, c := range cases {
		var logits []float32
		for _, v := range c.Logits {
			f, ok := v.(float64)
			if !ok {
				f = math.NaN()
			}
			logits = append(logits, float32(f))
		}
		var p predictions
		p.add(torch.From(logits, int64(len(logits)/c.Width), int64(c.Width)), torch.From(c.Labels))
		got, err := p.compute(c.Metrics)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if diff := cmp.Diff(c.Expected, got); diff != "" {
			t.Errorf("%s (-numpy +ours):\n%s", c.Name, diff)
		}
	}
	var p predictions
	p.add(torch.From([]float32{1, 2}, 1, 2), torch.From([]float64{-100}))
	for _, name := range []string{"macro_f1", "mae", "bleu"} {
		_, err := p.compute([]string{name})
		assert.Error(t, err, name)
	}
	p.add(torch.From([]float32{1, 2}, 2, 1), torch.From([]float64{1, 1}))
	_, err = p.compute([]string{"accuracy"})
	assert.Error(t, err, "outputs of different shapes make no array")
}

func TestCollate(t *testing.T) {
	testenv.RequireTorch(t)
	r := &rows{columns: map[string]torch.Tensor{
		"input_ids":      torch.From([]int64{7, 8, 9, 5, 0, 0}, 2, 3),
		"labels":         torch.From([]int64{1, 2, 3, 4, 5, 6}, 2, 3),
		"attention_mask": torch.From([]int64{1, 1, 0, 1, 0, 0}, 2, 3),
		"class":          torch.From([]uint8{3, 4}, 2),
	}, n: 2, trim: true}
	var samples []row
	for i := range 2 {
		s, err := r.At(i)
		require.NoError(t, err)
		samples = append(samples, s)
	}
	b, err := collate(samples)
	require.NoError(t, err)
	for name, want := range map[string][]int64{"input_ids": {7, 8, 5, 0}, "labels": {1, 2, 4, -100},
		"attention_mask": {1, 1, 1, 0}, "class": {3, 4}} {
		assert.Equal(t, want, integers(b.columns[name]), name)
	}
	kept := b.keep([]string{"labels", "none"})
	assert.True(t, len(kept.columns) == 1 && kept.has("labels"), "kept %v", kept.columns)
	samples[1].values["class"] = torch.From([]uint8{4}, 1, 1)
	_, err = collate(samples)
	assert.ErrorContains(t, err, "column class: sample 0 has shape", "values of different shapes were stacked")
	delete(r.columns, "attention_mask")
	_, err = r.At(0)
	assert.Error(t, err, "a row was cut without an attention_mask")
}
