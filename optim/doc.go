// Package optim changes parameters so that a loss falls: every optimizer of torch.optim 2.11, and
// some of Hugging Face's world, as those compute them, to the last bit.
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
// default. Where zero is a setting of its own and not the default, the field is a pointer, and nil
// is the default:
//
//	optim.AdamW{LR: 5e-5}                          // weight decay 1e-2
//	optim.AdamW{LR: 5e-5, WeightDecay: new(0.0)}   // none
//
// A trainer takes the struct itself, as a [Builder], and makes the optimizer once it has the
// parameters.
//
// # Which optimizer
//
// [AdamW] unless there is a reason. [SGD] with momentum for convolutional networks from scratch;
// [Muon] for the matrices of hidden layers, beside AdamW for the rest; [Lion] keeps one moment in
// place of two; [LAMB] is for very large batches; [Adafactor], [AdafactorHF], [GaLoreAdamW],
// [GaLoreAdafactor], [APOLLOAdamW] and [AdamW8bit] with the others in 8 bits save memory for
// states, [LayerWise], [LOMO] and [AdaLOMO] that for gradients too; [AdamWScheduleFree] needs no
// schedule; [LBFGS] is for small problems with all data in one batch. [Adamax], [NAdam], [RAdam],
// [Adagrad], [Adadelta], [RMSprop], [Rprop] and [ASGD] complete torch.optim.
//
// [SparseAdam] is for embeddings with sparse gradients, nn.EmbeddingOptions.Sparse: an update costs
// as much as the batch has words and not as the vocabulary has. The others refuse such gradients,
// but for [SGD] without momentum, decay and fused kernel.
//
// Some things of torch.optim are not here. The options capturable and differentiable belong to CUDA
// graphs and to gradients through the update; complex parameters have no optimizer.
//
// # By name
//
// [ByName] makes the settings that Hugging Face's Trainer makes of its arguments optim, optim_args,
// learning_rate and adam_beta1, with the same bits.
//
// # Beside Step
//
// Two kinds of optimizers need more of a loop than Step and ZeroGrad: the schedule-free ones are a
// [ModeSwitcher], and optimizers that update during the backward pass are a [BackwardUpdater].
//
// # The learning rate
//
// An optimizer does not remember a rate: [Optimizer] Step receives it each time, mostly from
// package optim/lr, whose schedules are functions of Updates(). LR in the settings is the peak that
// such a schedule starts from. Schedules that move the momentum too do so through [MomentumSetter].
//
// # Groups
//
// A [Group] gives some parameters another weight decay or a multiple of the rate. [NoDecay] makes
// Hugging Face's two: biases and the weights of norms are not decayed. [ByPattern] divides by name,
// [LayerDecay] by depth, [LowRankGroups] for GaLore.
//
// # State
//
// States (moments, step counts) come into being when a parameter has its first gradient, and are
// named after it: "fc1.weight.exp_avg". State lists them for a checkpoint; LoadState continues from
// one, bit for bit. They are on their parameter's device but for counts that only Go reads, outlive
// every scope, and belong to the optimizer. [ToPyTorch] and [FromPyTorch] exchange them with
// PyTorch.
//
// [Averaged] keeps an average of the weights beside a run: EMA or SWA.
//
// # What is computed
//
// A step of AdamW, Adam, SGD and, on the CPU, Adagrad is one call of a fused kernel for all
// parameters of a group that share device and dtype. The others, and these too if [Implementation]
// says so, are the sequences of operators that PyTorch runs. Nothing waits for the device, except
// where PyTorch itself needs a number on the way: Adafactor, AdafactorHF with ScaleParameter,
// GaLore and LBFGS say so. The formulas are in the comments of the settings, with their sources.
// Parameters without gradient are left out: neither decayed nor counted.
package optim
