package nn

import (
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// Dropout zeroes elements at random while training and scales the others up: torch.nn.Dropout.
type Dropout struct {
	Mode

	P float64 // the probability that an element is zeroed
}

// NewDropout makes a Dropout; PyTorch's default for p is 0.5.
func NewDropout(p float64) *Dropout {
	checkProbability("NewDropout", "p", p)
	return &Dropout{P: p}
}

// Forward returns x itself in evaluation mode.
func (d *Dropout) Forward(x torch.Tensor) torch.Tensor {
	// libtorch would return x under a second handle, which would keep its memory alive for longer.
	if d.P == 0 || !d.Training() {
		return x
	}
	return x.Dropout(d.P, true)
}

// FeatureDropout zeroes whole channels at random while training. It is the common part of
// [Dropout1d], [Dropout2d] and [Dropout3d].
type FeatureDropout struct {
	Mode

	P float64 // the probability that a channel is zeroed
}

func newFeatureDropout(op string, p float64) FeatureDropout {
	checkProbability(op, "p", p)
	return FeatureDropout{P: p}
}

func (d *FeatureDropout) drop(f func(x torch.Tensor, p float64, training bool) torch.Tensor,
	x torch.Tensor) torch.Tensor {
	if d.P == 0 || !d.Training() {
		return x
	}
	return f(x, d.P, true)
}

// Dropout1d is [FeatureDropout] for sequences: torch.nn.Dropout1d.
type Dropout1d struct{ FeatureDropout }

// NewDropout1d makes a Dropout1d; PyTorch's default for p is 0.5.
func NewDropout1d(p float64) *Dropout1d { return &Dropout1d{newFeatureDropout("NewDropout1d", p)} }

// Forward takes [N, C, L] or [C, L]; it returns x itself in evaluation mode.
func (d *Dropout1d) Forward(x torch.Tensor) torch.Tensor { return d.drop(functional.Dropout1d, x) }

// Dropout2d is [FeatureDropout] for images: torch.nn.Dropout2d.
type Dropout2d struct{ FeatureDropout }

// NewDropout2d makes a Dropout2d; PyTorch's default for p is 0.5.
func NewDropout2d(p float64) *Dropout2d { return &Dropout2d{newFeatureDropout("NewDropout2d", p)} }

// Forward takes [N, C, H, W] or [N, C, L]; it returns x itself in evaluation mode.
func (d *Dropout2d) Forward(x torch.Tensor) torch.Tensor { return d.drop(functional.Dropout2d, x) }

// Dropout3d is [FeatureDropout] for volumes: torch.nn.Dropout3d.
type Dropout3d struct{ FeatureDropout }

// NewDropout3d makes a Dropout3d; PyTorch's default for p is 0.5.
func NewDropout3d(p float64) *Dropout3d { return &Dropout3d{newFeatureDropout("NewDropout3d", p)} }

// Forward takes [N, C, D, H, W] or [C, D, H, W]; it returns x itself in evaluation mode.
func (d *Dropout3d) Forward(x torch.Tensor) torch.Tensor { return d.drop(functional.Dropout3d, x) }

// AlphaDropout is dropout that preserves mean and variance after [SELU]: torch.nn.AlphaDropout.
type AlphaDropout struct{ FeatureDropout }

// NewAlphaDropout makes an AlphaDropout; PyTorch's default for p is 0.5.
func NewAlphaDropout(p float64) *AlphaDropout {
	return &AlphaDropout{newFeatureDropout("NewAlphaDropout", p)}
}

// Forward returns x itself in evaluation mode.
func (d *AlphaDropout) Forward(x torch.Tensor) torch.Tensor {
	return d.drop(functional.AlphaDropout, x)
}

// FeatureAlphaDropout is [AlphaDropout] for whole channels: torch.nn.FeatureAlphaDropout.
type FeatureAlphaDropout struct{ FeatureDropout }

// NewFeatureAlphaDropout makes a FeatureAlphaDropout; PyTorch's default for p is 0.5.
func NewFeatureAlphaDropout(p float64) *FeatureAlphaDropout {
	return &FeatureAlphaDropout{newFeatureDropout("NewFeatureAlphaDropout", p)}
}

// Forward takes [N, C, ...]; it returns x itself in evaluation mode.
func (d *FeatureAlphaDropout) Forward(x torch.Tensor) torch.Tensor {
	return d.drop(functional.FeatureAlphaDropout, x)
}

func checkProbability(op, name string, p float64) {
	if !(p >= 0 && p <= 1) {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "%s is a probability and must be between 0 and 1, found %g", name,
			p))
	}
}
