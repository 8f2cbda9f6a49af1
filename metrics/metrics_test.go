package metrics_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/metrics"
	"pgregory.net/rapid"
)

// golden is testdata/golden.json, written by golden.py.
type golden struct {
	Texts []struct {
		References, Predictions []string
		CER, WER                float64
		Hezar                   *float64 // missing where Hezar divides by zero
	}
	Labels []struct {
		References, Predictions        []int
		Accuracy                       float64
		Binary, Macro, Micro, Weighted map[string]float64
	}
}

func load(t *testing.T) golden {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Texts) == 0 || len(g.Labels) == 0 {
		t.Fatal("testdata/golden.json is empty")
	}
	return g
}

// result adds all pairs and returns the numbers.
func result[P any](m metrics.Metric[P], predictions, references []P) map[string]float64 {
	m.Reset()
	for i := range predictions {
		m.Add(predictions[i], references[i])
	}
	return m.Result()
}

func TestErrorRatesMatchJiwer(t *testing.T) {
	for _, c := range load(t).Texts {
		if got := result(&metrics.CER{}, c.Predictions, c.References)["cer"]; got != c.CER {
			t.Errorf("CER(%q for %q) = %v, want %v", c.Predictions, c.References, got, c.CER)
		}
		if got := result(&metrics.WER{}, c.Predictions, c.References)["wer"]; got != c.WER {
			t.Errorf("WER(%q for %q) = %v, want %v", c.Predictions, c.References, got, c.WER)
		}
		if got := result(&metrics.CER{CollapseSpaces: true}, c.Predictions, c.References)["cer"]; c.Hezar != nil &&
			got != *c.Hezar {
			t.Errorf("CER{CollapseSpaces}(%q for %q) = %v, want %v", c.Predictions, c.References, got, *c.Hezar)
		}
	}
}

func TestClassScoresMatchScikitLearn(t *testing.T) {
	for _, c := range load(t).Labels {
		if got := result(&metrics.Accuracy[int]{}, c.Predictions, c.References)["accuracy"]; got != c.Accuracy {
			t.Errorf("Accuracy(%v for %v) = %v, want %v", c.Predictions, c.References, got, c.Accuracy)
		}
		for name, row := range map[string]struct {
			average metrics.Average
			want    map[string]float64
		}{
			"zero value": {metrics.Average{}, c.Binary}, "binary": {metrics.Binary(1), c.Binary},
			"macro": {metrics.Macro(), c.Macro}, "micro": {metrics.Micro(), c.Micro}, "weighted": {metrics.Weighted(),
				c.Weighted},
		} {
			got := result(&metrics.F1{Average: row.average}, c.Predictions, c.References)
			for key, want := range row.want {
				if math.Abs(got[key]-want) > 1e-15 { // numpy adds in another order
					t.Errorf("%s %s(%v for %v) = %v, want %v", name, key, c.Predictions, c.References, got[key], want)
				}
			}
		}
	}
}

func TestBinaryScoresThePositiveLabel(t *testing.T) {
	got := result(&metrics.F1{Average: metrics.Binary(0)}, []int{0, 0, 1, 2}, []int{0, 1, 0, 0})
	want := map[string]float64{"precision": 0.5, "recall": 1.0 / 3, "f1": 0.4}
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("%s = %v, want %v", key, got[key], want[key])
		}
	}
}

func TestNothingIsZero(t *testing.T) {
	for _, m := range []metrics.Metric[int]{&metrics.Accuracy[int]{}, &metrics.F1{},
		&metrics.F1{Average: metrics.Macro()}, &metrics.BatchMean[int]{Of: &metrics.F1{}}} {
		if got, ok := m.Result()[m.Name()]; got != 0 || !ok {
			t.Errorf("%T of nothing = %v, want %s 0", m, m.Result(), m.Name())
		}
	}
	for _, m := range []metrics.Metric[string]{&metrics.CER{}, &metrics.WER{}, &metrics.ExactMatch{}} {
		if got, ok := m.Result()[m.Name()]; got != 0 || !ok {
			t.Errorf("%T of nothing = %v, want %s 0", m, m.Result(), m.Name())
		}
	}
}

func TestResetForgets(t *testing.T) {
	for _, m := range []metrics.Metric[string]{&metrics.CER{}, &metrics.WER{}, &metrics.ExactMatch{},
		&metrics.Accuracy[string]{}, &metrics.BatchMean[string]{Of: &metrics.CER{}}} {
		m.Add("x", "abc")
		m.Reset()
		m.Add("a b", "a b")
		want := 0.0
		if name := m.Name(); name == "exact_match" || name == "accuracy" {
			want = 1
		}
		if got := m.Result()[m.Name()]; got != want {
			t.Errorf("%T after Reset = %v, want %v", m, got, want)
		}
	}
	f := &metrics.F1{Average: metrics.Macro()}
	f.Add(3, 4)
	f.Reset()
	if f.Add(1, 1); f.Result()["f1"] != 1 {
		t.Errorf("F1 after Reset = %v, want 1", f.Result()["f1"])
	}
}

func TestExactMatchCountsEveryByte(t *testing.T) {
	got := result(&metrics.ExactMatch{}, []string{"a", "a ", "é", "b"}, []string{"a", "a", "e\u0301", "b"})
	if got["exact_match"] != 0.5 {
		t.Errorf("ExactMatch = %v, want 0.5", got)
	}
}

func TestBatchMeanWeighsBatchesAlike(t *testing.T) {
	m := &metrics.BatchMean[string]{Of: &metrics.CER{}, Decimals: 4}
	m.Add("abx", "abc")
	m.Add("abc", "abc")
	m.EndBatch() // 1/6, rounded to 0.1667
	m.EndBatch() // no pairs: not a batch
	m.Add("x", "y")
	if got, want := m.Result()["cer"], (0.1667+1)/2; got != want {
		t.Errorf("BatchMean = %v, want %v", got, want)
	}
	if got, want := m.Result()["cer"], (0.1667+1)/2; got != want {
		t.Errorf("a second Result = %v, want %v", got, want)
	}
}

// slowLevenshtein computes the distance by its definition.
func slowLevenshtein(a, b []byte) int {
	switch {
	case len(a) == 0:
		return len(b)
	case len(b) == 0:
		return len(a)
	case a[0] == b[0]:
		return slowLevenshtein(a[1:], b[1:])
	}
	return 1 + min(slowLevenshtein(a[1:], b[1:]), slowLevenshtein(a[1:], b), slowLevenshtein(a, b[1:]))
}

func TestLevenshteinIsItsDefinition(t *testing.T) {
	word := rapid.SliceOfN(rapid.ByteRange('a', 'c'), 0, 7)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := metrics.Levenshtein(a, b), slowLevenshtein(a, b); got != want {
			t.Fatalf("Levenshtein(%q, %q) = %d, want %d", a, b, got, want)
		}
	})
}

func ExampleCER() {
	var cer metrics.CER
	cer.Add("۱۲پ۳۴", "۱۲ب۳۴۵") // one substitution, one deletion
	cer.Add("۷۷", "۷۷")
	fmt.Println(cer.Result()["cer"])
	// Output: 0.25
}

func BenchmarkCERPlate(b *testing.B) {
	b.ReportAllocs()
	var cer metrics.CER
	for b.Loop() {
		cer.Add("۱۲پ۳۴۵۶۷", "۱۲ب۳۴۵۶۸")
	}
}
