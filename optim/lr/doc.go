// Package lr plans learning rates. A [Schedule] is a description ("linear, 100 updates of warmup").
// Its Plan makes a [Rate], a pure function from the number of an update to its learning rate:
//
//	rate := lr.Linear{Warmup: 100}.Plan(5e-5, 1000) // peak rate, updates of the whole run
//	opt.Step(rate(0))                               // the first update
//
// # Why a function and not a scheduler object
//
// A scheduler object that is stepped has a state, which must be saved, loaded and kept in sync with
// the optimizer. A function has none: the number of the update determines the rate, after a resume
// too.
//
// PyTorch's chainable schedulers compute each rate from the previous one ([CosineAnnealingLR],
// [ExponentialLR], [LinearLR], [SequentialLR] and others). Their closed forms differ from that by a
// few bits, so Plan steps through them as PyTorch does and remembers the results: 16 bytes for each
// update. The first query of a late update computes all updates before it.
//
// A schedule that reacts to a measured value cannot be such a function. [ReduceLROnPlateau] and
// [Greedy] are [Adaptive], and the [Controller] that they start has a State for the checkpoint.
//
// # Available schedules
//
//   - transformers.get_scheduler: [Constant], [ConstantWithWarmup], [Linear], [Cosine],
//     [CosineWithRestarts], [Polynomial], [InverseSqrt], [CosineWithMinLR],
//     [CosineWarmupWithMinLR], [WarmupStableDecay], [ReduceLROnPlateau], [Greedy];
//   - torch.optim.lr_scheduler and swa_utils, under their names: [StepLR], [OneCycleLR], [SWALR]
//     and the rest;
//   - timm: [TimmCosine], [TimmPoly], [TimmTanh], [TimmStep], [TimmMultiStep], [TimmWSD],
//     [TimmPlateau], and [TimmNoise] over any schedule;
//   - pytorch-accelerated: [PytorchAcceleratedCosine], [PytorchAcceleratedWSD];
//   - [PerEpoch], which gives any of them the epoch as its unit; a trainer tells it how long one
//     is.
//
// [ByName] makes them from the names and arguments used in the configuration files of those
// libraries.
//
// # Groups and momentum
//
// A plan is made for one peak rate; groups of parameters scale it (optim.Group.LRScale).
// [OneCycleLR] and [CyclicLR] also change the optimizer's momentum: they are a [MomentumSchedule],
// and so is anything composed of them.
//
// # Equality with Python
//
// The rates are those of the Python libraries in double precision: transformers 5.17, torch 2.11,
// timm 1.0.31, pytorch-accelerated 0.1.61. golden_test.go and families_test.go compare them to the
// last bit: 417 of 436 recorded schedules agree in every bit of every rate.
//
// The others differ because of the C library behind Python: its cos and pow miss the nearest double
// for about one argument in 700, and its tanh more often. Here cos and pow give the nearest double
// on every machine. Over 10,000 updates this makes 5 rates of a [CosineAnnealingWarmRestarts]
// differ in the last bit. [CosineAnnealingLR] builds each rate on the last one, so it carries the
// first such miss on and ends 1.4e-15 away from PyTorch.
//
// As in transformers, update 0 of a warmup has the rate 0: the factor of update k is k/Warmup.
package lr
