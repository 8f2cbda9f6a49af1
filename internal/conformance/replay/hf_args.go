package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/arguments"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// hfArgs are the arguments of transformers' Trainer, converted to options.
type hfArgs struct {
	asked        arguments.TrainingArguments // as given in the case
	trainer      trainer.Options
	engine       engine.Options
	accumulate   int         // accelerator_config.gradient_accumulation_kwargs.num_steps
	fullEval     torch.DType // dtype for evaluations outside of training; zero: unchanged
	globalOrder  bool        // the global generator determines the order of the samples
	inputs       bool        // the metrics need input_ids
	noLabels     bool        // no batch has the columns in label_names, so evaluations have no labels
	late         error       // the error when training begins
	lateSchedule bool        // late is about the schedule, which is made after the optimizer
	missing      bool        // late is about the checkpoint to resume from
}

func (a *hfArgs) saves() bool     { return a.asked.SaveStrategy != "no" }
func (a *hfArgs) evaluates() bool { return a.asked.EvalStrategy != "no" }

// readHFArgs reads all TrainingArguments of transformers 5.17 with package arguments. Those that
// only concern Python or other machines are accepted if they change nothing. It fails with the
// error that the recorded trainer would return, or with an *spec.Unsupported.
func readHFArgs(o *spec.Object) (a hfArgs) {
	a.readHere(o)
	fields := withEffect(o)
	spec.Check(o.Err())
	var known arguments.TrainingArguments
	err := arguments.ParseDict(fields, &known)
	if wrong, ok := errors.AsType[*arguments.Error](err); ok {
		o.Fail(wrong.Argument, wrong.Want)
		err = o.Err()
	}
	spec.Check(err) // already an error in the Python call
	a.asked = known
	spec.Check(known.Validate())
	known.UseCPU, known.BatchEvalMetrics, known.PredictionLossOnly = true, false, false
	known.EvalDoConcatBatches, known.RemoveUnusedColumns, known.DataloaderPersistentWorkers = true, true, false
	if a.byLength() {
		known.TrainSamplingStrategy = "random" // see sampler
	}
	a.resolve(&known)
	return a
}

// readHere reads the arguments that depend on the recorded model and its data.
func (a *hfArgs) readHere(o *spec.Object) {
	steps := o.Int("max_steps", -1)
	if epochs := o.Float("num_train_epochs", 3); steps == 0 || steps < 0 && epochs <= 0 {
		spec.Refusef("a run of no update: num_train_epochs is %v, max_steps %d", epochs, steps)
	}
	if o.Bool("tf32", false) {
		spec.Failf("tf32 is set, which needs a GPU")
	}
	a.readAccelerator(o)
	a.inputs = slices.Contains(o.Strings("include_for_metrics"), "inputs")
	if names := o.Strings("label_names"); o.Any("label_names") != nil {
		a.noLabels = !slices.Equal(names, []string{"labels"})
		if a.noLabels && slices.Contains(names, "x") || slices.Contains(names, "input_ids") {
			o.Fail("label_names", `["labels"], or names that no batch has`)
		}
	}
}

// readAccelerator reads accelerator_config.
func (a *hfArgs) readAccelerator(o *spec.Object) {
	c := o.Object("accelerator_config")
	if c == nil {
		return
	}
	a.globalOrder = !c.Bool("use_seedable_sampler", true)
	for _, name := range []string{"split_batches", "even_batches", "non_blocking", "dispatch_batches"} {
		c.Any(name) // no effect in one process
	}
	if k := c.Object("gradient_accumulation_kwargs"); k != nil {
		if k.Has("num_steps") {
			if o.Int("gradient_accumulation_steps", 1) > 1 {
				spec.Failf("accelerator_config.gradient_accumulation_kwargs.num_steps and " +
					"gradient_accumulation_steps are both set")
			}
			a.accumulate = k.Int("num_steps", 1)
		}
		// transformers writes this into the object it was given, where a second trainer finds it.
		k.Map()["num_steps"] = json.Number("1")
	}
	if err := c.Done(); err != nil {
		o.Fail("accelerator_config", "an object of the fields split_batches, dispatch_batches, even_batches, "+
			"use_seedable_sampler, non_blocking")
	}
}

