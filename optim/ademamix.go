package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// AdEMAMix is [AdamW] with a second, slow mean of gradients: the class of that name in
// bitsandbytes, with states in float32. With g the gradient at update t:
//
//	m1 = Beta1*m1 + (1-Beta1)*g
//	m2 = b*m2 + (1-b)*g
//	v  = Beta2*v + (1-Beta2)*g²
//	p -= lr * WeightDecay * p
//	p -= lr * (m1 / (1-Beta1^t) + a*m2) / (sqrt(v) / sqrt(1-Beta2^t) + Eps)
//
// where a rises to Alpha over TAlpha updates, and b from Beta1 to Beta3 over TBeta3.
//
// Source: Pagliardini and others, The AdEMAMix Optimizer: Better, Faster, Older,
// https://arxiv.org/abs/2409.03137.
type AdEMAMix struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the fast mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the mean of squares; nil means 0.999
	Beta3       *float64 // decay of the slow mean of gradients; nil means 0.9999
	Alpha       *float64 // weight of the slow mean; nil means 5
	TAlpha      int      // updates over which the slow mean's weight rises; zero: none
	TBeta3      int      // updates over which the slow mean slows down; zero: none
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // nil means 1e-2
}

// AdEMAMix8bit is [AdEMAMix] with its three states kept in one byte per weight each, as in
// [AdamW8bit]: the class of that name in bitsandbytes.
type AdEMAMix8bit struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the fast mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the mean of squares; nil means 0.999
	Beta3       *float64 // decay of the slow mean of gradients; nil means 0.9999
	Alpha       *float64 // weight of the slow mean; nil means 5
	TAlpha      int      // updates over which the slow mean's weight rises; zero: none
	TBeta3      int      // updates over which the slow mean slows down; zero: none
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // nil means 1e-2

	EightBit
}

// LearningRate returns LR or its default.
func (o AdEMAMix) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// LearningRate returns LR or its default.
func (o AdEMAMix8bit) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer.
func (o AdEMAMix) Build(groups []Group) (Optimizer, error) { return o.build("AdEMAMix", nil, groups) }

// Build makes the optimizer.
func (o AdEMAMix8bit) Build(groups []Group) (Optimizer, error) {
	all := AdEMAMix{o.LR, o.Beta1, o.Beta2, o.Beta3, o.Alpha, o.TAlpha, o.TBeta3, o.Eps, o.WeightDecay}
	return all.build("AdEMAMix8bit", &o.EightBit, groups)
}

func (o AdEMAMix) build(name string, e *EightBit, groups []Group) (Optimizer, error) {
	b := &bitsandbytes{name: name, lr: o.LearningRate(),
		beta1: optional.Or(o.Beta1, 0.9), beta2: optional.Or(o.Beta2, 0.999),
		eps: optional.Or(o.Eps, 1e-8), decay: optional.Or(o.WeightDecay, 1e-2), eightBit: e, means: 2, squares: true}
	beta3, alpha := optional.Or(o.Beta3, 0.9999), optional.Or(o.Alpha, 5)
	err := checkSettings(name, setting{"Beta3", beta3, 1}, setting{name: "Alpha", value: alpha},
		setting{name: "TAlpha", value: float64(o.TAlpha)}, setting{name: "TBeta3", value: float64(o.TBeta3)})
	switch {
	case err != nil:
		return nil, err
	case o.TBeta3 > 0 && (b.beta1 == 0 || beta3 == 0):
		return nil, errorf(ErrOption, "%s.TBeta3 is %d, but Beta1 or Beta3 is 0; want both between 0 and 1", name,
			o.TBeta3)
	}
	b.formula = func(batch *batch, u *bitsandbytesUpdate, eight bool) {
		a, slow := alpha, beta3
		if o.TAlpha > 0 {
			a = math.Min(u.t*alpha/float64(o.TAlpha), alpha)
		}
		if o.TBeta3 > 0 {
			slow = slowDown(b.beta1, beta3, u.t/float64(o.TBeta3))
		}
		b.ademamix(batch, u, eight, slow, a)
	}
	b.options = map[string]any{"betas": []float64{b.beta1, b.beta2, beta3}, "eps": b.eps, "alpha": alpha,
		"t_alpha": orNone(o.TAlpha), "t_beta3": orNone(o.TBeta3)}
	return b.build(groups)
}

func orNone(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// slowDown returns the decay of the slow mean after the given fraction of the way from beta1 to
// beta3.
func slowDown(beta1, beta3, part float64) float64 {
	a, b := math.Log(beta1), math.Log(beta3)
	return math.Min(math.Exp(float64(a*b)/(float64((1-part)*b)+float64(part*a))), beta3)
}

func (o *bitsandbytes) ademamix(b *batch, u *bitsandbytesUpdate, eight bool, beta3, alpha float64) {
	u.mean.mulScalar_(o.beta1)
	u.mean.add_(u.g, 1-o.beta1)
	u.slow.mulScalar_(beta3)
	u.slow.add_(u.g, 1-beta3)
	u.square.mulScalar_(o.beta2)
	u.square.addcmul_(u.g, u.g, 1-o.beta2)
	u.decayWeights(b.lr)
	mixed := u.mean.divScalar(1 - roundedmath.Pow(o.beta1, u.t))
	mixed.add_(u.slow.mulScalar(alpha), 1)
	root := u.square.sqrt()
	root.divScalar_(math.Sqrt(1 - roundedmath.Pow(o.beta2, u.t)))
	root.addScalar_(o.eps)
	u.p.add_(mixed.div(root), -b.lr)
}
