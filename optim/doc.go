// Package optim changes parameters so that a loss falls: AdamW, Adam and SGD as torch.optim computes them, to the last bit of its
// fused kernels.
//
//	opt := optim.NewAdamW(params, optim.AdamW{LR: 5e-5})
//	for k := range updates {
//		torch.Scope(func() {
//			loss := ... // forward
//			loss.Backward()
//			opt.Step(rate(k))
//			opt.ZeroGrad()
//		})
//	}
//
// # Settings
//
// [AdamW], [Adam] and [SGD] are plain structs. A field that is left out has PyTorch's default. Where zero is a setting of its own and
// not the default, the field is a pointer, and nil is the default:
//
//	optim.AdamW{LR: 5e-5}                          // weight decay 1e-2
//	optim.AdamW{LR: 5e-5, WeightDecay: new(0.0)}   // none
//
// A trainer takes the struct itself, as a [Builder], and makes the optimizer once it has the parameters.
//
// # The learning rate
//
// An optimizer does not remember a rate: [Optimizer] Step is told it each time, mostly by package optim/lr, whose schedules are functions
// of Updates(). LR in the settings is the peak that such a schedule starts from.
//
// # Groups
//
// A [Group] gives some parameters another weight decay or a multiple of the rate. [NoDecay] makes Hugging Face's two: biases and
// the weights of norms are not decayed.
//
// # State
//
// States (moments, step counts) come into being when a parameter has its first gradient, and are named after it:
// "fc1.weight.exp_avg". State lists them for a checkpoint; LoadState continues from one, bit for bit. They lie on their parameter's device,
// outlive every scope, and belong to the optimizer.
//
// # What is computed
//
// Each step is one call of a fused kernel (_fused_adamw_, _fused_adam_, _fused_sgd_) for all parameters of a group that share device
// and dtype; it waits for nothing. The formulas stand at the settings, with their sources. Parameters without
// gradient are left out: neither decayed nor counted.
package optim
