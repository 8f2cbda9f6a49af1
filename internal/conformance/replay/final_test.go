package replay

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/safetensors"
)

func TestCompareFinal(t *testing.T) {
	testenv.RequireTorch(t)
	write := func(entries ...safetensors.Entry) string {
		dir := t.TempDir()
		if err := safetensors.WriteFile(filepath.Join(dir, FinalName), entries, nil); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	f32 := func(name string, values ...float32) safetensors.Entry {
		var raw []byte
		for _, v := range values {
			bits := math.Float32bits(v)
			raw = append(raw, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
		}
		return safetensors.Entry{Name: name, DType: safetensors.F32, Shape: []int64{int64(len(values))},
			Data: safetensors.Bytes(raw)}
	}
	nan := float32(math.NaN())
	other := math.Float32frombits(math.Float32bits(nan) ^ 1)
	model := spec.Model{Kind: "bert"}
	for _, c := range []struct {
		claim     string
		a, b      []safetensors.Entry
		verdict   trace.Verdict
		inDetails string
	}{
		{"equal", []safetensors.Entry{f32("w", 1, 2)}, []safetensors.Entry{f32("w", 1, 2), f32("more", 3)}, trace.Bitwise,
			"1 tensors"},
		{"close", []safetensors.Entry{f32("w", 1, 2)}, []safetensors.Entry{f32("w", 1, 2.00001)}, trace.Within,
			"0/1 tensors bitwise"},
		{"too far", []safetensors.Entry{f32("w", 1, 2)}, []safetensors.Entry{f32("w", 1, 2.01)}, trace.Mismatch,
			"first w: relative"},
		{"ten times the tolerance for states", []safetensors.Entry{f32("optim.w.v", 1)},
			[]safetensors.Entry{f32("optim.w.v", 1.0005)}, trace.Within, ""},
		{"a key's bias is noise", []safetensors.Entry{f32("x.attention.self.key.bias", 1)},
			[]safetensors.Entry{f32("x.attention.self.key.bias", 9)}, trace.Within, ""},
		{"missing", []safetensors.Entry{f32("w", 1), f32("v", 1)}, []safetensors.Entry{f32("w", 1)}, trace.Mismatch,
			"1 tensors missing or of another size, first v"},
		{"of another size", []safetensors.Entry{f32("w", 1)}, []safetensors.Entry{f32("w", 1, 2)}, trace.Mismatch,
			"another size"},
		{"one nan is like another", []safetensors.Entry{f32("w", nan, 2)}, []safetensors.Entry{f32("w", other, 2)},
			trace.Bitwise, ""},
		{"nan is no number", []safetensors.Entry{f32("w", nan)}, []safetensors.Entry{f32("w", 1)}, trace.Mismatch, ""},
	} {
		var row trace.Row
		err := spec.Try(func() {
			row = CompareFinal(&spec.Spec{Model: model}, write(c.a...), filepath.Join(write(c.b...), FinalName),
				1e-4)
		})
		if err != nil || row.Verdict != c.verdict || !strings.Contains(row.Detail, c.inDetails) {
			t.Errorf("%s: %v %q (%v), want %v with %q", c.claim, row.Verdict, row.Detail, err, c.verdict, c.inDetails)
		}
	}
	if spec.Try(func() { CompareFinal(&spec.Spec{}, t.TempDir(), "none", 0) }) == nil {
		t.Error("a missing file was compared")
	}
}
