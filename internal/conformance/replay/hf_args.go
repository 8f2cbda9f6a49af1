package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/arguments"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hfArgs are the arguments of transformers' Trainer as the options of ours.
type hfArgs struct {
	trainer             trainer.Options
	engine              engine.Options
	optimizer           string // its name
	accumulate          int    // accelerator_config.gradient_accumulation_kwargs.num_steps
	sampling            string // random, sequential, group_by_length or batch_rebalance
	AllColumns          bool   // remove_unused_columns is off
	PredictionLossOnly  bool
	BatchEvalMetrics    bool
	fullEval            torch.DType // evaluations outside of training turn the model into it; zero: they do not
	saves               bool        // save_strategy is not no
	evaluates           bool        // eval_strategy is not no
	intervals           []hfInterval
	saveBest            bool // save_strategy is best
	seed                uint64
	globalOrder         bool  // the samples are ordered by the global generator
	Workers             int   // processes that load
	Persistent          bool  // and stay: a loader draws their seed once, not for each pass
	EvalDoConcatBatches bool  // the batches of an evaluation are put together for the metrics
	inputs              bool  // the metrics want input_ids
	noLabels            bool  // label_names names what no batch has, so that an evaluation sees no labels
	late                error // what is refused when the training begins
	lateSchedule        bool  // it is the schedule, which is made when there is an optimizer
	missing             bool  // it is the checkpoint to resume from
}

// readHFArgs takes TrainingArguments of transformers 5.17, all of them, by package arguments. Those
// that only concern Python, or other machines than this one, are taken where they change nothing.
// It fails with a refusal, as that of the recorded trainer would be, or, where something cannot be
// run, with an *spec.Unsupported.
func readHFArgs(o *spec.Object) (a hfArgs) {
	a.readHere(o)
	fields := maps.Clone(o.Map())
	for name := range idleAt {
		delete(fields, name)
	}
	for name := range strings.FieldsSeq(idle + " accelerator_config label_names gradient_checkpointing_kwargs") {
		delete(fields, name)
	}
	var known arguments.TrainingArguments
	err := arguments.ParseDict(fields, &known)
	if wrong, ok := errors.AsType[*arguments.Error](err); ok {
		o.Fail(wrong.Argument, wrong.Want)
		spec.Check(o.Err())
	} else if err != nil { // a call in Python refuses it
		spec.Failf("%v", err)
	}
	a.keepChoices(&known)
	if err := known.Validate(); err != nil {
		spec.Failf("%v", err)
	}
	known.UseCPU, known.BatchEvalMetrics, known.PredictionLossOnly = true, false, false
	known.EvalDoConcatBatches, known.RemoveUnusedColumns, known.DataloaderPersistentWorkers = true, true, false
	if strings.HasPrefix(a.sampling, "group") || strings.HasPrefix(a.sampling, "batch") {
		known.TrainSamplingStrategy = "random" // see sampler
	}
	a.resolve(&known)
	return a
}

// readHere takes what the recorded model and its data decide about.
func (a *hfArgs) readHere(o *spec.Object) {
	a.EvalDoConcatBatches = true
	o.Take(a, "remove_unused_columns:!AllColumns", "prediction_loss_only:PredictionLossOnly",
		"batch_eval_metrics:BatchEvalMetrics", "dataloader_num_workers:Workers",
		"dataloader_persistent_workers:Persistent", "eval_do_concat_batches:EvalDoConcatBatches")
	steps := o.Int("max_steps", -1)
	if epochs := o.Float("num_train_epochs", 3); steps == 0 || steps < 0 && epochs <= 0 {
		spec.Refusef("a run of no update: num_train_epochs is %v, max_steps %d", epochs, steps)
	}
	if o.Bool("tf32", false) {
		spec.Failf("tf32 is set, which needs a GPU")
	}
	a.readAccelerator(o)
	a.inputs = slices.Contains(o.Strings("include_for_metrics"), "inputs")
	if given(o, "label_names") {
		names := o.Strings("label_names")
		a.noLabels = !slices.Equal(names, []string{"labels"})
		if a.noLabels && slices.Contains(names, "x") || slices.Contains(names, "input_ids") {
			o.Fail("label_names", `["labels"], or names that no batch has`)
		}
	}
	withoutEffect(o)
	spec.Check(o.Err())
}

// given tells whether an argument is there and not None.
func given(o *spec.Object, name string) bool { return o.Has(name) && o.Any(name) != nil }

