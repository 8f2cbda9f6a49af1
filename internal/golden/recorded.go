package golden

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// lastPlaces is by how many last places a number may differ from one of another machine. A last
// place is that of the greatest number of the tensor: sums cancel, so a small element can have the
// errors of great ones.
const lastPlaces = 64

// Recorded compares a result with the one that PyTorch recorded. Where this process makes the
// numbers of the golden files ([testenv.SameBits]) every bit must be equal. Elsewhere elements may
// differ by some last places of the tensor's greatest. When it ends, the test says which of the two
// it did.
func Recorded(t testing.TB, name string, got, want torch.Tensor) {
	t.Helper()
	RecordedIn(t, name, got, want, want.DType())
}

// RecordedIn is [Recorded] for results that were computed in another precision than they have:
// under autocast last places are those of bfloat16.
func RecordedIn(t testing.TB, name string, got, want torch.Tensor, computed torch.DType) {
	t.Helper()
	if !sameKind(t, name, got, want) {
		return
	}
	equal := bytes.Equal(got.Bytes(), want.Bytes())
	comparisons(t).add(equal)
	if equal {
		return
	}
	place := lastPlace(computed)
	if testenv.SameBits() || place == 0 {
		bits(t, name, got, want)
		return
	}
	outside(t, name, numbers(got), numbers(want), place)
}

// RecordedNumbers is [Recorded] for losses, norms and other numbers that are no tensor and were
// computed in float32.
func RecordedNumbers(t testing.TB, name string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: there are %d numbers, want %d", name, len(got), len(want))
		return
	}
	equal := true
	for i := range got {
		equal = equal && same(got[i], want[i])
	}
	comparisons(t).add(equal)
	if !equal {
		place := lastPlace(torch.Float32)
		if testenv.SameBits() {
			place = 0
		}
		outside(t, name, got, want, place)
	}
}

// outside reports the first number that differs from the wanted one by more than some last places.
func outside(t testing.TB, name string, got, want []float64, place float64) {
	t.Helper()
	greatest := 0.0
	for _, n := range want {
		if n = math.Abs(n); n > greatest && !math.IsInf(n, 0) {
			greatest = n
		}
	}
	for i := range want {
		d := math.Abs(got[i] - want[i])
		if same(got[i], want[i]) || d <= lastPlaces*place*greatest {
			continue
		}
		may := ""
		if place > 0 {
			may = fmt.Sprintf(": they differ by %.0f last places of the greatest number, %v, and may by %d",
				d/(place*greatest), greatest, lastPlaces)
		}
		t.Errorf("%s: number %d of %d is %v, want %v%s", name, i, len(want), got[i], want[i], may)
		return
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// lastPlace is that of 1 in a floating-point type, 0 for the others: they have none.
func lastPlace(d torch.DType) float64 {
	switch d {
	case torch.Float64, torch.Complex128:
		return 0x1p-52
	case torch.Float32, torch.Complex64:
		return 0x1p-23
	case torch.Float16:
		return 0x1p-10
	case torch.BFloat16:
		return 0x1p-7
	}
	return 0
}
