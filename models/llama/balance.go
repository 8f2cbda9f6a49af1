package llama

import "github.com/gotrainer/gotrainer/torch"

// ForwardAux is Forward of a mixture of experts that also returns the load-balancing loss times
// router_aux_loss_coef; undefined if no layer has experts.
func (m *Model) ForwardAux(ids, mask torch.Tensor) (hidden, aux torch.Tensor) {
	e := m.config.Experts
	b := balance{experts: e.Number, k: e.PerToken}
	if mask.Defined() {
		b.mask = mask.Reshape(-1).ToDType(torch.Float32)
	}
	hidden = m.forward(ids, mask, b.add)
	if b.rows.Defined() {
		aux = b.loss().MulScalar(*e.RouterAuxLossCoef)
	}
	return hidden, aux
}

// balance computes load_balancing_loss_func: the product of the share of tokens that each expert
// gets and of the probability that the routers give it, summed over the experts. It is smallest,
// k, if both are the same for all experts. Padding does not count.
type balance struct {
	experts, k int64
	mask       torch.Tensor // [T], 1 for tokens and 0 for padding; undefined until the first add if there is none

	chosen, probability torch.Tensor // sums over the tokens of all layers, [experts]
	rows                torch.Tensor // number of tokens, over all layers; a scalar
}

// add adds the logits of a layer's router, [T, experts].
func (b *balance) add(logits torch.Tensor) {
	probabilities := logits.Softmax(-1, torch.DefaultDType)
	_, chosen := probabilities.TopK(b.k, -1, true, true)
	probabilities = probabilities.ToDType(torch.Float32)
	o := torch.TensorOptions{DType: torch.Float32, Device: logits.Device()}
	if !b.mask.Defined() {
		b.mask = o.Ones(chosen.Size(0))
	}
	counts := o.Zeros(b.experts).ScatterAdd_(0, chosen.Reshape(-1), b.mask.RepeatInterleave(b.k, nil))
	sums := probabilities.Mul(b.mask.Unsqueeze(-1)).SumDim([]int64{0}, false, torch.DefaultDType)
	rows := b.mask.Sum(torch.DefaultDType)
	if b.rows.Defined() {
		counts, sums, rows = b.chosen.Add(counts), b.probability.Add(sums), b.rows.Add(rows)
	}
	b.chosen, b.probability, b.rows = counts, sums, rows
}

func (b *balance) loss() torch.Tensor {
	shares := b.chosen.Div(b.rows).Mul(b.probability.Div(b.rows).Unsqueeze(0))
	return shares.Sum(torch.DefaultDType).MulScalar(b.experts)
}