// resolve converts the arguments to options. Errors about sizes, the optimizer or the schedule
// occur when training begins, as in Python, and are kept in late.
func (a *hfArgs) resolve(known *arguments.TrainingArguments) {
	known.OptimArgs = knownOptimArgs(known)
	known.GradientAccumulationSteps = cmp.Or(a.accumulate, known.GradientAccumulationSteps)
	if a.late = a.lateRefusal(known); a.late == nil {
		a.late = a.apply(known)
	}
	if a.late == nil {
		a.late = recorded.Try(func() { buildable(a.engine.Optimizer) })
	}
	if a.late == nil {
		return
	}
	wrong, ok := errors.AsType[*arguments.Error](a.late)
	a.lateSchedule = ok && strings.HasPrefix(wrong.Argument, "lr_scheduler")
	if known.LRSchedulerType, known.LRSchedulerKwargs = "linear", nil; !a.lateSchedule {
		known.Optim, known.OptimArgs, known.LearningRate = "adamw_torch_fused", "", max(known.LearningRate, 0)
	}
	for _, size := range []*int{&known.PerDeviceTrainBatchSize, &known.PerDeviceEvalBatchSize,
		&known.GradientAccumulationSteps} {
		*size = max(1, *size)
	}
	spec.Check(a.apply(known))
}

// apply sets the options, except those that depend on the machine.
func (a *hfArgs) apply(known *arguments.TrainingArguments) error {
	t, e := &a.trainer, &a.engine
	*t, *e = trainer.Options{Semantics: semantics.HuggingFace, Progress: io.Discard}, engine.Options{}
	if err := known.Apply(t, e); err != nil {
		return err
	}
	t.OutputDir, t.Logger, t.Workers, t.Prefetch = "", nil, 1, 0
	e.IgnoreFP16OnCPU = true
	a.fullEval = map[amp.Precision]torch.DType{amp.BF16: torch.BFloat16, amp.FP16: torch.Float16}[e.FullEval]
	e.FullEval = amp.FP32
	return nil
}

// lateRefusal returns an error that occurs only in the recorded trainer when training begins.
func (a *hfArgs) lateRefusal(known *arguments.TrainingArguments) error {
	switch {
	case a.asked.DataloaderNumWorkers == 0 && a.asked.DataloaderPersistentWorkers:
		return fmt.Errorf("dataloader_persistent_workers is set without workers")
	case slices.ContainsFunc(strings.Fields(packaged), func(part string) bool {
		return strings.Contains(known.Optim, part)
	}):
		return fmt.Errorf("optim is %s, of a package that the recordings are made without", known.Optim)
	}
	return nil
}

// buildable fails if the settings of an optimizer are invalid, by building it with a dummy
// parameter.
func buildable(b optim.Builder) {
	torch.Scope(func() {
		spec.Must(b.Build([]optim.Group{{Params: []torch.Named{{Name: "any", Tensor: torch.Zeros(1)}}}}))
	})
}

// packaged are parts of the names of optimizers that transformers takes from other packages, which
// were not installed for the recordings.
const packaged = "xla npu anyprecision 4bit 8bit 32bit bnb ademamix galore lomo grokadamw schedule_free apollo stable"

// knownOptimArgs removes arguments from optim_args that the optimizer does not have, as
// transformers does silently.
func knownOptimArgs(known *arguments.TrainingArguments) string {
	refused := func(text string) bool {
		_, err := optim.ByName(known.Optim, optim.Arguments{OptimArgs: text})
		return err != nil
	}
	parts := strings.Split(known.OptimArgs, ",")
	if !refused(known.OptimArgs) || slices.ContainsFunc(parts, func(p string) bool {
		return !strings.Contains(p, "=")
	}) {
		return known.OptimArgs
	}
	return strings.Join(slices.DeleteFunc(parts, refused), ",")
}

// byLength reports whether the samples are ordered by length.
func (a *hfArgs) byLength() bool {
	return a.asked.TrainSamplingStrategy == "group_by_length" || a.asked.TrainSamplingStrategy == "batch_rebalance"
}

