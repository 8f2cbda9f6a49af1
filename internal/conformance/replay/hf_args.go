package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// hfArgs are the arguments of transformers' Trainer as the options of ours.
type hfArgs struct {
	trainer   trainer.Options
	engine    engine.Options
	optimizer struct {
		name string
		args optim.Arguments
	}
	sampling     string      // random, sequential, group_by_length or batch_rebalance
	tokens       string      // no, all or non_padding
	allColumns   bool        // remove_unused_columns is off
	lossOnly     bool        // prediction_loss_only
	batchMetrics bool        // batch_eval_metrics
	fullEval     torch.DType // evaluations outside of training turn the model into it; zero: they do not
	saves        bool        // save_strategy is not no
	evaluates    bool        // eval_strategy is not no
	intervals    []hfInterval
	saveBest     bool // save_strategy is best
	seed         uint64
	globalOrder  bool  // the samples are ordered by the global generator
	workers      int   // processes that load
	persistent   bool  // and stay: a loader draws their seed once, not for each pass
	concat       bool  // the batches of an evaluation are put together for the metrics
	inputs       bool  // the metrics want input_ids
	noLabels     bool  // label_names names what no batch has, so that an evaluation sees no labels
	refused      error // by the arguments themselves
	late         error // what is refused when the training begins
	lateSchedule bool  // it is the schedule, which is made when there is an optimizer
	missing      bool  // it is the checkpoint to resume from
}

// readHFArgs takes TrainingArguments of transformers 5.17, all of them. Those that only concern
// Python, or other machines than this one, are taken where they change nothing. The error is a
// refusal, as that of the recorded trainer would be; what cannot be run is an *spec.Unsupported.
func readHFArgs(o *spec.Object) (a hfArgs, err error) {
	t, e := &a.trainer, &a.engine
	t.Semantics, t.Progress, t.Workers = semantics.HuggingFace, io.Discard, 1
	t.BatchSize, t.EvalBatchSize, t.Accumulate = o.Int("per_device_train_batch_size", 8),
		o.Int("per_device_eval_batch_size", 8), o.Int("gradient_accumulation_steps", 1)
	t.Epochs, t.MaxSteps = o.Float("num_train_epochs", 3), max(0, o.Int("max_steps", -1))
	switch {
	case t.MaxSteps > 0:
		t.Epochs = 0
	case t.Epochs <= 0 || o.Int("max_steps", -1) == 0:
		return a, spec.Unsupportedf("a run of no update: num_train_epochs is %v, max_steps %d", t.Epochs,
			o.Int("max_steps", -1))
	}
	if min(t.BatchSize, t.EvalBatchSize, t.Accumulate) < 1 {
		a.late = fmt.Errorf("batches of %d and %d samples, %d of them behind an update: want at least 1", t.BatchSize,
			t.EvalBatchSize, t.Accumulate)
		t.BatchSize, t.EvalBatchSize, t.Accumulate = max(1, t.BatchSize), max(1, t.EvalBatchSize), max(1, t.Accumulate)
	}
	t.LearningRate = o.Float("learning_rate", 5e-5)
	a.readSeeds(o)
	t.DropLast, t.IgnoreDataSkip = o.Bool("dataloader_drop_last", false), o.Bool("ignore_data_skip", false)
	a.readWorkers(o)
	if t.EmptyCacheSteps = o.Int("torch_empty_cache_steps", 0); t.EmptyCacheSteps < 1 &&
		o.Has("torch_empty_cache_steps") && o.Any("torch_empty_cache_steps") != nil {
		a.refuse("torch_empty_cache_steps is %d, want at least 1", t.EmptyCacheSteps)
	}
	if o.Bool("tf32", false) {
		a.refuse("tf32 is set, which needs a GPU")
	}
	t.Semantics.FilterNonFiniteLoss = o.Bool("logging_nan_inf_filter", true)
	t.Semantics.ForgetHooksAtResume = !o.Bool("restore_callback_states_from_checkpoint", false)
	a.readTriggers(o)
	a.readBest(o)
	a.readEngine(o)
	a.readOptimizer(o)
	a.sampling = o.OneOf("train_sampling_strategy", "random", "random", "sequential", "group_by_length",
		"batch_rebalance")
	a.tokens = a.readTokens(o)
	t.CountTokens, e.NonPaddingTokens = a.tokens != "no", a.tokens == "non_padding"
	t.SaveOnlyModel, t.AutoFindBatchSize = o.Bool("save_only_model", false), o.Bool("auto_find_batch_size", false)
	a.readMetrics(o)
	a.allColumns, a.lossOnly = !o.Bool("remove_unused_columns", true), o.Bool("prediction_loss_only", false)
	switch {
	case a.sampling == "sequential":
		t.Order = data.Sequential{}
	case a.sampling == "random":
		t.Order = data.Shuffled{Seed: t.DataSeed} // which may be 0
	}
	schedule := readSchedule(o)
	if err := withoutEffect(o); err != nil {
		return a, err
	}
	if err := o.Err(); err != nil {
		return a, err
	}
	if left := o.Left(); len(left) > 0 { // a call in Python refuses it
		return a, fmt.Errorf("TrainingArguments has no argument %q", left[0])
	}
	if a.refused != nil {
		return a, a.refused
	}
	return a, a.resolve(schedule)
}

