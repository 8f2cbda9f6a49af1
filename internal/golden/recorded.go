package golden

import (
	"bytes"
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// Recorded compares a result with the one that PyTorch recorded. If this process computes the
// numbers of the golden files ([testenv.SameBits]), all bits must be equal. Otherwise elements may
// differ by a few units in the last place of the tensor's largest element. At its end the test logs
// which of these applied.
func Recorded(t testing.TB, name string, got, want torch.Tensor) {
	t.Helper()
	recorded(t, name, got, want, precisionOf(want.DType()))
}

// RecordedWithin is [Recorded] with a larger tolerance on other machines, in units in the last
// place, for algorithms that amplify differences.
func RecordedWithin(t testing.TB, name string, got, want torch.Tensor, places float64) {
	t.Helper()
	may := precisionOf(want.DType())
	may.places = max(may.places, places)
	recorded(t, name, got, want, may)
}

// RecordedIn is [Recorded] for results that were computed in another dtype than they have: under
// autocast, the tolerance is in units of bfloat16.
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

// RecordedNumbers is [Recorded] for losses, norms and other numbers that are not tensors and were
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

// outside reports the number with the largest difference, if that exceeds the tolerance.
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
		if at < 0 || !(d <= worst) { // nan is the largest difference
			worst, at = d, i
		}
	}
	if at >= 0 {
		t.Errorf("%s: number %d of %d is %v, want %v: they differ by %.3g last places of %v, and may by %g", name, at,
			len(want), got[at], want[at], worst/(may.last*greatest), greatest, may.places)
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// leastScale is a lower bound for the largest number of a tensor: golden inputs are of order one,
// and a vanishing gradient has errors of that scale.
const leastScale = 1.0 / 4

// precision is the tolerance between machines: a number of units in the last place of the largest
// number in the tensor, because sums cancel and small elements have the errors of large ones.
// Results in half precision come from few operations in sequence, those in single and double
// precision from many.
type precision struct {
	places float64 // 0: must be equal
	last   float64 // one unit in the last place of 1
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
