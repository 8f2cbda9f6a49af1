package golden

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// recorder keeps what a comparison reports.
type recorder struct {
	testing.TB
	reports []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.reports = append(r.reports, fmt.Sprintf(format, args...))
}

func TestComparisonsReport(t *testing.T) {
	testenv.RequireTorch(t)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	one := torch.From([]float32{1, 2, 3, 4}, 2, 2)
	tests := []struct {
		name      string
		got, want torch.Tensor
		close     string // what Close(rtol 1e-3) reports, empty: nothing
		bits      string
	}{
		{"equal tensors are equal", one, one.Clone(), "", ""},
		{"a last bit is seen by Bits only", torch.From([]float32{math.Nextafter32(1, 2), 2, 3, 4}, 2, 2), one, "", "element [0 0] is 1.0000001192092896 (3f800001), want 1 (3f800000)"},
		{"the worst element is named", torch.From([]float32{1, 2.1, 3, 5}, 2, 2), one, "2 of 4 elements differ by more than atol 0 + rtol 0.001; the worst: element [1 1] is 5, want 4", "element [0 1] is 2.0999999"},
		{"shapes differ", one.View(4), one, "x is float32[4], want float32[2 2]", "x is float32[4], want float32[2 2]"},
		{"dtypes differ", one.ToDType(torch.Float64), one, "x is float64[2 2], want float32[2 2]", "x is float64[2 2]"},
		{"NaN equals NaN", torch.From([]float32{nan}), torch.From([]float32{nan}), "", ""},
		{"NaN is no number", torch.From([]float32{nan}), torch.From([]float32{1}), "is NaN, want 1", "is NaN"},
		{"an infinity is not its opposite", torch.From([]float32{inf}), torch.From([]float32{-inf}), "is +Inf, want -Inf", "is +Inf"},
		{"minus zero differs in its bits", torch.From([]float32{float32(math.Copysign(0, -1))}), torch.From([]float32{0}), "", "(80000000), want 0 (00000000)"},
		{"undefined is not defined", torch.Tensor{}, one, "x: defined is false, want true", "x: defined is false, want true"},
		{"booleans and scalars", torch.ScalarTensor(true), torch.ScalarTensor(false), "the element is 1, want 0", "the element is 1 (01), want 0 (00)"},
		{"the imaginary part counts", torch.From([]complex64{1 + 2i}), torch.From([]complex64{1 + 3i}), "element [0] is 2, want 3", "1 of 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for kind, want := range map[string]string{"Close": test.close, "Bits": test.bits} {
				r := &recorder{TB: t}
				if kind == "Close" {
					Close(r, "x", test.got, test.want, 1e-3, 0)
				} else {
					Bits(r, "x", test.got, test.want)
				}
				got := strings.Join(r.reports, "\n")
				if (want == "") != (got == "") || !strings.Contains(got, want) {
					t.Errorf("%s reports %q, want %q", kind, got, want)
				}
			}
		})
	}
}

func TestEveryDTypeSurvivesAFile(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	var named []torch.Named
	for _, d := range []torch.DType{torch.Bool, torch.Uint8, torch.Int8, torch.Int16, torch.Int32, torch.Int64, torch.Float16, torch.BFloat16, torch.Float32, torch.Float64, torch.Complex64} {
		named = append(named, torch.Named{Name: d.String(), Tensor: torch.Arange(6).View(2, 3).ToDType(d)})
	}
	named = append(named, torch.Named{Name: "scalar", Tensor: torch.ScalarTensor[float32](7)}, torch.Named{Name: "empty", Tensor: torch.Zeros(0, 3)},
		torch.Named{Name: "strided", Tensor: torch.Arange(6).View(2, 3).T()})
	entries, err := tensorio.Entries(named)
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile(path, entries, map[string]string{"torch": "2.11"}); err != nil {
		t.Fatal(err)
	}
	var g *File
	torch.Scope(func() { g = Load(t, path) })
	if g.Metadata["torch"] != "2.11" || len(g.Names()) != len(named) {
		t.Errorf("metadata %v and names %q, want %d names", g.Metadata, g.Names(), len(named))
	}
	for _, n := range named {
		if g.Has(n.Name) {
			Bits(t, n.Name, g.Tensor(n.Name), n.Tensor)
		} else {
			t.Errorf("%s is missing", n.Name)
		}
	}
	if g.Has("other") {
		t.Error("Has(other) is true")
	}
}

func TestTensorsThatFilesCannotHoldAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for name, tensor := range map[string]torch.Tensor{"complex128": torch.From([]complex128{1}), "undefined": {}} {
		if _, err := tensorio.Entry(name, tensor); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Entry(%s) = %v, want an error that names it", name, err)
		}
	}
}
