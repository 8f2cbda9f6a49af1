package golden

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// recorder records what a comparison reports.
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
		close     string // what Close with rtol 1e-3 reports; empty: nothing
		bits      string
	}{
		{"equal tensors are equal", one, one.Clone(), "", ""},
		{"a last bit is seen by Bits only", torch.From([]float32{math.Nextafter32(1, 2), 2, 3, 4}, 2, 2), one, "",
			"element [0 0] is 1.0000001192092896 (3f800001), want 1 (3f800000)"},
		{"the worst element is named", torch.From([]float32{1, 2.1, 3, 5}, 2, 2), one,
			"2 of 4 elements differ by more than atol 0 + rtol 0.001; the worst: element [1 1] is 5, want 4",
			"element [0 1] is 2.0999999"},
		{"shapes differ", one.View(4), one, "x is float32[4], want float32[2 2]", "x is float32[4], want float32[2 2]"},
		{"dtypes differ", one.ToDType(torch.Float64), one, "x is float64[2 2], want float32[2 2]", "x is float64[2 2]"},
		{"NaN equals NaN", torch.From([]float32{nan}), torch.From([]float32{nan}), "", ""},
		{"NaN is no number", torch.From([]float32{nan}), torch.From([]float32{1}), "is NaN, want 1", "is NaN"},
		{"an infinity is not its opposite", torch.From([]float32{inf}), torch.From([]float32{-inf}),
			"is +Inf, want -Inf", "is +Inf"},
		{"minus zero differs in its bits", torch.From([]float32{float32(math.Copysign(0, -1))}),
			torch.From([]float32{0}), "", "(80000000), want 0 (00000000)"},
		{"undefined is not defined", torch.Tensor{}, one, "x: defined is false, want true",
			"x: defined is false, want true"},
		{"booleans and scalars", torch.ScalarTensor(true), torch.ScalarTensor(false), "the element is 1, want 0",
			"the element is 1 (01), want 0 (00)"},
		{"the imaginary part counts", torch.From([]complex64{1 + 2i}), torch.From([]complex64{1 + 3i}),
			"element [0] is 2, want 3", "1 of 1"},
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

// fatal is the value with which a recorder's Fatalf panics, where a real test would end.
type fatal string

func (r *recorder) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

func TestWhatIsNotInTheFileFailsTheTest(t *testing.T) {
	testenv.RequireTorch(t)
	ends := func(f func(r *recorder)) (reason string) {
		defer func() { reason = string(recover().(fatal)) }()
		f(&recorder{TB: t})
		return ""
	}
	if got := ends(func(r *recorder) { Load(r, "testdata/none.safetensors") }); !strings.Contains(got, "make golden") {
		t.Errorf("Load of no file says %q", got)
	}
	if got := ends(func(r *recorder) {
		(&File{t: r, path: "a.safetensors", names: []string{"x"}}).Tensor("y")
	}); got != `a.safetensors has no tensor "y"; it has ["x"]` {
		t.Errorf("Tensor with an unknown name reports %q", got)
	}
}

func TestNumbersOfOtherMachinesMayDifferByLastPlaces(t *testing.T) {
	single, half := precisionOf(torch.Float32), precisionOf(torch.BFloat16)
	for _, c := range []struct {
		claim     string
		got, want []float64
		may       precision
		report    string
	}{
		{"equal", []float64{1, math.NaN(), math.Inf(1)}, []float64{1, math.NaN(), math.Inf(1)}, single, ""},
		{"some last places", []float64{1 + 60*0x1p-23}, []float64{1}, single, ""},
		{"too many", []float64{1, 1 + 70*0x1p-23}, []float64{1, 1}, single,
			"x: number 1 of 2 is 1.0000083446502686, want 1: they differ by 70 last places of 1, and may by 64"},
		{"of the greatest number", []float64{100, 1 + 70*0x1p-23}, []float64{100, 1}, single, ""},
		{"of a quarter at least", []float64{60 * 0x1p-25}, []float64{0}, single, ""},
		{"an infinity", []float64{math.Inf(1)}, []float64{1}, single, "number 0 of 1 is +Inf, want 1"},
		{"another infinity", []float64{math.Inf(-1)}, []float64{math.Inf(1)}, single, "number 0 of 1 is -Inf"},
		{"no number", []float64{math.NaN()}, []float64{1}, single, "number 0 of 1 is NaN"},
		{"in half precision", []float64{1 + 3*0x1p-7}, []float64{1}, half, ""},
		{"too many in half precision", []float64{1 + 5*0x1p-7}, []float64{1}, half, "differ by 5 last places"},
		{"not at all", []float64{1 + 0x1p-52}, []float64{1}, precision{}, "want 1"},
	} {
		r := &recorder{TB: t}
		outside(r, "x", c.got, c.want, c.may)
		got := strings.Join(r.reports, "\n")
		if (c.report == "") != (got == "") || !strings.Contains(got, c.report) {
			t.Errorf("%s: reports %q, want %q", c.claim, got, c.report)
		}
	}
}

func TestRecordedValuesAreComparedByTheirBitsOrTheirLastPlaces(t *testing.T) {
	testenv.RequireTorch(t)
	next := torch.From([]float32{math.Nextafter32(1, 2)})
	for _, same := range []bool{true, false} {
		r := &recorder{TB: t}
		if testenv.SameBits() == same {
			Recorded(r, "x", next, torch.From([]float32{1}))
			RecordedNumbers(r, "loss", []float64{1 + 0x1p-23}, []float64{1})
			if got := len(r.reports); (got == 2) != same {
				t.Errorf("same numbers: %t; reports %q", same, r.reports)
			}
		}
		Recorded(r, "counts", torch.From([]int64{1}), torch.From([]int64{2}))
		if got := r.reports[len(r.reports)-1]; !strings.Contains(got, "counts: 1 of 1 elements differ in their bits") {
			t.Errorf("integers have no last places; reports %q", got)
		}
	}
}
