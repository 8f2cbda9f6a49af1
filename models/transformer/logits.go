package transformer

import "github.com/gotrainer/gotrainer/torch"

// Logits says how the logits of a decoder are transformed after the output layer. The zero value
// does nothing.
type Logits struct {
	Softcap float64 // final_logit_softcapping, see [SoftCap]; zero: none
	Divisor float64 // logits_scaling; zero: 1
}

// Apply returns the transformed logits.
func (l Logits) Apply(x torch.Tensor) torch.Tensor {
	if l.Softcap > 0 {
		return SoftCap(x, l.Softcap)
	}
	if l.Divisor != 0 && l.Divisor != 1 {
		return x.DivScalar(l.Divisor)
	}
	return x
}
