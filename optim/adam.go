package optim

import "github.com/gotrainer/gotrainer/torch"

// AdamW is Adam with weight decay that is decoupled from the gradient: torch.optim.AdamW with fused=True. With g the gradient at
// update t:
//
//	p -= lr * WeightDecay * p
//	m  = Beta1*m + (1-Beta1)*g
//	v  = Beta2*v + (1-Beta2)*g²
//	p -= lr * (m / (1-Beta1^t)) / (sqrt(v / (1-Beta2^t)) + Eps)
//
// Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, https://arxiv.org/abs/1711.05101.
type AdamW struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the mean of gradients m; nil means 0.9
	Beta2       *float64 // decay of the mean of squares v; nil means 0.999
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // nil means 1e-2
	AMSGrad     bool     // divide by the largest v so far: https://openreview.net/forum?id=ryQu7f-RZ
	Maximize    bool     // let the loss rise
}

// Adam is torch.optim.Adam with fused=True. It computes as [AdamW] does, but weight decay joins the gradient, g += WeightDecay * p, and
// is none unless it is set.
//
// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, https://arxiv.org/abs/1412.6980.
type Adam struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the mean of squares; nil means 0.999
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // L2 penalty; nil means 0
	AMSGrad     bool     // divide by the largest mean of squares so far
	Maximize    bool     // let the loss rise
}

// NewAdamW makes an optimizer of one group for a loop of one's own. It panics with [*torch.Error] where [AdamW.Build] would fail.
func NewAdamW(params []torch.Named, o AdamW) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdamW", opt, err)
}

// NewAdam makes an optimizer of one group for a loop of one's own. It panics with [*torch.Error] where [Adam.Build] would fail.
func NewAdam(params []torch.Named, o Adam) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewAdam", opt, err)
}

// LearningRate is LR or its default.
func (o AdamW) LearningRate() float64 { return orDefaultLR(o.LR) }

// LearningRate is LR or its default.
func (o Adam) LearningRate() float64 { return orDefaultLR(o.LR) }

// Build makes the optimizer.
func (o AdamW) Build(groups []Group) (Optimizer, error) {
	return buildAdam("AdamW", groups, o, or(o.WeightDecay, 1e-2), true)
}

// Build makes the optimizer.
func (o Adam) Build(groups []Group) (Optimizer, error) {
	return buildAdam("Adam", groups, AdamW(o), or(o.WeightDecay, 0), false)
}

func buildAdam(name string, groups []Group, o AdamW, decay float64, decoupled bool) (Optimizer, error) {
	fused := torch.FusedOptions{
		LR: o.LearningRate(), Beta1: or(o.Beta1, 0.9), Beta2: or(o.Beta2, 0.999), Eps: or(o.Eps, 1e-8), WeightDecay: decay,
		AMSGrad: o.AMSGrad, Maximize: o.Maximize, Decoupled: decoupled,
	}
	err := checkSettings(name, setting{name: "LR", value: fused.LR}, setting{"Beta1", fused.Beta1, 1}, setting{"Beta2", fused.Beta2, 1},
		setting{name: "Eps", value: fused.Eps}, setting{name: "WeightDecay", value: decay})
	if err != nil {
		return nil, err
	}
	rule := rule{name: name, options: fused, states: []state{{"step", newStep}, {"exp_avg", torch.Tensor.ZerosLike}, {"exp_avg_sq", torch.Tensor.ZerosLike}}}
	if o.AMSGrad {
		rule.states = append(rule.states, state{"max_exp_avg_sq", torch.Tensor.ZerosLike})
	}
	rule.step = func(params *torch.List, states []*torch.List, o torch.FusedOptions) {
		var largest *torch.List
		if o.AMSGrad {
			largest = states[3]
		}
		params.FusedAdam(states[1], states[2], largest, states[0], o)
	}
	return build(rule, groups)
}

// newStep makes the count of a parameter's updates. As in PyTorch it is a float32 on the parameter's device, where the kernel reads it.
func newStep(param torch.Tensor) torch.Tensor {
	return torch.Options{Device: param.Device()}.Zeros([]int64{}...)
}
