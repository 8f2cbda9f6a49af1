package golden

import (
	"bytes"
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// Recorded compares a result with the one that PyTorch recorded. Where this process makes the
// numbers of the golden files ([testenv.SameBits]) every bit must be equal. Elsewhere elements may
// differ by some last places of the tensor's greatest. When it ends, the test says which of the two
// it did.
func Recorded(t testing.TB, name string, got, want torch.Tensor) {
	t.Helper()
	recorded(t, name, got, want, precisionOf(want.DType()))
}

// RecordedWithin is [Recorded] with so many last places for other machines: of algorithms that
// enlarge differences.
func RecordedWithin(t testing.TB, name string, got, want torch.Tensor, places float64) {
	t.Helper()
	may := precisionOf(want.DType())
	may.places = max(may.places, places)
	recorded(t, name, got, want, may)
}

// RecordedIn is [Recorded] for results that were computed in another precision than they have:
// under autocast last places are those of bfloat16.
func RecordedIn(t testing.TB, name string, got, want torch.Tensor, computed torch.DType) {
	t.Helper()
	recorded(t, name, got, want, precisionOf(computed))
}

func recorded(t testing.TB, name string, got, want torch.Tensor, may precision) {
	t.Helper()
	if !sameKind(t, name, got, want) {
		return
	}
	equal := bytes.Equal(got.Bytes(), want.Bytes())
	comparisons(t).add(equal)
	if equal {
		return
	}
	if testenv.SameBits() || may.last == 0 {
		bits(t, name, got, want)
		return
	}
	outside(t, name, numbers(got), numbers(want), may)
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
		may := precisionOf(torch.Float32)
		if testenv.SameBits() {
			may.places = 0
		}
		outside(t, name, got, want, may)
	}
}

// outside reports the number that differs most from the wanted one, if by more than it may.
func outside(t testing.TB, name string, got, want []float64, may precision) {
	t.Helper()
	greatest := leastScale
	for _, n := range want {
		if n = math.Abs(n); n > greatest && !math.IsInf(n, 0) {
			greatest = n
		}
	}
	worst, at := 0.0, -1
	for i := range want {
		d := math.Abs(got[i] - want[i])
		if same(got[i], want[i]) || d <= may.places*may.last*greatest {
			continue
		}
		if at < 0 || !(d <= worst) { // nan is the worst of all
			worst, at = d, i
		}
	}
	if at >= 0 {
		t.Errorf("%s: number %d of %d is %v, want %v: they differ by %.3g last places of %v, and may by %g", name, at,
			len(want), got[at], want[at], worst/(may.last*greatest), greatest, may.places)
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// leastScale is the least that counts as the greatest number of a tensor: golden inputs are of the
// order of one, and a gradient that vanishes has their errors.
const leastScale = 1.0 / 4

// precision says by how much numbers of different machines may differ: by so many last places of
// the greatest number of their tensor, since sums cancel and a small element has the errors of the
// great ones. In half precision the results of few operations follow each other, in single and
// double those of many.
type precision struct {
	places float64 // 0: by nothing
	last   float64 // the last place of 1
}

func precisionOf(d torch.DType) precision {
	switch d {
	case torch.Float64, torch.Complex128:
		return precision{64, 0x1p-52}
	case torch.Float32, torch.Complex64:
		return precision{64, 0x1p-23}
	case torch.Float16:
		return precision{4, 0x1p-10}
	case torch.BFloat16:
		return precision{4, 0x1p-7}
	}
	return precision{}
}
