package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/safetensors"
)

// FinalName is the file of the tensors that a run ended with.
const FinalName = "final.safetensors"

// noise tells whether a tensor belongs to a parameter whose true gradient is zero, since softmax or
// BatchNorm removes it: adaptive optimizers turn its rounding noise into steps, so only bitwise
// equality says anything about it.
func noise(m spec.Model, name string) bool {
	if m.Kind == "bert" {
		return strings.Contains(name, "attention.self.key.bias")
	}
	match := hiddenBias.FindStringSubmatch(name)
	if match == nil || m.Options == nil || m.Options.Any("norm") != "batch" {
		return false
	}
	sizes, _ := m.Options.Any("sizes").([]any)
	return match[1] != fmt.Sprint(len(sizes)-2) // the last layer has no norm behind it
}

var hiddenBias = regexp.MustCompile(`layers\.(\d+)\.bias`)

// CompareFinal holds the tensors that a run ended with against the stored ones, those of dir. A
// tensor is bitwise equal, or the 2-norm of the difference is no more than the tolerance times the
// 2-norm; optimizer states have ten times the tolerance.
func CompareFinal(s *spec.Spec, dir, got string, r Rules) (Row, error) {
	row := Row{Field: FinalName}
	stored, err := readTensors(filepath.Join(dir, FinalName))
	if err != nil {
		return row, err
	}
	other, err := readTensors(got)
	if err != nil {
		return row, err
	}
	names := slices.Sorted(maps.Keys(stored))
	var missing, bad []string
	same := 0
	for _, name := range names {
		a := stored[name]
		b, ok := other[name]
		if !ok || len(a.values) != len(b.values) {
			missing = append(missing, name)
			continue
		}
		if bytes.Equal(a.raw, b.raw) || sameWithNaN(a.values, b.values) {
			same++
			continue
		}
		if row.Begins == "" {
			row.Begins = FinalName + " " + name
		}
		if noise(s.Model, name) {
			continue
		}
		d := distance(a.values, b.values) / max(distance(a.values, make([]float64, len(a.values))), aTol)
		row.Worst = max(row.Worst, d)
		limit := r.RTol
		if strings.HasPrefix(name, "optim.") {
			limit *= 10
		}
		if !(d <= limit) {
			bad = append(bad, fmt.Sprintf("%s: relative difference %.2e", name, d))
		}
	}
	switch {
	case len(missing) > 0:
		row.Verdict, row.Detail = Mismatch, fmt.Sprintf("%d tensors missing or of another size, first %s", len(missing),
			missing[0])
	case len(bad) > 0:
		row.Verdict, row.Detail = Mismatch, fmt.Sprintf("%d tensors, first %s", len(bad), bad[0])
	case same == len(names):
		row.Verdict, row.Detail = Bitwise, fmt.Sprintf("%d tensors", same)
	default:
		row.Verdict, row.Detail = Within, fmt.Sprintf("%d/%d tensors bitwise, worst relative difference %.2e", same,
			len(names), row.Worst)
		if r.Strict {
			row.Verdict = Mismatch
		}
	}
	return row, nil
}

type tensor struct {
	raw    []byte
	values []float64
}

func readTensors(path string) (map[string]tensor, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all := map[string]tensor{}
	for _, t := range f.Tensors() {
		raw, err := f.Read(t.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		values, err := floats(t.DType, raw)
		if err != nil {
			return nil, fmt.Errorf("%s: tensor %q: %w", path, t.Name, err)
		}
		all[t.Name] = tensor{raw, values}
	}
	return all, nil
}

// wide are the ways to widen the elements of a tensor.
var wide = map[safetensors.DType]func(raw []byte) ([]float64, error){
	safetensors.F64: elements(func(v float64) float64 { return v }),
	safetensors.F32: elements(func(v float32) float64 { return float64(v) }),
	safetensors.BF16: elements(func(v uint16) float64 {
		return float64(math.Float32frombits(uint32(v) << 16))
	}),
	safetensors.F16:  elements(half),
	safetensors.I64:  elements(func(v int64) float64 { return float64(v) }),
	safetensors.I32:  elements(func(v int32) float64 { return float64(v) }),
	safetensors.I16:  elements(func(v int16) float64 { return float64(v) }),
	safetensors.I8:   elements(func(v int8) float64 { return float64(v) }),
	safetensors.U8:   elements(func(v uint8) float64 { return float64(v) }),
	safetensors.Bool: elements(func(v uint8) float64 { return float64(v) }),
}

// floats widens the elements of a tensor.
func floats(d safetensors.DType, raw []byte) ([]float64, error) {
	widen, ok := wide[d]
	if !ok {
		return nil, fmt.Errorf("dtype %s cannot be compared", d)
	}
	return widen(raw)
}

func elements[T any](widen func(v T) float64) func(raw []byte) ([]float64, error) {
	return func(raw []byte) ([]float64, error) {
		list := make([]T, len(raw)/binary.Size(*new(T)))
		_, err := binary.Decode(raw, binary.LittleEndian, list)
		values := make([]float64, len(list))
		for i, v := range list {
			values[i] = widen(v)
		}
		return values, err
	}
}

// half is the value of a float16.
func half(b uint16) float64 {
	sign, exponent, mantissa := 1.0, int(b>>10&0x1f), float64(b&0x3ff)
	if b>>15 == 1 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(mantissa, -24)
	case 31:
		if mantissa != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+mantissa, exponent-25)
}

// sameWithNaN tells whether two tensors that hold a NaN have equal elements, NaN being equal to
// NaN.
func sameWithNaN(a, b []float64) bool {
	found := false
	for i := range a {
		switch {
		case math.IsNaN(a[i]):
			found = true
			if !math.IsNaN(b[i]) {
				return false
			}
		case a[i] != b[i]:
			return false
		}
	}
	return found
}

// distance is the 2-norm of a difference.
func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}
