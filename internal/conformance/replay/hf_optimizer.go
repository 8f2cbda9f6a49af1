package replay

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

func (a *hfArgs) readOptimizer(o *spec.Object) {
	a.optimizer.name = o.String("optim", "adamw_torch_fused")
	a.optimizer.args = optim.Arguments{LearningRate: a.trainer.LearningRate, WeightDecay: o.Float("weight_decay", 0),
		AdamBeta1: o.FloatOrNil("adam_beta1"),
		AdamBeta2: o.FloatOrNil("adam_beta2"), AdamEpsilon: o.FloatOrNil("adam_epsilon"),
		OptimArgs: o.String("optim_args", "")}
}

func readSchedule(o *spec.Object) scheduleArgs {
	s := scheduleArgs{name: o.String("lr_scheduler_type", "linear"), warmup: o.Float("warmup_steps", 0)}
	switch v := o.Any("lr_scheduler_kwargs").(type) {
	case nil:
	case string: // as on a command line
		k, err := spec.ParseObject([]byte(v))
		if err != nil {
			o.Fail("lr_scheduler_kwargs", "an object")
			break
		}
		s.kwargs = k.Map()
	case map[string]any:
		s.kwargs = v
	default:
		o.Fail("lr_scheduler_kwargs", "an object")
	}
	return s
}

// resolve finds optimizer and schedule by their names. Names that transformers does not have are
// refused at once; what else is wrong with them shows when the training begins, as there, and is
// kept in late.
func (a *hfArgs) resolve(s scheduleArgs) error {
	switch {
	case a.engine.Precision < 0:
		return fmt.Errorf("bf16 and fp16 are both set; want one of them")
	case s.warmup < 0:
		return fmt.Errorf("warmup_steps is %v, want 0 or more", s.warmup)
	case !a.evaluates && (s.name == "reduce_lr_on_plateau" || s.name == "greedy"):
		return fmt.Errorf("lr_scheduler_type is %q, which needs evaluations to follow", s.name)
	}
	if !slices.Contains(strings.Fields(hfOptimizers), a.optimizer.name) {
		return fmt.Errorf("optim is %q; known are %s", a.optimizer.name, hfOptimizers)
	}
	if !slices.Contains(strings.Fields(hfSchedules), s.name) {
		return fmt.Errorf("lr_scheduler_type is %q; known are %s", s.name, hfSchedules)
	}
	if a.late == nil {
		a.late = a.lateRefusal()
	}
	if a.late != nil {
		a.trainer.LearningRate = max(a.trainer.LearningRate, 0)
		return nil
	}
	builder, err := optim.ByName(a.optimizer.name, a.knownOptimArgs())
	if err == nil {
		err = buildable(builder)
	}
	if err != nil {
		a.late = err
		return nil
	}
	a.engine.Optimizer = builder
	if adaptive := s.name == "reduce_lr_on_plateau" || s.name == "greedy"; a.trainer.MetricForBest == "" &&
		(adaptive || a.trainer.LoadBestAtEnd) {
		a.trainer.MetricForBest = "loss"
	}
	if s.name == "reduce_lr_on_plateau" || s.name == "greedy" {
		a.trainer.Adaptive, a.late = lr.AdaptiveByName(s.name, s.kwargs)
		a.lateSchedule = a.late != nil
		if a.trainer.LearningRate == 0 { // which in our options is the default
			a.trainer.LearningRate = math.SmallestNonzeroFloat64
		}
		return nil
	}
	schedule, err := s.build()
	if err != nil {
		a.late, a.lateSchedule = err, true
		return nil
	}
	if a.trainer.LearningRate == 0 {
		a.trainer.LearningRate, schedule = 1, zeroRate{schedule}
	}
	a.trainer.Schedule = schedule
	return nil
}

// lateRefusal is what stops the recorded trainer when it makes its optimizer.
func (a *hfArgs) lateRefusal() error {
	name := a.optimizer.name
	switch {
	case a.trainer.LearningRate < 0:
		return fmt.Errorf("learning_rate is %v, want 0 or more", a.trainer.LearningRate)
	case slices.ContainsFunc(strings.Fields(packaged), func(part string) bool { return strings.Contains(name, part) }):
		return fmt.Errorf("optim is %s, of a package that the recordings are made without", name)
	}
	return nil
}

// buildable tells what is wrong with the settings of an optimizer, on a parameter of no importance.
func buildable(b optim.Builder) (err error) {
	failed := torch.Try(func() {
		torch.Scope(func() {
			_, err = b.Build([]optim.Group{{Params: []torch.Named{{Name: "any", Tensor: torch.Zeros(1)}}}})
		})
	})
	return errors.Join(failed, err)
}

// packaged are parts of the names of optimizers that transformers takes from packages of others,
// none of which the recordings have.
const packaged = "xla npu anyprecision 4bit 8bit 32bit bnb ademamix galore lomo grokadamw schedule_free apollo stable"

// knownOptimArgs leaves out of optim_args what the optimizer does not have, as transformers does
// without a word.
func (a *hfArgs) knownOptimArgs() optim.Arguments {
	args := a.optimizer.args
	if _, err := optim.ByName(a.optimizer.name, args); err == nil {
		return args
	}
	var kept []string
	for part := range strings.SplitSeq(args.OptimArgs, ",") {
		alone := args
		if alone.OptimArgs = part; !strings.Contains(part, "=") {
			return args
		}
		if _, err := optim.ByName(a.optimizer.name, alone); err == nil {
			kept = append(kept, part)
		}
	}
	args.OptimArgs = strings.Join(kept, ",")
	return args
}

// zeroRate is a schedule under the learning rate 0, which in our options is the default.
type zeroRate struct{ lr.Schedule }

func (z zeroRate) Plan(_ float64, updates int) lr.Rate { return z.Schedule.Plan(0, updates) }
func (z zeroRate) ValidatePlan(_ float64, updates int) error {
	return lr.Validate(z.Schedule, 0, updates)
}

// hfOptimizers are OptimizerNames of transformers 5.17, hfSchedules its SchedulerType.
const (
	hfOptimizers = "adamw_torch adamw_torch_fused adamw_torch_xla adamw_torch_npu_fused adafactor adamw_anyprecision " +
		"adamw_torch_4bit adamw_torch_8bit ademamix sgd adagrad " +
		"adamw_bnb_8bit adamw_8bit ademamix_8bit lion_8bit lion_32bit paged_adamw_32bit paged_adamw_8bit " +
		"paged_ademamix_32bit paged_ademamix_8bit paged_lion_32bit paged_lion_8bit " +
		"rmsprop rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw galore_adamw_8bit galore_adafactor " +
		"galore_adamw_layerwise galore_adamw_8bit_layerwise " +
		"galore_adafactor_layerwise lomo adalomo grokadamw schedule_free_radam schedule_free_adamw schedule_free_sgd " +
		"apollo_adamw apollo_adamw_layerwise stable_adamw"
	hfSchedules = "linear cosine cosine_with_restarts polynomial constant constant_with_warmup inverse_sqrt " +
		"reduce_lr_on_plateau cosine_with_min_lr cosine_warmup_with_min_lr " +
		"warmup_stable_decay greedy"
)
