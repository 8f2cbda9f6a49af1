package amp_test

import (
	"encoding/json"
	"testing"

	"github.com/gotrainer/gotrainer/amp"
)

func TestPrecisionsAreRead(t *testing.T) {
	tests := []struct {
		text string
		want amp.Precision
		ok   bool
	}{
		{"fp32", amp.FP32, true}, {"no", amp.FP32, true}, {"float32", amp.FP32, true},
		{"bf16", amp.BF16, true}, {"BF16", amp.BF16, true}, {"bfloat16", amp.BF16, true},
		{"fp16", amp.FP16, true}, {"float16", amp.FP16, true},
		{"", 0, false}, {"fp8", 0, false}, {"bf16 ", 0, false}, {"precision(3)", 0, false},
	}
	for _, test := range tests {
		got, err := amp.ParsePrecision(test.text)
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("ParsePrecision(%q) = %v, %v, want %v, ok %t", test.text, got, err, test.want, test.ok)
		}
	}
}

func TestPrecisionsSurviveJSON(t *testing.T) {
	for p, want := range map[amp.Precision]string{amp.FP32: `"fp32"`, amp.BF16: `"bf16"`, amp.FP16: `"fp16"`} {
		data, err := json.Marshal(p)
		if err != nil || string(data) != want {
			t.Errorf("Marshal(%v) = %s, %v, want %s", p, data, err, want)
		}
		got := amp.Precision(7)
		if err := json.Unmarshal(data, &got); err != nil || got != p {
			t.Errorf("Unmarshal(%s) = %v, %v, want %v", data, got, err, p)
		}
	}
	if data, err := json.Marshal(amp.Precision(3)); err == nil {
		t.Errorf("Marshal(precision 3) = %s, want an error", data)
	}
	p := amp.BF16
	if err := json.Unmarshal([]byte(`"fp8"`), &p); err == nil || p != amp.BF16 {
		t.Errorf("Unmarshal(fp8) = %v and %v, want an error and the value left alone", err, p)
	}
}

// Whatever is accepted must be written in a form that can be read again.
func FuzzParsePrecision(f *testing.F) {
	for _, s := range []string{"fp32", "no", "BF16", "float16", "", "precision(3)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := amp.ParsePrecision(s)
		if err != nil {
			if p != amp.FP32 {
				t.Errorf("ParsePrecision(%q) = %v with an error, want the zero value", s, p)
			}
			return
		}
		if again, err := amp.ParsePrecision(p.String()); err != nil || again != p {
			t.Errorf("ParsePrecision(%q) = %v, but ParsePrecision(%q) = %v, %v", s, p, p.String(), again, err)
		}
	})
}

func TestPrecisionOfFlags(t *testing.T) {
	for _, c := range []struct {
		fp16, bf16 bool
		want       amp.Precision
		wrong      bool
	}{{false, false, amp.FP32, false}, {true, false, amp.FP16, false}, {false, true, amp.BF16, false},
		{true, true, amp.FP32, true}} {
		if got, err := amp.FromFlags(c.fp16, c.bf16); got != c.want || (err != nil) != c.wrong {
			t.Errorf("FromFlags(%t, %t) = %s, %v", c.fp16, c.bf16, got, err)
		}
	}
}
