package pylambda

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// functions of Python by the number of their arguments; -1 is any but none.
var functions = map[string]struct {
	arguments int
	f         func(v []float64) float64
}{
	"min": {-1, slices.Min[[]float64]}, "max": {-1, slices.Max[[]float64]},
	"abs":   {1, func(v []float64) float64 { return math.Abs(v[0]) }},
	"float": {1, func(v []float64) float64 { return v[0] }},
	"int":   {1, func(v []float64) float64 { return math.Trunc(v[0]) }},
	"pow":   {2, func(v []float64) float64 { return roundedmath.Pow(v[0], v[1]) }},
	"exp":   {1, func(v []float64) float64 { return math.Exp(v[0]) }},
	"log":   {1, func(v []float64) float64 { return math.Log(v[0]) }},
	"sqrt":  {1, func(v []float64) float64 { return math.Sqrt(v[0]) }},
	"sin":   {1, func(v []float64) float64 { return math.Sin(v[0]) }},
	"cos":   {1, func(v []float64) float64 { return roundedmath.Cos(v[0]) }},
	"floor": {1, func(v []float64) float64 { return math.Floor(v[0]) }},
	"ceil":  {1, func(v []float64) float64 { return math.Ceil(v[0]) }},
}
