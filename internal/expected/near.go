package expected

import (
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
)

// near demands |got-want| <= atol + rtol*|want|. What names the value: "rate of update 3".
func near(what string, got, want, rtol, atol float64) {
	if !(math.Abs(got-want) <= atol+rtol*math.Abs(want)) {
		spec.Failf("%s is %v, want %v (rtol %g, atol %g)", what, got, want, rtol, atol)
	}
}

// allNear compares lists value by value, in order.
func allNear(what string, got func(i int) float64, want []float64, rtol, atol float64) {
	for i, w := range want {
		near(fmt.Sprintf("%s %d", what, i), got(i), w, rtol, atol)
	}
}

// at gives allNear the values of a list.
func at[T float32 | float64](list []T) func(i int) float64 {
	return func(i int) float64 { return float64(list[i]) }
}

func equal[T comparable](what string, got, want T) {
	if got != want {
		spec.Failf("%s is %v, want %v", what, got, want)
	}
}
