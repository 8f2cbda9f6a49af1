package omegaconf

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// recorded is a text that OmegaConf wrote, with the written items: testdata/recorded.py.
type recorded struct {
	Text  string
	Items json.RawMessage
	Same  bool // OmegaConf reads back what it wrote
}

func readRecorded(t testing.TB) (list []recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// decode decodes a value of the recording: {"map": [[key, value], ...]}, {"float": hex}, lists and
// plain values.
func decode(t testing.TB, raw json.RawMessage) any {
	t.Helper()
	switch raw[0] {
	case '{':
		var o struct {
			Map   [][2]json.RawMessage
			Float string
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		if o.Float != "" {
			v, err := strconv.ParseFloat(o.Float, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		m := Map{}
		for _, item := range o.Map {
			m = append(m, Item{decode(t, item[0]), decode(t, item[1])})
		}
		return m
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		out := []any{}
		for _, v := range list {
			out = append(out, decode(t, v))
		}
		return out
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	switch string(raw) {
	case "null":
		return nil
	case "true":
		return true
	case "false":
		return false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMarshalWritesWhatOmegaConfWrites(t *testing.T) {
	list := readRecorded(t)
	if len(list) < 150 {
		t.Fatalf("only %d texts", len(list))
	}
	for i, r := range list {
		m := decode(t, r.Items).(Map)
		got, err := Marshal(m)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
		} else if string(got) != r.Text {
			t.Errorf("case %d: Marshal(%v) differs from OmegaConf's (-want +got):\n%s", i, m,
				cmp.Diff(r.Text, string(got)))
		}
	}
}

func TestUnmarshalReadsWhatOmegaConfWrites(t *testing.T) {
	for i, r := range readRecorded(t) {
		if !r.Same {
			continue
		}
		got, err := Unmarshal([]byte(r.Text))
		if err != nil {
			t.Errorf("case %d: %v\n%s", i, err, r.Text)
		} else if diff := cmp.Diff(decode(t, r.Items), any(got)); diff != "" {
			t.Errorf("case %d: (-want +got)\n%s", i, diff)
		}
	}
}

func TestNumbersAreThoseOfOmegaConf(t *testing.T) {
	for text, want := range map[string]any{
		"1e-5": 1e-5, "1.0e-05": 1e-5, "1E+3": 1000.0, "-2.": -2.0, ".5": 0.5, "010": int64(8), "0x1F": int64(31),
		"0b101": int64(5), "-0x10": int64(-16), "1_000": int64(1000),
		"1:30": int64(90), "-1:30": int64(-90), "yes": true, "Off": false, "y": "y", "~": nil, "": nil, "null": nil,
		"'1'": "1", `"no"`: "no", "1e400": math.Inf(1), "-.inf": math.Inf(-1),
		"2024-01-02": "2024-01-02", "cuda:0": "cuda:0",
	} {
		m, err := Unmarshal([]byte("a: " + text + "\n"))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got, _ := m.Get("a"); got != want {
			t.Errorf("%q is read as %#v, want %#v", text, got, want)
		}
	}
	if m, err := Unmarshal([]byte("a: .nan\n")); err != nil || !math.IsNaN(m[0].Value.(float64)) {
		t.Errorf(".nan is read as %v (%v)", m, err)
	}
}

func TestUnmarshalSaysWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct{ claim, text, want string }{
		{"a list is no configuration", "- a\n", "no mapping"},
		{"keys occur once", "a: 1\nb: 2\na: 3\n", `line 3: the key a occurs twice`},
		{"aliases are refused", "a: &x 1\nb: *x\n", "line 1: an anchor"},
		{"tags are refused", "a: !!python/object:os.system 1\n", "the tag"},
		{"large numbers are refused", "a: 99999999999999999999\n", "line 1: the number 99999999999999999999 does not " +
			"fit"},
		{"what is no YAML is refused", "a: [1\n", "omegaconf: yaml:"},
		{"a key is a string or an integer", "1.5: a\n", "no string and no integer"},
		{"depth has an end", "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "levels"},
	} {
		if _, err := Unmarshal([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", c.claim, err, c.want)
		}
	}
}

func TestMarshalRefusesWhatYAMLCannotHold(t *testing.T) {
	for _, m := range []Map{{{"a", struct{}{}}}, {{1.5, "a"}}, {{"a", []any{func() {}}}}} {
		if text, err := Marshal(m); err == nil {
			t.Errorf("%v is written as %q", m, text)
		}
	}
	deep := Map{{"a", nil}}
	for range 200 {
		deep = Map{{"a", deep}}
	}
	if _, err := Marshal(deep); err == nil {
		t.Error("200 levels are written")
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scalar := rapid.OneOf(rapid.Just(any(nil)),
			rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "b") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "i") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.Float64().Draw(t, "f") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.StringMatching(`[ -~۰-۹\n]{0,120}`).Draw(t, "s") }))
		m := Map{}
		for i, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z :'#-]{1,12}`), 1, 6, rapid.ID).Draw(t,
			"keys") {
			if i%2 == 0 {
				m = append(m, Item{key, scalar.Draw(t, "v")})
			} else {
				m = append(m, Item{key, rapid.SliceOfN(scalar, 0, 4).Draw(t, "list")})
			}
		}
		text, err := Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Unmarshal(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(m, back); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, text)
		}
	})
}

func FuzzUnmarshal(f *testing.F) {
	for _, r := range readRecorded(f)[:20] {
		f.Add([]byte(r.Text))
	}
	f.Add([]byte("a: &x [*x]\n? b\n: c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Unmarshal(text)
		if err != nil {
			return
		}
		if _, err := Marshal(m); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}
