package functional

import "github.com/gotrainer/gotrainer/torch"

// ScaledDotProductAttentionOptions are the keywords of
// torch.nn.functional.scaled_dot_product_attention. The zero value means PyTorch's defaults.
type ScaledDotProductAttentionOptions struct {
	Mask    torch.Tensor // bool, where true takes part, or added to the scores; undefined: none
	Dropout float64      // of the attention weights; set it to 0 in evaluation
	Causal  bool         // a query sees the keys up to its own position; not with Mask
	Scale   float64      // of the scores; zero means 1/sqrt(E)
	GQA     bool         // query has a multiple of the heads of key and value: enable_gqa
}

// ScaledDotProductAttention is softmax(query·keyᵀ·scale + mask)·value for query [..., L, E], key
// [..., S, E] and value [..., S, Ev]: torch.nn.functional.scaled_dot_product_attention. libtorch
// picks the fastest of its kernels.
func ScaledDotProductAttention(query, key, value torch.Tensor, o ScaledDotProductAttentionOptions) torch.Tensor {
	const op = "ScaledDotProductAttention"
	if o.Causal && o.Mask.Defined() {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "Mask and Causal are both set; want one"))
	}
	checkProbability(op, o.Dropout)
	if !o.GQA {
		return query.ScaledDotProductAttention(key, value, o.Mask, o.Dropout, o.Causal, o.Scale)
	}
	var scale any
	if o.Scale != 0 {
		scale = o.Scale
	}
	return call("aten::scaled_dot_product_attention", query, key, value, o.Mask, o.Dropout, o.Causal, scale, true)
}
