package nn

import "github.com/gotrainer/gotrainer/torch"

// QuantizedWeight is what a layer computes with in place of a weight of floating-point numbers, such as
// one of package nn/quantized. It is a struct whose fields have tags, as those of a module: its tensors
// have names behind that of the weight, "weight.absmax".
type QuantizedWeight interface {
	// Linear computes x·Wᵀ + bias of x, [..., in]; bias, [out], may be undefined. It gives gradients to
	// x and bias.
	Linear(x, bias torch.Tensor) torch.Tensor
	// Size is that of the weight.
	Size() (out, in int64)
	// DType is what Linear computes in.
	DType() torch.DType
	// Float is the weight as numbers, [out, in], a new tensor.
	Float() torch.Tensor
	// Packed is what stands under the name of the weight: bits, and not numbers.
	Packed() torch.Tensor
	// Repack is another weight, [out, in], quantized in the same way.
	Repack(weight torch.Tensor) (QuantizedWeight, error)
}

// Quantizable is embedded by layers that take a [QuantizedWeight], as [Linear] does.
type Quantizable struct{ weight QuantizedWeight }

// Quantized is what SetQuantized of the layer was given; nil: the weight is one of floating-point numbers.
func (q *Quantizable) Quantized() QuantizedWeight { return q.weight }

// OwnModules are the tensors beside the packed weight.
func (q *Quantizable) OwnModules() []Named {
	if q.weight == nil {
		return nil
	}
	return []Named{{Name: "weight", Module: q.weight}}
}

// Replace puts w in the place of a weight, whose memory is freed: what a layer's SetQuantized does.
func (q *Quantizable) Replace(weight *torch.Tensor, w QuantizedWeight) {
	weight.Free()
	*weight, q.weight = w.Packed(), w
}

// QuantizedLayers names the layers in a model whose weights are quantized.
func QuantizedLayers(m any) (names []string) {
	for _, n := range Modules(m) {
		if q, ok := n.Module.(interface{ Quantized() QuantizedWeight }); ok && q.Quantized() != nil {
			names = append(names, n.Name)
		}
	}
	return names
}

// FixedDType is a module whose own tensors [To] moves and does not convert, because they are no
// quantities of the model but say how its numbers are packed.
type FixedDType interface{ FixedDType() }
