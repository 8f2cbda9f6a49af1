package nn

import "github.com/gotrainer/gotrainer/torch"

// QuantizedWeight is what a layer computes with instead of a floating-point weight, such as one of
// package nn/quantized. It is a struct whose fields have tags, like those of a module: the names
// of its tensors are prefixed with that of the weight, as in "weight.absmax".
type QuantizedWeight interface {
	// Linear computes x·Wᵀ + bias for x, [..., in]; bias, [out], may be undefined. Gradients flow
	// to x and bias.
	Linear(x, bias torch.Tensor) torch.Tensor
	// Size returns the size of the weight.
	Size() (out, in int64)
	// DType returns the dtype that Linear computes in.
	DType() torch.DType
	// Float returns the weight as floating-point numbers, [out, in], in a new tensor.
	Float() torch.Tensor
	// Packed returns the tensor stored under the name of the weight: bits rather than numbers.
	Packed() torch.Tensor
	// Repack quantizes another weight, [out, in], in the same way.
	Repack(weight torch.Tensor) (QuantizedWeight, error)
}

// Quantizable is embedded by layers that take a [QuantizedWeight], as [Linear] does.
type Quantizable struct{ weight QuantizedWeight }

// Quantized returns the weight given to the layer's SetQuantized, or nil if the weight is a
// floating-point one.
func (q *Quantizable) Quantized() QuantizedWeight { return q.weight }

// OwnModules returns the modules of the quantized weight, which hold the tensors beside the packed
// weight.
func (q *Quantizable) OwnModules() []Named {
	if q.weight == nil {
		return nil
	}
	return []Named{{Name: "weight", Module: q.weight}}
}

// Replace puts w in place of a weight, whose memory is freed. SetQuantized of a layer calls it.
func (q *Quantizable) Replace(weight *torch.Tensor, w QuantizedWeight) {
	weight.Free()
	*weight, q.weight = w.Packed(), w
}

// QuantizedLayers returns the names of the layers in a model whose weights are quantized.
func QuantizedLayers(m any) (names []string) {
	for _, n := range Modules(m) {
		if q, ok := n.Module.(interface{ Quantized() QuantizedWeight }); ok && q.Quantized() != nil {
			names = append(names, n.Name)
		}
	}
	return names
}

// FixedDType is a module whose own tensors [To] moves without converting them, because they say
// how the model's numbers are packed and are not such numbers themselves.
type FixedDType interface{ FixedDType() }