// keepIntervals adds the intervals of logs, evaluations and saves to the state of a checkpoint if
// the strategy does not use them: transformers keeps them anyway, and package trainer's options do
// not.
func (a *hfArgs) keepIntervals(state map[string]any) {
	keep := func(name, strategy string, steps float64) {
		if strategy == "steps" && steps > 0 {
			return
		}
		if steps < 1 {
			steps = math.Ceil(float64(stateInt(state, "max_steps")) * steps)
		}
		state[name] = int(steps)
	}
	keep("logging_steps", a.asked.LoggingStrategy, a.asked.LoggingSteps)
	keep("save_steps", a.asked.SaveStrategy, a.asked.SaveSteps)
	if steps := a.asked.EvalSteps; steps != nil && *steps == 0 && a.asked.EvalStrategy == "steps" {
		keep("eval_steps", "steps", a.asked.LoggingSteps)
	} else if steps != nil {
		keep("eval_steps", a.asked.EvalStrategy, *steps)
	}
}

// settle refuses what the recorded trainer refuses when it is created, and removes options without
// effect.
func (a *hfArgs) settle(s *spec.Spec) {
	t, stream, workers := &a.trainer, s.Data.Iterable, a.asked.DataloaderNumWorkers
	switch {
	case a.asked.BatchEvalMetrics && len(s.Metrics) > 0:
		spec.Failf("batch_eval_metrics is set, and the recorded metrics are computed once over the whole set")
	case a.asked.SaveStrategy == "best" && t.MetricForBest == "" && !t.LoadBestAtEnd:
		spec.Failf("save_strategy is best, which needs metric_for_best_model")
	case stream && workers > 1:
		spec.Refusef("args.dataloader_num_workers is %d with a stream: PyTorch gives every worker a copy "+
			"of the data set, and one that does not ask get_worker_info, as the recorded one, trains on each row %d "+
			"times", workers, workers)
	}
	if stream {
		t.Order = nil // a stream has its own order
	}
	if t.LoadBestAtEnd && !a.evaluates() && !a.saves() { // no evaluation can find a best checkpoint
		t.LoadBestAtEnd, t.Save = false, trainer.Never
		t.MetricForBest = cmp.Or(t.MetricForBest, "loss")
	}
}

// idle lists arguments that have no effect here.
const idle = "output_dir report_to disable_tqdm run_name log_level log_level_replica log_on_each_node logging_dir " +
	"do_train do_eval do_predict dataloader_pin_memory dataloader_multiprocessing_context dataloader_in_order " +
	"average_tokens_across_devices ddp_timeout save_on_each_node use_cache enable_jit_checkpoint " +
	"eval_use_gather_object length_column_name debug hub_strategy hub_model_id hub_token hub_private_repo " +
	"hub_always_push hub_revision project trackio_space_id trackio_bucket_id trackio_static_space_id " +
	"ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph resume_from_checkpoint " +
	"liger_kernel_config " +
	"optim_target_modules" // of GaLore, LoMo and APOLLO

// idleAt lists values with which an argument has no effect here; other values make the case
// unsupported.
var idleAt = map[string][]string{
	"use_cpu": {"true"}, "torch_compile": {"false"}, "use_liger_kernel": {"false"}, "skip_memory_metrics": {"true"},
	"push_to_hub":                   {"false"},
	"gradient_checkpointing_kwargs": {"null", "{}", `{"use_reentrant":false}`, `{"use_reentrant":true}`},
	"fsdp":                          {"null", "[]", `""`, "false"}, "deepspeed": {"null"}, "ddp_backend": {"null"},
	"fsdp_config": {"null"}, "parallelism_config": {"null"}, "local_rank": {"-1", "0"},
	"torch_compile_backend": {"null"}, "torch_compile_mode": {"null"},
}

// withEffect returns the arguments for package arguments: those that have an effect and are not
// read by readHere.
func withEffect(o *spec.Object) map[string]any {
	fields := without(o.Map(), strings.Fields(idle+" accelerator_config label_names")...)
	for name, values := range idleAt {
		if text := spec.Must(json.Marshal(fields[name])); o.Has(name) && !slices.Contains(values, string(text)) {
			spec.Refusef("args.%s is %s; known are %s", name, text, strings.Join(values, ", "))
		}
		delete(fields, name)
	}
	return fields
}
