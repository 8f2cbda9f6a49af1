package transformer

import (
	"fmt"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Projections says how query, key and value are computed.
type Projections struct {
	Fused bool // compute one matrix product instead of three
	// KeysFirst computes the query after key and value, which decides in which order their gradients
	// are summed.
	KeysFirst bool

	parts int64                             // number of parts that the heads are divided into; 0 means 1
	input func(x torch.Tensor) torch.Tensor // applied to x; may be nil
}

// DivideHeads tells the projections that their layers hold one of n equal parts of the heads, and
// which function to apply to the common input of the three. See tensor.Heads of package
// dist/tensor.
func (p *Projections) DivideHeads(heads, n int64, input func(x torch.Tensor) torch.Tensor) error {
	if heads%n != 0 {
		return fmt.Errorf("%d heads cannot be divided into %d equal parts", heads, n)
	}
	p.parts, p.input = n, input
	return nil
}

// Here returns how many of the given number of heads are in the part that the layers hold.
func (p Projections) Here(heads int64) int64 { return heads / max(p.parts, 1) }

// Forward applies the three layers, which have the same size, to x, [..., in].
func (p Projections) Forward(x torch.Tensor, query, key, value *nn.Linear) (q, k, v torch.Tensor) {
	if p.input != nil {
		x = p.input(x)
	}
	switch {
	case !p.Fused && p.KeysFirst:
		k, v = key.Forward(x), value.Forward(x)
		return query.Forward(x), k, v
	case !p.Fused:
		return query.Forward(x), key.Forward(x), value.Forward(x)
	}
	size := query.Weight.Size(0)
	weight := torch.Cat([]torch.Tensor{query.Weight, key.Weight, value.Weight}, 0)
	var bias torch.Tensor
	if query.Bias.Defined() {
		bias = torch.Cat([]torch.Tensor{query.Bias, key.Bias, value.Bias}, 0)
	}
	all := x.Linear(weight, bias).Split(size, -1)
	return query.Adapt(x, all[0]), key.Adapt(x, all[1]), value.Adapt(x, all[2])
}