// choice reads one of several names; another is refused, as by an enumeration of Python.
func (a *hfArgs) choice(o *spec.Object, name, absent string, values ...string) string {
	s := o.String(name, absent)
	if !slices.Contains(values, s) {
		a.refuse("%s is %q, want one of %s", name, s, strings.Join(values, ", "))
	}
	return s
}

// refuse keeps the first reason for which the arguments are refused.
func (a *hfArgs) refuse(format string, args ...any) {
	if a.refused == nil {
		a.refused = fmt.Errorf(format, args...)
	}
}

// readSeeds takes the seeds, which here may be 0: hfStep and the order of the samples get them,
// since 0 in our options means 42.
func (a *hfArgs) readSeeds(o *spec.Object) {
	a.seed = uint64(o.Int("seed", 42))
	a.trainer.Seed, a.trainer.DataSeed = a.seed, a.seed
	if o.Has("data_seed") && o.Any("data_seed") != nil {
		a.trainer.DataSeed = uint64(o.Int("data_seed", 0))
	}
	if c := o.Object("accelerator_config"); c != nil {
		a.globalOrder = !c.Bool("use_seedable_sampler", true)
		for _, name := range []string{"split_batches", "even_batches", "non_blocking", "dispatch_batches"} {
			c.Any(name) // of no effect in one process
		}
		if k := c.Object("gradient_accumulation_kwargs"); k != nil {
			if k.Has("num_steps") {
				if a.trainer.Accumulate > 1 {
					a.refuse("accelerator_config.gradient_accumulation_kwargs.num_steps and " +
						"gradient_accumulation_steps are both set")
				}
				a.trainer.Accumulate = k.Int("num_steps", 1)
			}
			// transformers writes it into what it was given, where a second trainer finds it
			k.Map()["num_steps"] = json.Number("1")
		}
		if err := c.Done(); err != nil {
			o.Fail("accelerator_config", "an object of the fields split_batches, dispatch_batches, even_batches, "+
				"use_seedable_sampler, non_blocking")
		}
	}
}

// readWorkers takes the settings of the processes that load, which change no batch.
func (a *hfArgs) readWorkers(o *spec.Object) {
	a.workers, a.persistent = o.Int("dataloader_num_workers", 0), o.Bool("dataloader_persistent_workers", false)
	prefetch := o.Int("dataloader_prefetch_factor", 0)
	switch {
	case a.workers == 0 && prefetch != 0:
		a.refuse("dataloader_prefetch_factor is %d without workers", prefetch)
	case a.workers == 0 && a.persistent:
		a.late = fmt.Errorf("dataloader_persistent_workers is set without workers")
	}
}

// readMetrics takes what concerns the numbers of an evaluation beside its loss.
func (a *hfArgs) readMetrics(o *spec.Object) {
	a.concat = o.Bool("eval_do_concat_batches", true)
	a.inputs = slices.Contains(o.Strings("include_for_metrics"), "inputs")
	if o.Has("label_names") && o.Any("label_names") != nil {
		names := o.Strings("label_names")
		a.noLabels = !slices.Equal(names, []string{"labels"})
		if a.noLabels && slices.Contains(names, "x") || slices.Contains(names, "input_ids") {
			o.Fail("label_names", `["labels"], or names that no batch has`)
		}
	}
}

