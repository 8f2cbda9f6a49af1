package expected

import (
	"fmt"
	"math"
)

// near demands |got-want| <= atol + rtol*|want|. What names the value: "rate of update 3".
func near(what string, got, want, rtol, atol float64) error {
	if math.Abs(got-want) <= atol+rtol*math.Abs(want) {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v (rtol %g, atol %g)", what, got, want, rtol, atol)
}

// allNear compares lists value by value, in order.
func allNear(what string, got func(i int) float64, want []float64, rtol, atol float64) error {
	for i, w := range want {
		if err := near(fmt.Sprintf("%s %d", what, i), got(i), w, rtol, atol); err != nil {
			return err
		}
	}
	return nil
}
