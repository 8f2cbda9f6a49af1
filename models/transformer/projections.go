package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Projections is how query, key and value are computed.
type Projections struct {
	Fused bool // as one matrix product; false: as three
}

// Forward applies the three layers, of one size, to x, [..., in].
func (p Projections) Forward(x torch.Tensor, query, key, value *nn.Linear) (q, k, v torch.Tensor) {
	if !p.Fused {
		return query.Forward(x), key.Forward(x), value.Forward(x)
	}
	size := query.Weight.Size(0)
	weight := torch.Cat([]torch.Tensor{query.Weight, key.Weight, value.Weight}, 0)
	bias := torch.Cat([]torch.Tensor{query.Bias, key.Bias, value.Bias}, 0)
	all := x.Linear(weight, bias).Split(size, -1)
	return all[0], all[1], all[2]
}
