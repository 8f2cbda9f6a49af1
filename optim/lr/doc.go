// Package lr plans learning rates. A [Schedule] is a description ("linear, 100 updates of warmup"); its Plan
// makes a [Rate], a pure function from the number of an update to the learning rate of that update:
//
//	rate := lr.Linear{Warmup: 100}.Plan(5e-5, 1000) // peak rate, updates of the whole run
//	opt.Step(rate(0))                               // the first update
//
// # Why a function and not a scheduler object
//
// A scheduler that is stepped has a state that must be saved, loaded and kept in step with the optimizer.
// A function has none: whoever knows the number of the update knows the rate, after a resume too.
//
// # What the numbers are
//
// The rates are those of transformers.get_scheduler, which multiplies the peak rate by a factor in double
// precision (torch.optim.lr_scheduler.LambdaLR). They agree to the last bit; golden_test.go holds them to it.
// As there, update 0 of a warmup has the rate 0: the factor of update k is k/Warmup.
package lr
