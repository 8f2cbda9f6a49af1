package recorded

import (
	"math"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Formula describes how the weights of a recording were computed, independently of any random
// generator: SplitMix64 of the seed, the index of the tensor in the order of names, and the index
// of the element in the tensor.
type Formula struct {
	Formula *uint64            // the seed
	Gain    map[string]float64 // factors for individual tensors
}

// FormulaOf reads a Formula from its object in a specification.
func FormulaOf(o *spec.Object) (Formula, error) {
	f := Formula{Formula: new(uint64(o.Int("formula", 0))), Gain: map[string]float64{}}
	if gain := o.Object("gain"); gain != nil {
		for _, name := range gain.Names() {
			f.Gain[name] = gain.Float(name, 1)
		}
	}
	return f, o.Done()
}

// Fill sets all tensors of a module.
func (f Formula) Fill(module any) error {
	if f.Formula == nil {
		return spec.Unsupportedf("init without a formula")
	}
	state, used := ByName(nn.StateDict(module)), 0
	torch.NoGrad(func() {
		for t, named := range state {
			torch.Scope(func() {
				if _, ok := f.Gain[named.Name]; ok {
					used++
				}
				if named.Tensor.DType() != torch.Float32 {
					named.Tensor.Zero_()
					return
				}
				shape := named.Tensor.Shape()
				named.Tensor.Copy_(torch.From(f.values(uint64(t), named.Name, shape), shape...))
			})
		}
	})
	if used < len(f.Gain) {
		return spec.Unsupportedf("init has a gain for a tensor that the model does not have")
	}
	return nil
}

func (f Formula) values(t uint64, name string, shape []int64) []float32 {
	count := int64(1)
	for _, d := range shape {
		count *= d
	}
	values := make([]float32, count)
	switch {
	case strings.HasSuffix(name, "running_mean"):
		return values
	case strings.HasSuffix(name, "running_var"), len(shape) == 1 && (strings.HasSuffix(name, "bn.weight") ||
		strings.HasSuffix(name, "LayerNorm.weight") || strings.HasPrefix(name, "norms.") &&
		strings.HasSuffix(name, ".weight")):
		for i := range values {
			values[i] = 1
		}
		return values
	}
	bound := 0.05
	switch {
	case len(shape) == 4:
		bound = math.Sqrt(6 / float64(count/shape[0]))
	case len(shape) >= 2:
		bound = 1 / math.Sqrt(float64(count/shape[0]))
	}
	if gain, ok := f.Gain[name]; ok {
		bound *= gain
	}
	for i := range values {
		z := (*f.Formula<<48 ^ t<<32 ^ uint64(i)) + 0x9E3779B97F4A7C15
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		values[i] = float32(bound * (2*(float64(z>>40)/(1<<24)) - 1))
	}
	return values
}
