package arguments

import (
	"math"
	"slices"
	"strings"
)

// Names of OptimizerNames and SchedulerType of transformers 5.17.
const (
	optimizers = "adamw_torch adamw_torch_fused adamw_torch_xla adamw_torch_npu_fused adafactor adamw_anyprecision " +
		"adamw_torch_4bit adamw_torch_8bit ademamix sgd adagrad adamw_bnb_8bit adamw_8bit ademamix_8bit lion_8bit " +
		"lion_32bit paged_adamw_32bit paged_adamw_8bit paged_ademamix_32bit paged_ademamix_8bit paged_lion_32bit " +
		"paged_lion_8bit rmsprop rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw galore_adamw_8bit " +
		"galore_adafactor galore_adamw_layerwise galore_adamw_8bit_layerwise galore_adafactor_layerwise lomo adalomo " +
		"grokadamw schedule_free_radam schedule_free_adamw schedule_free_sgd apollo_adamw apollo_adamw_layerwise " +
		"stable_adamw"
	schedulers = "linear cosine cosine_with_restarts polynomial constant constant_with_warmup inverse_sqrt " +
		"reduce_lr_on_plateau cosine_with_min_lr cosine_warmup_with_min_lr warmup_stable_decay greedy"
)

// Validate refuses what transformers' TrainingArguments refuses on construction.
func (a *TrainingArguments) Validate() error {
	for _, c := range []struct{ name, value, known string }{
		{"logging_strategy", a.LoggingStrategy, "no steps epoch"}, {"eval_strategy", a.EvalStrategy, "no steps epoch"},
		{"save_strategy", a.SaveStrategy, "no steps epoch best"}, {"optim", a.Optim, optimizers},
		{"hub_strategy", a.HubStrategy, "end every_save checkpoint all_checkpoints"},
		{"lr_scheduler_type", a.LRSchedulerType, schedulers},
		{"train_sampling_strategy", a.TrainSamplingStrategy, "random sequential group_by_length batch_rebalance"},
		{"log_level", a.LogLevel, levelNames}, {"log_level_replica", a.LogLevelReplica, levelNames},
	} {
		if !slices.Contains(strings.Fields(c.known), c.value) {
			return &Error{c.name, c.value, "one of " + strings.ReplaceAll(c.known, " ", ", ")}
		}
	}
	if _, err := a.tokens(); err != nil {
		return err
	}
	switch {
	case a.TorchEmptyCacheSteps != nil && *a.TorchEmptyCacheSteps < 1:
		return &Error{"torch_empty_cache_steps", *a.TorchEmptyCacheSteps, "at least 1"}
	case a.BF16 && a.FP16:
		return &Error{"fp16", true, "one of bf16 and fp16 only"}
	case a.BF16FullEval && a.FP16FullEval:
		return &Error{"fp16_full_eval", true, "one of bf16_full_eval and fp16_full_eval only"}
	case !(a.WarmupSteps >= 0):
		return &Error{"warmup_steps", a.WarmupSteps, "0 or more"}
	case a.adaptive() && a.EvalStrategy == "no":
		return &Error{"lr_scheduler_type", a.LRSchedulerType, "an eval_strategy with it: it follows evaluations"}
	case a.DataloaderNumWorkers == 0 && a.DataloaderPrefetchFactor != nil:
		return &Error{"dataloader_prefetch_factor", *a.DataloaderPrefetchFactor, "dataloader_num_workers with it"}
	}
	return a.validateSteps()
}

// adaptive reports whether the schedule follows evaluations.
func (a *TrainingArguments) adaptive() bool {
	return a.LRSchedulerType == "reduce_lr_on_plateau" || a.LRSchedulerType == "greedy"
}

// evalSteps returns eval_steps or, if that is not set, logging_steps.
func (a *TrainingArguments) evalSteps() float64 {
	if a.EvalSteps == nil || *a.EvalSteps == 0 && a.EvalStrategy == "steps" {
		return a.LoggingSteps
	}
	return *a.EvalSteps
}

func (a *TrainingArguments) validateSteps() error {
	for _, s := range []struct {
		name, strategy string
		steps          float64
		zero           bool // zero is allowed, and means the end of the run
	}{{"logging_steps", a.LoggingStrategy, a.LoggingSteps, false}, {"eval_steps", a.EvalStrategy, a.evalSteps(), false},
		{"save_steps", a.SaveStrategy, a.SaveSteps, true}} {
		if s.strategy == "steps" && (s.steps == 0 && !s.zero || s.steps > 1 && s.steps != math.Trunc(s.steps)) {
			return &Error{s.name, s.steps, "a whole number, or a share of the run between 0 and 1"}
		}
	}
	if !a.LoadBestModelAtEnd || a.SaveStrategy == "best" {
		return nil
	}
	if a.EvalStrategy != a.SaveStrategy {
		return &Error{"load_best_model_at_end", true, "save_strategy, which is " + a.SaveStrategy +
			", to be best or as eval_strategy, which is " + a.EvalStrategy}
	}
	save, eval := a.SaveSteps, a.evalSteps()
	if a.SaveStrategy == "steps" {
		const large = 1e6 // as in transformers, shares are compared as whole numbers
		if save < 1 && eval < 1 {
			save, eval = save*large, eval*large
		} else if save < 1 || eval < 1 {
			return &Error{"save_steps", save, "it and eval_steps both to be shares of the run, or both numbers of " +
				"updates"}
		}
		if math.Mod(save, eval) != 0 {
			return &Error{"save_steps", a.SaveSteps, "a multiple of eval_steps with load_best_model_at_end"}
		}
	}
	return nil
}