// readAccelerator takes accelerator_config.
func (a *hfArgs) readAccelerator(o *spec.Object) {
	c := o.Object("accelerator_config")
	if c == nil {
		return
	}
	a.globalOrder = !c.Bool("use_seedable_sampler", true)
	for _, name := range []string{"split_batches", "even_batches", "non_blocking", "dispatch_batches"} {
		c.Any(name) // of no effect in one process
	}
	if k := c.Object("gradient_accumulation_kwargs"); k != nil {
		if k.Has("num_steps") {
			if o.Int("gradient_accumulation_steps", 1) > 1 {
				spec.Failf("accelerator_config.gradient_accumulation_kwargs.num_steps and " +
					"gradient_accumulation_steps are both set")
			}
			a.accumulate = k.Int("num_steps", 1)
		}
		// transformers writes it into what it was given, where a second trainer finds it
		k.Map()["num_steps"] = json.Number("1")
	}
	if err := c.Done(); err != nil {
		o.Fail("accelerator_config", "an object of the fields split_batches, dispatch_batches, even_batches, "+
			"use_seedable_sampler, non_blocking")
	}
}

// keepChoices keeps what the runner decides by.
func (a *hfArgs) keepChoices(known *arguments.TrainingArguments) {
	a.sampling, a.optimizer, a.seed = known.TrainSamplingStrategy, known.Optim, uint64(known.Seed)
	a.saves, a.evaluates = known.SaveStrategy != "no", known.EvalStrategy != "no"
	a.saveBest = known.SaveStrategy == "best"
	a.intervals = []hfInterval{{"logging_steps", known.LoggingStrategy, known.LoggingSteps},
		{"save_steps", known.SaveStrategy, known.SaveSteps}}
	if known.EvalSteps != nil {
		steps := *known.EvalSteps
		if steps == 0 && known.EvalStrategy == "steps" {
			steps = known.LoggingSteps
		}
		a.intervals = append(a.intervals, hfInterval{"eval_steps", known.EvalStrategy, steps})
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
	updates := state.int("max_steps")
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
func (a *hfArgs) settle(s *spec.Spec) {
	t, stream := &a.trainer, s.Data.Iterable
	switch {
	case a.BatchEvalMetrics && len(s.Metrics) > 0:
		spec.Failf("batch_eval_metrics is set, and the recorded metrics are computed once over the whole set")
	case a.saveBest && t.MetricForBest == "" && !t.LoadBestAtEnd:
		spec.Failf("save_strategy is best, which needs metric_for_best_model")
	case stream && a.Workers > 1:
		spec.Refusef("args.dataloader_num_workers is %d with a stream: PyTorch gives every worker a copy "+
			"of the data set, and one that does not ask get_worker_info, as the recorded one, trains on each row %d "+
			"times", a.Workers, a.Workers)
	}
	if stream {
		t.Order = nil // a stream has an order of its own
	}
	if t.LoadBestAtEnd && !a.evaluates && !a.saves { // no evaluation ever finds a best one
		t.LoadBestAtEnd, t.Save = false, trainer.Never
		t.MetricForBest = cmp.Or(t.MetricForBest, "loss")
	}
}

// idle are arguments of no effect here.
const idle = "output_dir report_to disable_tqdm run_name log_level log_level_replica log_on_each_node logging_dir " +
	"do_train do_eval do_predict dataloader_pin_memory dataloader_multiprocessing_context dataloader_in_order " +
	"average_tokens_across_devices ddp_timeout save_on_each_node use_cache enable_jit_checkpoint " +
	"eval_use_gather_object length_column_name debug hub_strategy hub_model_id hub_token hub_private_repo " +
	"hub_always_push hub_revision project trackio_space_id trackio_bucket_id trackio_static_space_id " +
	"ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph resume_from_checkpoint " +
	"liger_kernel_config " +
	"optim_target_modules" // of GaLore, LoMo and APOLLO

// idleAt are arguments of no effect here if they have one of the values that are given; others make
// the case unsupported.
var idleAt = map[string][]string{
	"use_cpu": {"true"}, "torch_compile": {"false"}, "use_liger_kernel": {"false"}, "skip_memory_metrics": {"true"},
	"push_to_hub":                   {"false"},
	"gradient_checkpointing_kwargs": {"null", "{}", `{"use_reentrant":false}`, `{"use_reentrant":true}`},
	"fsdp":                          {"null", "[]", `""`, "false"}, "deepspeed": {"null"}, "ddp_backend": {"null"},
	"fsdp_config": {"null"}, "parallelism_config": {"null"}, "local_rank": {"-1", "0"},
	"torch_compile_backend": {"null"}, "torch_compile_mode": {"null"},
}

// withoutEffect takes the idle arguments.
func withoutEffect(o *spec.Object) {
	for name := range strings.FieldsSeq(idle) {
		o.Any(name)
	}
	for name, values := range idleAt {
		if text := spec.Must(json.Marshal(o.Any(name))); o.Has(name) && !slices.Contains(values, string(text)) {
			spec.Refusef("args.%s is %s; known are %s", name, text, strings.Join(values, ", "))
		}
	}
}