// readTriggers says when to log, evaluate and save.
func (a *hfArgs) readTriggers(o *spec.Object) {
	t := &a.trainer
	logging := o.Float("logging_steps", 500)
	strategy := a.choice(o, "logging_strategy", "steps", "no", "steps", "epoch")
	t.Log = trigger(strategy, logging)
	a.intervals = append(a.intervals, hfInterval{"logging_steps", strategy, logging})
	t.LogFirst = o.Bool("logging_first_step", false)
	strategy = a.choice(o, "eval_strategy", "no", "no", "steps", "epoch")
	steps := o.Float("eval_steps", logging)
	if steps == 0 && strategy == "steps" {
		steps = logging
	}
	t.Eval = trigger(strategy, steps)
	if o.Has("eval_steps") && o.Any("eval_steps") != nil {
		a.intervals = append(a.intervals, hfInterval{"eval_steps", strategy, steps})
	}
	t.EvalOnStart, t.EvalDelay = o.Bool("eval_on_start", false), o.Float("eval_delay", 0)
	a.evaluates = strategy != "no"
	strategy = a.choice(o, "save_strategy", "steps", "no", "steps", "epoch", "best")
	t.Save = trigger(strategy, o.Float("save_steps", 500))
	a.intervals = append(a.intervals, hfInterval{"save_steps", strategy, o.Float("save_steps", 500)})
	t.KeepCheckpoints = o.Int("save_total_limit", 0)
	a.saves, a.saveBest = strategy != "no", strategy == "best"
	if o.Bool("load_best_model_at_end", false) && t.Eval != trainer.Never && strategy == "steps" && steps >= 1 &&
		math.Mod(o.Float("save_steps", 500), steps) != 0 {
		a.refuse("save_steps is %v, which is no multiple of the eval_steps of %v", o.Float("save_steps", 500), steps)
	}
	for _, i := range a.intervals {
		if i.strategy == "steps" && (i.steps == 0 && i.name != "save_steps" || i.steps > 1 &&
			i.steps != math.Trunc(i.steps)) {
			a.refuse("%s is %v, want a whole number or a share of the run", i.name, i.steps)
		}
	}
}

// hfInterval is an argument that says how many updates lie between two logs, evaluations or saves,
// and the strategy that it belongs to.
type hfInterval struct {
	name, strategy string
	steps          float64
}

// keepIntervals puts the intervals into the state of a checkpoint where the strategy does not count
// updates: transformers keeps them though they have no effect, and our options have no place for
// them.
func (a *hfArgs) keepIntervals(state hfState) {
	updates, err := state.int("max_steps")
	if err != nil {
		return // it is compared as it is
	}
	for _, i := range a.intervals {
		if i.strategy == "steps" && i.steps > 0 {
			continue
		}
		steps := i.steps
		if steps < 1 {
			steps = math.Ceil(float64(updates) * steps)
		}
		state[i.name] = int(steps)
	}
}

// settle refuses what the recorded trainer refuses when it is made, and leaves out what has no
// effect there.
func (a *hfArgs) settle(s *spec.Spec) error {
	t, stream := &a.trainer, s.Data.Iterable
	if a.batchMetrics && len(s.Metrics) > 0 {
		return fmt.Errorf("batch_eval_metrics is set, and the recorded metrics are computed once over the whole set")
	}
	if a.saveBest && t.MetricForBest == "" && !t.LoadBestAtEnd {
		return fmt.Errorf("save_strategy is best, which needs metric_for_best_model")
	}
	if stream && a.workers > 1 {
		return spec.Unsupportedf("args.dataloader_num_workers is %d with a stream: PyTorch gives every worker a copy "+
			"of the data set, and one that does not ask get_worker_info, as the recorded one, trains on each row %d "+
			"times", a.workers, a.workers)
	}
	if stream {
		t.Order = nil // a stream has an order of its own
	}
	if t.LoadBestAtEnd && !a.evaluates && !a.saves { // no evaluation ever finds a best one
		t.LoadBestAtEnd, t.Save = false, trainer.Never
		if t.MetricForBest == "" {
			t.MetricForBest = "loss"
		}
	}
	return nil
}

// trigger is a strategy with its steps, which are a share of the run below 1.
func trigger(strategy string, steps float64) trainer.Trigger {
	switch {
	case strategy == "no":
		return trainer.Never
	case strategy == "epoch":
		return trainer.Every(1, trainer.Epoch)
	case strategy == "best":
		return trainer.AtBest
	case steps <= 0: // at the end of the run alone
		return trainer.Every(math.MaxInt32, trainer.Update)
	case steps < 1:
		return trainer.EveryShare(steps)
	}
	return trainer.Every(int(steps), trainer.Update)
}

// readBest says which evaluation is the best.
func (a *hfArgs) readBest(o *spec.Object) {
	t := &a.trainer
	t.LoadBestAtEnd, t.MetricForBest = o.Bool("load_best_model_at_end", false), o.String("metric_for_best_model", "")
	if o.Has("greater_is_better") && o.Any("greater_is_better") != nil {
		t.Direction = trainer.LowerIsBetter
		if o.Bool("greater_is_better", false) {
			t.Direction = trainer.GreaterIsBetter
		}
	}
}

