package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/torch"
)

// FinalName is the file of the final tensors of a run.
const FinalName = "final.safetensors"

// noise reports whether a tensor belongs to a parameter whose gradient is zero in exact arithmetic,
// because softmax or BatchNorm cancels it. Adaptive optimizers turn its rounding errors into steps,
// so it can only be compared bitwise.
func noise(m spec.Model, name string) bool {
	if m.Kind == "bert" {
		return strings.Contains(name, "attention.self.key.bias")
	}
	match := hiddenBias.FindStringSubmatch(name)
	if match == nil || m.Options == nil || m.Options.Any("norm") != "batch" {
		return false
	}
	sizes, _ := m.Options.Any("sizes").([]any)
	return match[1] != fmt.Sprint(len(sizes)-2) // the last layer is not followed by a norm
}

var hiddenBias = regexp.MustCompile(`layers\.(\d+)\.bias`)

// CompareFinal compares the file got with the final tensors stored in dir. A tensor must be bitwise
// equal, where NaN equals NaN, or the 2-norm of the difference must be at most rtol times the
// 2-norm of the tensor; optimizer states have ten times the tolerance.
func CompareFinal(s *spec.Spec, dir, got string, rtol float64) trace.Row {
	stored, other := recorded.Tensors(filepath.Join(dir, FinalName)), recorded.Tensors(got)
	row := trace.Row{Field: FinalName}
	var missing, bad []string
	same := 0
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		a, b := stored[name], other[name]
		if !b.Defined() || a.Numel() != b.Numel() {
			missing = append(missing, name)
			continue
		}
		equal := bytes.Equal(a.Bytes(), b.Bytes())
		a, b = a.ToDType(torch.Float64).View(-1), b.ToDType(torch.Float64).View(-1)
		if equal || a.IsNaN().Any().Item() != 0 && a.AllClose(b, 0, 0, true) {
			same++
			continue
		}
		row.Begins = cmp.Or(row.Begins, FinalName+" "+name)
		if noise(s.Model, name) {
			continue
		}
		apart := a.Sub(b).Norm(2).Item() / max(a.Norm(2).Item(), trace.ATol)
		row.Worst = max(row.Worst, apart)
		limit := rtol
		if strings.HasPrefix(name, "optim.") {
			limit *= 10
		}
		if !(apart <= limit) {
			bad = append(bad, fmt.Sprintf("%s: relative difference %.2e", name, apart))
		}
	}
	switch {
	case len(missing) > 0:
		row.Verdict, row.Detail = trace.Mismatch, fmt.Sprintf("%d tensors missing or of another size, first %s",
			len(missing), missing[0])
	case len(bad) > 0:
		row.Verdict, row.Detail = trace.Mismatch, fmt.Sprintf("%d tensors, first %s", len(bad), bad[0])
	case same == len(stored):
		row.Verdict, row.Detail = trace.Bitwise, fmt.Sprintf("%d tensors", same)
	default:
		row.Verdict, row.Detail = trace.Within, fmt.Sprintf("%d/%d tensors bitwise, worst relative difference %.2e",
			same, len(stored), row.Worst)
	}
	return row
}
