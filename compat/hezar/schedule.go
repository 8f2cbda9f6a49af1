package hezar

import (
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// classes maps Hezar's names to classes in torch.optim.lr_scheduler.
var classes = map[string]string{
	"step": "StepLR", "multi_step": "MultiStepLR", "one_cycle": "OneCycleLR", "linear": "LinearLR",
	"exponential": "ExponentialLR", "cyclic": "CyclicLR", "polynomial": "PolynomialLR",
	"cosine_anealing": "CosineAnnealingLR",
}

// scheduler adjusts the learning rate: after a number of batches, or by a metric at the end of an
// epoch.
type scheduler struct {
	none        bool // the rate is constant, and no file is written
	plan        lr.Rate
	momentum    loops.Momentum
	controller  lr.Controller // nil: the rate follows plan
	moves       int
	failsAtOnce bool          // PyTorch's class cannot be constructed
	limit       int           // steps after which PyTorch's class fails; 0 or less: it does not
	config      TrainerConfig // written to the file
}

// newScheduler makes the schedule of a configuration, or uses the caller's.
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

// kwargs converts arguments to the form that package lr reads.
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

// rate returns the rate of the next update.
func (s *scheduler) rate() float64 {
	if s.controller != nil {
		return s.controller.Rate()
	}
	return s.plan(s.moves)
}

// newOptimizer makes the optimizer that a configuration names. It computes like PyTorch's with
// default arguments: operator by operator on a CPU.
func newOptimizer(c TrainerConfig) optim.Builder {
	switch c.Optimizer {
	case "adamw":
		return optim.AdamW{LR: c.LearningRate, WeightDecay: &c.WeightDecay, Implementation: optim.PyTorchDefault}
	case "sdg", "sgd":
		return optim.SGD{LR: c.LearningRate, WeightDecay: &c.WeightDecay, Implementation: optim.PyTorchDefault}
	}
	return optim.Adam{LR: c.LearningRate, WeightDecay: &c.WeightDecay, Implementation: optim.PyTorchDefault}
}