// readEngine takes what concerns tensors.
func (a *hfArgs) readEngine(o *spec.Object) {
	e := &a.engine
	limit := o.Float("max_grad_norm", 1)
	if o.Has("max_grad_norm") && o.Any("max_grad_norm") == nil {
		limit = 0
	}
	if e.MaxGradNorm = limit; limit <= 0 {
		e.MaxGradNorm = math.Inf(1) // the norm is reported all the same
	}
	bf16, fp16 := o.Bool("bf16", false), o.Bool("fp16", false)
	switch {
	case bf16 && fp16:
		e.Precision = -1 // refused below: one precision at a time
	case bf16:
		e.Precision = amp.BF16
	case fp16:
		e.Precision, e.IgnoreFP16OnCPU = amp.FP16, true
	}
	if o.Bool("bf16_full_eval", false) {
		a.fullEval = torch.BFloat16
	}
	if o.Bool("fp16_full_eval", false) {
		if a.fullEval == torch.BFloat16 {
			a.refuse("bf16_full_eval and fp16_full_eval are both set; want one of them")
		}
		a.fullEval = torch.Float16
	}
	e.LabelSmoothing = o.Float("label_smoothing_factor", 0)
	if alpha := o.FloatOrNil("neftune_noise_alpha"); alpha != nil {
		e.NEFTuneAlpha = max(*alpha, math.SmallestNonzeroFloat64) // noise of size 0 is drawn too
	}
	e.GradientCheckpointing, e.FullDeterminism = o.Bool("gradient_checkpointing", false), o.Bool("full_determinism",
		false)
	e.EvalAccumulation = o.Int("eval_accumulation_steps", 0)
	a.batchMetrics = o.Bool("batch_eval_metrics", false)
}

// readTokens is include_num_input_tokens_seen, which may be a string or a boolean.
func (a *hfArgs) readTokens(o *spec.Object) string {
	if b, ok := o.Any("include_num_input_tokens_seen").(bool); ok {
		return map[bool]string{false: "no", true: "all"}[b]
	}
	return o.OneOf("include_num_input_tokens_seen", "no", "no", "all", "non_padding")
}

// idle are arguments of no effect here if they have one of the values that are given; others make
// the case unsupported.
var idle = map[string][]string{
	"output_dir": nil, "report_to": nil, "disable_tqdm": nil, "run_name": nil, "log_level": nil,
	"log_level_replica": nil, "log_on_each_node": nil, "logging_dir": nil,
	"do_train": nil, "do_eval": nil, "do_predict": nil, "dataloader_pin_memory": nil,
	"dataloader_multiprocessing_context": nil,
	"dataloader_in_order":                nil, "use_cpu": {"true"}, "torch_compile": {"false"},
	"use_liger_kernel":              {"false"},
	"average_tokens_across_devices": nil, "ddp_timeout": nil, "skip_memory_metrics": {"true"}, "push_to_hub": {"false"},
	"save_on_each_node": nil, "use_cache": nil,
	"enable_jit_checkpoint": nil, "eval_use_gather_object": nil,
	"length_column_name": nil, "debug": nil, "gradient_checkpointing_kwargs": {"null", "{}", `{"use_reentrant":false}`,
		`{"use_reentrant":true}`},
	"fsdp": {"null", "[]", `""`, "false"}, "deepspeed": {"null"}, "hub_strategy": nil, "hub_model_id": nil,
	"hub_token": nil, "hub_private_repo": nil, "hub_always_push": nil, "hub_revision": nil, "project": nil,
	"trackio_space_id": nil, "trackio_bucket_id": nil,
	"trackio_static_space_id": nil, "ddp_find_unused_parameters": nil, "ddp_bucket_cap_mb": nil,
	"ddp_broadcast_buffers": nil, "ddp_static_graph": nil,
	"ddp_backend": {"null"}, "fsdp_config": {"null"}, "parallelism_config": {"null"}, "local_rank": {"-1", "0"},
	"resume_from_checkpoint": nil,
	// of GaLore, LoMo and APOLLO
	"torch_compile_backend": {"null"}, "torch_compile_mode": {"null"}, "liger_kernel_config": nil,
	"optim_target_modules": nil,
}

// withoutEffect takes the idle arguments.
func withoutEffect(o *spec.Object) error {
	for name, values := range idle {
		if !o.Has(name) {
			continue
		}
		v := o.Any(name)
		if values == nil {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		found := false
		for _, want := range values {
			found = found || want == string(text)
		}
		if !found {
			return spec.Unsupportedf("args.%s is %s; known are %s", name, text, strings.Join(values, ", "))
		}
	}
	return nil
}

// checkpointNumber is the number in the name of a checkpoint's folder.
func checkpointNumber(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}
