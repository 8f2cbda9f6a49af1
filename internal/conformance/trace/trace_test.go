package trace

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Compares the verdicts with those of the recordings' own compare.py (testdata/verdicts.py).
func TestCompareAgreesWithTheJudge(t *testing.T) {
	text, err := os.ReadFile("testdata/verdicts.json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var cases []map[string]any
	if err := d.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 80 {
		t.Fatalf("%d verdicts, want 80", len(cases))
	}
	seen := map[Verdict]int{}
	for i, c := range cases {
		rtol, err := c["rtol"].(json.Number).Float64()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, row := range Compare(c["stored"].(map[string]any), c["got"].(map[string]any), rtol) {
			got[row.Field] = row.Verdict.String()
			seen[row.Verdict]++
		}
		want := map[string]string{}
		for name, v := range c["rows"].(map[string]any) {
			want[name] = v.(string)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pair %d (-compare.py +Compare):\n%s", i, diff)
		}
	}
	if len(seen) != 4 {
		t.Errorf("the pairs have only the verdicts %v", seen)
	}
}

func TestNumbersAreWrittenAsPythonWritesThem(t *testing.T) {
	for _, c := range []struct {
		v   float64
		hex string
	}{
		{1.5, "0x1.8000000000000p+0"},
		{0, "0x0.0p+0"},
		{math.Copysign(0, -1), "-0x0.0p+0"},
		{-0.1, "-0x1.999999999999ap-4"},
		{5e-324, "0x0.0000000000001p-1022"},
		{1e-5, "0x1.4f8b588e368f1p-17"},
		{1e-4, "0x1.a36e2eb1c432dp-14"},
		{1e16, "0x1.1c37937e08000p+53"},
		{123456789012345680, "0x1.b69b4ba630f35p+56"},
		{1e15, "0x1.c6bf526340000p+49"},
		{math.NaN(), "nan"}, {math.Inf(1), "inf"}, {math.Inf(-1), "-inf"},
	} {
		if got := FormatHex(c.v); got != c.hex {
			t.Errorf("FormatHex(%v) = %s, want %s", c.v, got, c.hex)
		}
	}
}

func TestNumbersReadBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "v")
		if got, ok := ParseFloat(FormatHex(v)); !ok || math.Float64bits(got) != math.Float64bits(v) {
			t.Fatalf("%s reads as %v, want %v", FormatHex(v), got, v)
		}
	})
	for _, text := range []string{"", "1.5", "0xzz", "NaN", "infinity"} {
		if v, ok := ParseFloat(text); ok {
			t.Errorf("ParseFloat(%q) = %v, want a failure", text, v)
		}
	}
}

func TestMarshal(t *testing.T) {
	o := map[string]any{"a": nil, "b": []any{Object{"x": Hex(0.5), "y": []Hex{1}}, []int{1, 2}},
		"c": map[string]any{"z": true, "k": math.NaN()}, "d": []string{}, "e": int64(3)}
	text, err := Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "a": null,
 "b": [
  {"x": "0x1.0000000000000p-1", "y": ["0x1.0000000000000p+0"]},
  [1, 2]
 ],
 "c": {"k": "nan", "z": true},
 "d": [],
 "e": 3
}
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := Parse(text); err != nil {
		t.Errorf("what was written cannot be read: %v", err)
	}
	if _, err := Marshal(map[string]any{"f": struct{}{}}); err == nil || !strings.Contains(err.Error(), "f: ") {
		t.Errorf("a value of no known type: %v", err)
	}
}

func TestReportTellsWhereADifferenceBegins(t *testing.T) {
	stored := map[string]any{"updates": []any{map[string]any{"weights_norm": "0x1.0p+0"}},
		"micro_losses": []any{"0x1.0p+0", "0x1.8p+0"}, "best": map[string]any{"step": json.Number("1")}}
	got := map[string]any{"updates": []any{map[string]any{"weights_norm": "0x1.0000000000001p+0"}},
		"micro_losses": []any{"0x1.0p+0", "0x1.8000000000001p+0"}, "best": map[string]any{"step": json.Number("2")}}
	sum := Compare(stored, got, 1e-4).Sum()
	if sum.Begins != "micro_losses[1]" || sum.Worst == 0 {
		t.Errorf("begins at %s with %g, want micro_losses[1], which comes before the update", sum.Begins, sum.Worst)
	}
	if sum.Verdict != Mismatch || sum.Field != "best" || sum.Detail != "1 places, first best.step: stored 1, got 2" {
		t.Errorf("%+v", sum)
	}
	if v := (Report{}).Sum().Verdict; v != Bitwise {
		t.Errorf("a report without rows is %v", v)
	}
}

// FuzzParse looks for traces that the comparison cannot handle: a trace must equal itself.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"updates": [{"lr": ["0x1.8p+0"], "epoch": 0.5}], "error": null}`))
	f.Add([]byte(`{"error": {"where": "setup"}, "x": [1, "nan", true, {}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Parse(text)
		if err != nil {
			return
		}
		if e := v["error"]; truthy(e) {
			return
		}
		for _, row := range Compare(v, v, 1e-4) {
			if row.Verdict > Bitwise {
				t.Errorf("%s: %v %s", row.Field, row.Verdict, row.Detail)
			}
		}
	})
}
