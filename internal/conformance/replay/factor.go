package replay

import (
	"github.com/gotrainer/gotrainer/internal/conformance/pylambda"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
)

// parseFactor reads the factor of a schedule: the body of a Python lambda over n, in which names
// stand for numbers, "1.0 - n / T".
func parseFactor(text string, names map[string]float64) (func(n int) float64, error) {
	f, err := pylambda.Parse("lambda n: "+text, names)
	if err != nil {
		return nil, spec.Unsupportedf("lr_lambda: %v", err)
	}
	return func(n int) float64 { return f(float64(n)) }, nil
}
