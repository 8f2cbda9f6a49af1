package transformer

import "github.com/gotrainer/gotrainer/torch"

// Logits is what the logits of a decoder pass through behind the output layer. The zero value: nothing.
type Logits struct {
	Softcap float64 // final_logit_softcapping, see [SoftCap]; zero: none
	Divisor float64 // logits_scaling; zero: 1
}

// Apply returns what becomes of logits.
func (l Logits) Apply(x torch.Tensor) torch.Tensor {
	if l.Softcap > 0 {
		return SoftCap(x, l.Softcap)
	}
	if l.Divisor != 0 && l.Divisor != 1 {
		return x.DivScalar(l.Divisor)
	}
	return x
}
