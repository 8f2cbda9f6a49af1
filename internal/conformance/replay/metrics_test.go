package replay

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/safetensors"
)

// TestMetricsAreNumpys holds the metrics against numpy's, of which testdata/metrics.py says the
// numbers.
func TestMetricsAreNumpys(t *testing.T) {
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
		p := predictions{width: c.Width, labels: c.Labels}
		for _, v := range c.Logits {
			f, ok := v.(float64)
			if !ok {
				f = math.NaN()
			}
			p.logits = append(p.logits, float32(f))
		}
		got, err := p.compute(c.Metrics)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if diff := cmp.Diff(c.Expected, got); diff != "" {
			t.Errorf("%s (-numpy +ours):\n%s", c.Name, diff)
		}
	}
	p := predictions{width: 2, logits: []float32{1, 2}, labels: []float64{-100}}
	for _, name := range []string{"macro_f1", "mae", "bleu"} {
		if _, err := p.compute([]string{name}); err == nil {
			t.Errorf("%s of nothing was computed", name)
		}
	}
}

func TestCollate(t *testing.T) {
	number := func(values ...byte) column {
		c := column{safetensors.I64, []int64{int64(len(values))}, nil}
		for _, v := range values {
			c.raw = append(c.raw, v, 0, 0, 0, 0, 0, 0, 0)
		}
		return c
	}
	r := &rows{columns: map[string]column{
		"input_ids":      {safetensors.I64, []int64{2, 3}, number(7, 8, 9, 5, 0, 0).raw},
		"labels":         {safetensors.I64, []int64{2, 3}, number(1, 2, 3, 4, 5, 6).raw},
		"attention_mask": {safetensors.I64, []int64{2, 3}, number(1, 1, 0, 1, 0, 0).raw},
		"class":          {safetensors.U8, []int64{2}, []byte{3, 4}},
	}, n: 2, trim: true}
	var samples []row
	for i := range 2 {
		s, err := r.At(i)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, s)
	}
	b, err := collate(samples)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]int64{"input_ids": {7, 8, 5, 0}, "labels": {1, 2, 4, -100},
		"attention_mask": {1, 1, 1, 0}, "class": {3, 4}} {
		if diff := cmp.Diff(want, integers(b.columns[name])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if kept := b.keep([]string{"labels", "none"}); len(kept.columns) != 1 || !kept.has("labels") {
		t.Errorf("kept %v", kept.columns)
	}
	samples[1].values["class"] = column{safetensors.U8, []int64{1, 1}, []byte{4}}
	if _, err := collate(samples); err == nil {
		t.Error("values of different shapes were stacked")
	}
	delete(r.columns, "attention_mask")
	if _, err := r.At(0); err == nil {
		t.Error("a row was cut without an attention_mask")
	}
}
