package nn

import "github.com/gotrainer/gotrainer/torch"

// Dropout zeroes elements at random while training and scales the others up: torch.nn.Dropout.
type Dropout struct {
	Mode

	P float64 // the probability of an element to be zeroed
}

// NewDropout makes a Dropout; PyTorch's default for p is 0.5.
func NewDropout(p float64) *Dropout {
	checkProbability("NewDropout", "p", p)
	return &Dropout{P: p}
}

// Forward returns x itself in evaluation mode.
func (d *Dropout) Forward(x torch.Tensor) torch.Tensor {
	if d.P == 0 || !d.Training() { // libtorch would return x under a second handle, which would hold its memory longer
		return x
	}
	return x.Dropout(d.P, true)
}

func checkProbability(op, name string, p float64) {
	if !(p >= 0 && p <= 1) {
		panic(mistake(op, torch.ErrValue, "%s is a probability and must be between 0 and 1, found %g", name, p))
	}
}
