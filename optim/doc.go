// Package optim has the optimizers: every one of torch.optim 2.11 and some from Hugging Face and
// other projects, each equal to its original to the last bit.
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
// [AdamW], [Adam], [SGD] and the others are plain structs. A field that is left out has PyTorch's
// default. Where zero is a valid setting and not the default, the field is a pointer, and nil means
// the default:
//
//	optim.AdamW{LR: 5e-5}                          // weight decay 1e-2
//	optim.AdamW{LR: 5e-5, WeightDecay: new(0.0)}   // none
//
// A trainer takes the struct itself, as a [Builder], and makes the optimizer when it has the
// parameters.
//
// # Which optimizer
//
// Use [AdamW] unless you have a reason not to. The others:
//
//   - [SGD] with momentum, for convolutional networks trained from scratch
//   - [Muon], for the matrices of hidden layers, with AdamW for the rest
//   - [Lion], which keeps one moment instead of two
//   - [LAMB], for very large batches
//   - [Adafactor], [AdafactorHF], [GaLoreAdamW], [GaLoreAdafactor], [APOLLOAdamW], and [AdamW8bit]
//     and the other 8-bit optimizers, which save memory for states
//   - [LayerWise], [LOMO] and [AdaLOMO], which save memory for gradients too
//   - [AdamWScheduleFree], which needs no schedule
//   - [LBFGS], for small problems with all data in one batch
//   - [SparseAdam], for embeddings with sparse gradients (nn.EmbeddingOptions.Sparse): an update
//     costs as much as the batch has words, not as the vocabulary has
//
// [Adamax], [NAdam], [RAdam], [Adagrad], [Adadelta], [RMSprop], [Rprop] and [ASGD] complete
// torch.optim.
//
// All but SparseAdam refuse sparse gradients, except [SGD] without momentum, decay and fused
// kernel.
//
// Not supported: the options capturable (for CUDA graphs) and differentiable (for gradients through
// the update), and complex parameters.
//
// # By name
//
// [ByName] makes the settings that Hugging Face's Trainer makes from its arguments optim,
// optim_args, learning_rate, adam_beta1 and so on, with the same bits.
//
// # Optimizers that need more than Step
//
// Two kinds of optimizers need more from a loop than Step and ZeroGrad: the schedule-free ones are
// a [ModeSwitcher], and those that update during the backward pass are a [BackwardUpdater].
//
// # The learning rate
//
// An optimizer does not remember a learning rate: [Optimizer] Step receives it each time, usually
// from package optim/lr, whose schedules are functions of Updates(). LR in the settings is the peak
// of such a schedule. Schedules that also change the momentum do so through [MomentumSetter].
//
// # Groups
//
// A [Group] gives some parameters another weight decay or a multiple of the rate. [NoDecay] makes
// the two groups of Hugging Face, in which biases and the weights of norms are not decayed.
// [ByPattern] groups by name, [LayerDecay] by depth, and [LowRankGroups] for GaLore.
//
// # State
//
// A parameter's state (moments, step counts) is created when it has its first gradient, and is
// named after it: "fc1.weight.exp_avg". State lists all states for a checkpoint; LoadState
// continues from one, bit for bit. States belong to the optimizer and outlive every scope. They are
// on their parameter's device, except for counts that only Go reads. [ToPyTorch] and [FromPyTorch]
// exchange them with PyTorch.
//
// [Averaged] keeps an average of the weights during a run: EMA or SWA.
//
// # What is computed
//
// A step of AdamW, Adam, SGD and, on the CPU, Adagrad is one call of a fused kernel for all
// parameters of a group that share device and dtype. The others, and these too if [Implementation]
// says so, run the same sequence of operators as PyTorch. Nothing waits for the device, except
// where PyTorch itself needs a number on the way: the comments of Adafactor, AdafactorHF with
// ScaleParameter, GaLore and LBFGS say so. The formulas are in the comments of the settings, with
// their sources. Parameters without a gradient are skipped: they are neither decayed nor counted.
package optim
