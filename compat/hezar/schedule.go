package hezar

import (
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// classes are the classes of torch.optim.lr_scheduler behind Hezar's names.
var classes = map[string]string{
	"step": "StepLR", "multi_step": "MultiStepLR", "one_cycle": "OneCycleLR", "linear": "LinearLR",
	"exponential": "ExponentialLR", "cyclic": "CyclicLR", "polynomial": "PolynomialLR",
	"cosine_anealing": "CosineAnnealingLR",
}

// scheduler moves the learning rate: every so many batches, or by a metric at the end of an epoch.
type scheduler struct {
	none        bool // the rate stays, and there is no file
	plan        lr.Rate
	momentum    loops.Momentum
	controller  lr.Controller // nil: planned
	moves       int
	failsAtOnce bool          // PyTorch's class cannot be made
	limit       int           // moves behind which PyTorch's class fails; 0 or less: it does not
	config      TrainerConfig // for the file
}

// newScheduler makes the schedule of a configuration, or the caller's own.
func newScheduler(c TrainerConfig, own lr.Schedule, adaptive lr.Adaptive, o optim.Optimizer, moves int) (*scheduler,
	error) {
	s := &scheduler{config: c}
	var err error
	switch {
	case own != nil && adaptive != nil:
		return nil, refuse("Options.Adaptive", "set beside LRScheduler", "one of them")
	case own != nil, adaptive != nil:
	case c.LRScheduler == "":
		s.none, s.plan = true, func(int) float64 { return c.LearningRate }
		return s, nil
	case c.LRScheduler == "constant":
		own = lr.Constant{}
	case c.LRScheduler == "lambda":
		own = lr.LambdaLR{Lambda: c.LRLambda}
	case c.LRScheduler == "reduce_on_plateau":
		adaptive, err = lr.AdaptiveByName("ReduceLROnPlateau", kwargs(c.LRSchedulerKwargs))
	default:
		own, err = lr.ByName(classes[c.LRScheduler], kwargs(c.LRSchedulerKwargs), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("hezar: LRSchedulerKwargs: %w", err)
	}
	if adaptive != nil {
		s.controller, err = adaptive.Start(c.LearningRate)
	} else if err = lr.Validate(own, c.LearningRate, moves); err == nil {
		s.plan, s.limit, s.failsAtOnce = own.Plan(c.LearningRate, moves), lr.StepLimit(own, moves),
			lr.FailsAtOnce(own, moves)
		s.momentum, err = loops.PlanMomentum(own, o, moves)
	}
	if err != nil {
		return nil, fmt.Errorf("hezar: LRScheduler: %w", err)
	}
	return s, nil
}

// kwargs are the arguments in the form that package lr reads.
func kwargs(m omegaconf.Map) map[string]any {
	out := map[string]any{}
	for _, item := range m {
		v := item.Value
		if nested, ok := v.(omegaconf.Map); ok {
			v = kwargs(nested)
		}
		out[fmt.Sprint(item.Key)] = v
	}
	return out
}

// rate is the rate of the next update.
func (s *scheduler) rate() float64 {
	if s.controller != nil {
		return s.controller.Rate()
	}
	return s.plan(s.moves)
}

// newOptimizer makes the optimizer that a configuration names. It computes as PyTorch's does if it
// is told nothing: operator by operator on a CPU.
func newOptimizer(c TrainerConfig) optim.Builder {
	switch c.Optimizer {
	case "adamw":
		return optim.AdamW{LR: c.LearningRate, WeightDecay: &c.WeightDecay, Implementation: optim.PyTorchDefault}
	case "sdg", "sgd":
		return optim.SGD{LR: c.LearningRate, WeightDecay: &c.WeightDecay, Implementation: optim.PyTorchDefault}
	}
	return optim.Adam{LR: c.LearningRate, WeightDecay: &c.WeightDecay, Implementation: optim.PyTorchDefault}
}
