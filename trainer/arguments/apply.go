package arguments

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Apply sets the options of a trainer and of its engine from the arguments. Options that the
// program has already set and that no argument determines are kept: callbacks, metrics, the group,
// semantics. It refuses what [TrainingArguments.Validate] refuses, arguments that have no meaning
// here, and names that package optim or lr does not have. The errors are [*Error].
//
// As in transformers, ACCELERATE_MIXED_PRECISION and ACCELERATE_USE_CPU, which launchers set in the
// environment, apply if the arguments say nothing. The device is the process's GPU if there is one.
func (a *TrainingArguments) Apply(t *trainer.Options, e *engine.Options) error {
	if err := cmp.Or(a.Validate(), a.refuse()); err != nil {
		return err
	}
	for _, apply := range []func(*trainer.Options, *engine.Options) error{
		a.applyLength, a.applyTriggers, a.applyNumSteps, a.applyData, a.applyAccelerator, a.applyPrecision, a.applyEvaluation,
		a.applyHub, a.applyOptimizer, a.applySchedule, a.applyReports, a.applyDistributed, a.applySharding,
	} {
		if err := apply(t, e); err != nil {
			return err
		}
	}
	t.OutputDir = cmp.Or(a.OutputDir, "trainer_output")
	t.ResumeFrom, _ = a.ResumeFromCheckpoint.(string)
	if strings.EqualFold(fmt.Sprint(a.ResumeFromCheckpoint), "true") {
		t.ResumeFrom = trainer.Latest
	}
	return nil
}

// applyDistributed sets how several processes average gradients.
func (a *TrainingArguments) applyDistributed(_ *trainer.Options, e *engine.Options) error {
	if err := checkBackend(a.DDPBackend, e.Device, torch.NCCLAvailable()); err != nil {
		return err
	}
	if a.DDPFindUnusedParameters == nil && a.DDPBucketCapMB == nil && a.DDPBroadcastBuffers == nil &&
		a.DDPStaticGraph == nil {
		return nil
	}
	e.Distributed = &ddp.Options{
		FindUnusedParameters: optional.Or(a.DDPFindUnusedParameters, !a.GradientCheckpointing),
		BucketCapMB:          float64(optional.Or(a.DDPBucketCapMB, 25)),
		KeepBuffers:          !optional.Or(a.DDPBroadcastBuffers, true),
		StaticGraph:          optional.Or(a.DDPStaticGraph, false),
	}
	return nil
}

// checkBackend refuses any backend but the one that moves the run's tensors: dist/ddp chooses it by
// their device.
func checkBackend(backend string, device torch.Device, nccl bool) error {
	want, why := "gloo", "the run is on the CPU"
	switch {
	case device.IsCUDA() && nccl:
		want, why = "nccl", fmt.Sprintf("the run is on %v; gloo is for the CPU (use_cpu)", device)
	case device.IsCUDA():
		why = "libcgotorch_cuda was built without nccl.h, and so gloo moves the tensors of GPUs too"
	}
	if backend == "" || backend == want {
		return nil
	}
	return &Error{"ddp_backend", backend, want + " or none: " + why}
}

// applyLength sets the length of the run and the sizes of its batches.
func (a *TrainingArguments) applyLength(t *trainer.Options, _ *engine.Options) error {
	t.BatchSize, t.EvalBatchSize = a.PerDeviceTrainBatchSize, a.PerDeviceEvalBatchSize
	t.Accumulate, t.AutoFindBatchSize = a.GradientAccumulationSteps, a.AutoFindBatchSize
	t.Epochs, t.MaxSteps = a.NumTrainEpochs, 0
	switch {
	case a.MaxSteps > 0:
		t.Epochs, t.MaxSteps = 0, a.MaxSteps
	case a.MaxSteps == 0:
		return &Error{"max_steps", 0, "at least 1, or -1: a run of no update trains nothing"}
	case !(a.NumTrainEpochs > 0):
		return &Error{"num_train_epochs", a.NumTrainEpochs, "more than 0: a run of no update trains nothing"}
	}
	return nil
}

func (a *TrainingArguments) applyTriggers(t *trainer.Options, _ *engine.Options) error {
	t.Log, t.LogFirst = trigger(a.LoggingStrategy, a.LoggingSteps), a.LoggingFirstStep
	t.Eval, t.EvalDelay = trigger(a.EvalStrategy, a.evalSteps()), a.EvalDelay
	t.Save, t.SaveOnlyModel = trigger(a.SaveStrategy, a.SaveSteps), a.SaveOnlyModel
	t.EvalOnStart, t.LoadBestAtEnd = a.EvalOnStart, a.LoadBestModelAtEnd
	if a.SaveTotalLimit != nil {
		t.KeepCheckpoints = max(0, *a.SaveTotalLimit)
	}
	t.MetricForBest = a.MetricForBestModel
	if t.MetricForBest == "" && (a.LoadBestModelAtEnd || a.adaptive()) {
		t.MetricForBest = "loss"
	}
	if t.Direction = trainer.ByName; a.GreaterIsBetter != nil {
		if t.Direction = trainer.LowerIsBetter; *a.GreaterIsBetter {
			t.Direction = trainer.GreaterIsBetter
		}
	}
	return nil
}

// trigger converts a strategy and its steps; steps below 1 are a share of the run.
func trigger(strategy string, steps float64) trainer.Trigger {
	switch {
	case strategy == "no":
		return trainer.Never
	case strategy == "epoch":
		return trainer.Every(1, trainer.Epoch)
	case strategy == "best":
		return trainer.AtBest
	case steps <= 0: // only at the end of the run
		return trainer.Every(math.MaxInt32, trainer.Update)
	case steps < 1:
		return trainer.EveryShare(steps)
	}
	return trainer.Every(int(steps), trainer.Update)
}

// applyData sets the seeds, and how samples are ordered and loaded.
func (a *TrainingArguments) applyData(t *trainer.Options, _ *engine.Options) error {
	dataSeed := uint64(optional.Or(a.DataSeed, a.Seed))
	t.Seed, t.DataSeed = cmp.Or(uint64(a.Seed), trainer.SeedZero), cmp.Or(dataSeed, trainer.SeedZero)
	t.DropLast, t.IgnoreDataSkip, t.Workers = a.DataloaderDropLast, a.IgnoreDataSkip, a.DataloaderNumWorkers
	if a.DataloaderPrefetchFactor != nil {
		t.Prefetch = *a.DataloaderPrefetchFactor * t.Workers
	}
	t.EmptyCacheSteps = optional.Or(a.TorchEmptyCacheSteps, t.EmptyCacheSteps)
	t.Semantics.FilterNonFiniteLoss = t.Semantics.FilterNonFiniteLoss && a.LoggingNaNInfFilter
	t.Semantics.ForgetHooksAtResume = t.Semantics.ForgetHooksAtResume && !a.RestoreCallbackStatesFromCheckpoint
	byLength := a.TrainSamplingStrategy == "group_by_length" || a.TrainSamplingStrategy == "batch_rebalance"
	if byLength && a.Lengths == nil {
		return &Error{"train_sampling_strategy", a.TrainSamplingStrategy,
			"random or sequential, since this program does not say how long its samples are (TrainingArguments.Lengths)"}
	}
	switch a.TrainSamplingStrategy {
	case "random":
		t.Order = data.Shuffled{Seed: dataSeed}
	case "sequential":
		t.Order = data.Sequential{}
	case "group_by_length":
		t.Order = data.GroupedByLength{Lengths: a.Lengths, BatchSize: t.BatchSize * t.Accumulate}
	case "batch_rebalance":
		t.Order = data.BatchRebalance{Lengths: a.Lengths, BatchSize: t.BatchSize, Accumulate: t.Accumulate,
			DropLast: t.DropLast}
	}
	return nil
}

// acceleratorDefaults are the defaults of AcceleratorConfig, which are the only values accepted,
// except for gradient_accumulation_kwargs.num_steps, split_batches true and dispatch_batches false.
var acceleratorDefaults = map[string]any{"split_batches": false, "dispatch_batches": nil, "even_batches": true,
	"use_seedable_sampler": true, "non_blocking": false, "use_configured_state": false}

func (a *TrainingArguments) acceleratorConfig() (map[string]any, error) {
	config, err := dictOf(a.AcceleratorConfig)
	if err != nil {
		return nil, &Error{"accelerator_config", a.AcceleratorConfig, `an object such as {"even_batches": true}`}
	}
	return config, nil
}

// applyNumSteps applies num_steps, which replaces gradient_accumulation_steps. It comes first since
// the order of the samples may depend on it.
func (a *TrainingArguments) applyNumSteps(t *trainer.Options, _ *engine.Options) error {
	config, err := a.acceleratorConfig()
	kwargs, _ := config["gradient_accumulation_kwargs"].(map[string]any)
	if err != nil || kwargs["num_steps"] == nil {
		return err
	}
	steps, ok := kwargs["num_steps"].(float64)
	if !ok || steps < 1 || t.Accumulate > 1 || len(kwargs) > 1 {
		return &Error{"accelerator_config.gradient_accumulation_kwargs", kwargs,
			"num_steps alone, of at least 1, and gradient_accumulation_steps left out"}
	}
	t.Accumulate = int(steps)
	return nil
}

// applyAccelerator applies the rest of accelerator_config.
func (a *TrainingArguments) applyAccelerator(t *trainer.Options, _ *engine.Options) error {
	config, err := a.acceleratorConfig()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		usual, known := acceleratorDefaults[name]
		switch kwargs, _ := config[name].(map[string]any); {
		case name == "gradient_accumulation_kwargs" && (kwargs["num_steps"] != nil || len(kwargs) == 0):
		case !known:
			return &Error{"accelerator_config", name, "one of " +
				strings.Join(slices.Sorted(maps.Keys(acceleratorDefaults)),
					", ") + ", gradient_accumulation_kwargs"}
		case name == "split_batches" && config[name] == true:
			if err := a.splitBatches(t); err != nil {
				return err
			}
		case name == "dispatch_batches" && config[name] == false:
			t.NoDispatchBatches = true
		case config[name] != usual:
			return &Error{"accelerator_config." + name, config[name],
				fmt.Sprintf("%v, as the trainer has it; accelerate.Options has others for a training loop of your own", usual)}
		}
	}
	return nil
}

// splitBatches makes batch sizes those of all processes together, of which each process takes its
// piece. The samples of each process are the same as with smaller batches of its own, also at the
// end of an epoch.
func (a *TrainingArguments) splitBatches(t *trainer.Options) error {
	if t.Group == nil {
		return &Error{"accelerator_config.split_batches", true, "trainer.Options.Group to be set before Apply: batches " +
			"are split among its processes"}
	}
	if _, ok := t.Order.(data.BatchRebalance); ok {
		return &Error{"accelerator_config.split_batches", true, "another train_sampling_strategy than batch_rebalance, " +
			"whose batches differ in size"}
	}
	n := t.Group.World()
	for name, size := range map[string]*int{"per_device_train_batch_size": &t.BatchSize,
		"per_device_eval_batch_size": &t.EvalBatchSize} {
		if *size%n != 0 {
			return &Error{name, *size, fmt.Sprintf("a multiple of %d, the number of processes among which split_batches "+
				"divides it", n)}
		}
		*size /= n
	}
	return nil
}

// applyPrecision sets the device and the options that affect the numbers, including the limit of
// the gradients.
func (a *TrainingArguments) applyPrecision(t *trainer.Options, e *engine.Options) error {
	environment, err := accelerate.Environment(a.UseCPU)
	if err != nil {
		return err
	}
	e.Device, e.Precision = environment.Device, environment.MixedPrecision
	if a.BF16 {
		e.Precision = amp.BF16
	} else if a.FP16 {
		e.Precision = amp.FP16
	}
	if n := environment.Accumulation.Steps; n > 1 { // transformers sets it to 1
		return &Error{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS in the environment", n,
			"gradient_accumulation_steps in its place"}
	}
	e.FullEval = amp.FP32
	if a.BF16FullEval {
		e.FullEval = amp.BF16
	} else if a.FP16FullEval {
		e.FullEval = amp.FP16
	}
	if e.TF32 = engine.TF32Unset; a.TF32 != nil {
		if e.TF32 = engine.TF32Off; *a.TF32 {
			e.TF32 = engine.TF32On
		}
	}
	e.GradientCheckpointing, e.FullDeterminism = a.GradientCheckpointing, a.FullDeterminism
	kwargs, err := dictOf(a.GradientCheckpointingKwargs)
	for name := range kwargs { // both variants of torch.utils.checkpoint compute the same numbers
		if name != "use_reentrant" {
			return &Error{"gradient_checkpointing_kwargs", kwargs, "use_reentrant alone"}
		}
	}
	if err != nil {
		return &Error{"gradient_checkpointing_kwargs", a.GradientCheckpointingKwargs, err.Error()}
	}
	if e.MaxGradNorm, err = a.maxGradNorm(); err != nil {
		return err
	}
	e.LabelSmoothing, e.NEFTuneAlpha = a.LabelSmoothingFactor, 0
	if a.NeftuneNoiseAlpha != nil {
		e.NEFTuneAlpha = max(*a.NeftuneNoiseAlpha, math.SmallestNonzeroFloat64) // noise is drawn even if its size is 0
	}
	return nil
}

// maxGradNorm returns the limit of the gradients' norm; +Inf: the norm is reported but not limited.
// An optimizer that uses up each gradient during the backward pass leaves nothing to clip or
// report. For it the default, 1, means no limit, as in transformers.
func (a *TrainingArguments) maxGradNorm() (float64, error) {
	norm := optional.Or(a.MaxGradNorm, 0)
	if strings.HasSuffix(a.Optim, "_layerwise") || a.Optim == "lomo" || a.Optim == "adalomo" {
		if norm > 0 && norm != 1 {
			return 0, &Error{"max_grad_norm", norm, "0: " + a.Optim + " uses each gradient up during the backward pass, " +
				"before their norm is known"}
		}
		return 0, nil
	}
	if norm > 0 {
		return norm, nil
	}
	return math.Inf(1), nil
}

// applyEvaluation sets what concerns the metrics of an evaluation other than its loss.
func (a *TrainingArguments) applyEvaluation(t *trainer.Options, e *engine.Options) (err error) {
	if len(a.LabelNames) > 0 && !slices.Equal(a.LabelNames, []string{"labels"}) {
		return &Error{"label_names", a.LabelNames, "it left out: the task's typed batch says what its labels are"}
	}
	e.EvalAccumulation = optional.Or(a.EvalAccumulationSteps, e.EvalAccumulation)
	switch {
	case a.PredictionLossOnly:
		e.ComputeMetrics, e.BatchMetrics = nil, nil
	case a.BatchEvalMetrics && e.BatchMetrics == nil:
		return &Error{"batch_eval_metrics", true, "false, since this program has no engine.Options.BatchMetrics"}
	}
	tokens, err := a.tokens()
	t.CountTokens, e.NonPaddingTokens = tokens != "no", tokens == "non_padding"
	return err
}

// tokens returns include_num_input_tokens_seen, which may also be a truth value.
func (a *TrainingArguments) tokens() (string, error) {
	word := fmt.Sprint(a.IncludeNumInputTokensSeen)
	if slices.Contains([]string{"no", "all", "non_padding"}, word) {
		return word, nil
	}
	truth, err := stringToBool(word)
	switch {
	case err != nil:
		return "", &Error{"include_num_input_tokens_seen", a.IncludeNumInputTokensSeen, "no, all or non_padding"}
	case truth:
		return "all", nil
	}
	return "no", nil
}

func (a *TrainingArguments) applyHub(t *trainer.Options, _ *engine.Options) error {
	if !a.PushToHub {
		for name, given := range map[string]bool{"hub_token": a.HubToken != "", "hub_model_id": a.HubModelID != "",
			"hub_private_repo": a.HubPrivateRepo != nil, "hub_revision": a.HubRevision != "",
			"hub_always_push": a.HubAlwaysPush, "hub_strategy": a.HubStrategy != "every_save"} {
			if given {
				return &Error{name, "given", "push_to_hub with it: without, nothing is pushed"}
			}
		}
		return nil
	}
	t.PushAlways = a.HubAlwaysPush
	t.PushStrategy = map[string]trainer.PushStrategy{"every_save": trainer.PushEverySave, "end": trainer.PushAtEnd,
		"checkpoint": trainer.PushLastCheckpoint, "all_checkpoints": trainer.PushAllCheckpoints}[a.HubStrategy]
	if t.Pusher != nil {
		return nil
	}
	p := &hub.Pusher{Repo: a.HubModelID, Options: hub.PushOptions{Branch: a.HubRevision,
		Private: optional.Or(a.HubPrivateRepo, false)}}
	if a.HubToken != "" {
		p.Client = &hub.Client{Token: hub.NewSecret(a.HubToken)}
	}
	t.Pusher = p
	return nil
}

// warmsUp has the optimizers that get warmup_steps.
var warmsUp = map[string]bool{"schedule_free_adamw": true, "schedule_free_sgd": true}

func (a *TrainingArguments) applyOptimizer(t *trainer.Options, e *engine.Options) (err error) {
	t.LearningRate = a.LearningRate
	if share := a.WarmupSteps; share > 0 && share < 1 && warmsUp[a.Optim] {
		return &Error{"warmup_steps", share, "0, or a number of updates of at least 1: " + a.Optim + " warms up by itself " +
			"and does not know how long the run is"}
	}
	if e.Optimizer, err = optim.ByName(a.Optim, optim.Arguments{LearningRate: a.LearningRate,
		WeightDecay: a.WeightDecay, AdamBeta1: &a.AdamBeta1, AdamBeta2: &a.AdamBeta2, AdamEpsilon: &a.AdamEpsilon,
		WarmupSteps: int(a.WarmupSteps), OptimArgs: a.OptimArgs}); err != nil {
		return &Error{"optim", a.Optim, "another, or other settings: " + err.Error()}
	}
	lowRank := strings.Contains(a.Optim, "galore") || strings.Contains(a.Optim, "apollo")
	switch targets := a.OptimTargetModules.(type) {
	case string:
		e.LowRankTargets = optim.Targets{Pattern: targets}
	case []any:
		for _, part := range targets {
			e.LowRankTargets.Parts = append(e.LowRankTargets.Parts, fmt.Sprint(part))
		}
	case []string:
		e.LowRankTargets.Parts = targets
	case nil:
		if lowRank {
			return &Error{"optim_target_modules", nil, "the modules whose gradients " + a.Optim + " projects"}
		}
	default:
		return &Error{"optim_target_modules", targets, "a string or a list of strings"}
	}
	if !lowRank && a.OptimTargetModules != nil {
		return &Error{"optim_target_modules", a.OptimTargetModules, "it left out, since " + a.Optim +
			" projects no gradients; GaLore and APOLLO do"}
	}
	return nil
}

func (a *TrainingArguments) applySchedule(t *trainer.Options, _ *engine.Options) error {
	t.Schedule, t.Adaptive = nil, nil
	kwargs, err := dictOf(a.LRSchedulerKwargs)
	if err != nil {
		return &Error{"lr_scheduler_kwargs", a.LRSchedulerKwargs, err.Error()}
	}
	if a.adaptive() {
		t.LearningRate = cmp.Or(t.LearningRate, math.SmallestNonzeroFloat64) // 0 would mean the default
		t.Adaptive, err = lr.AdaptiveByName(a.LRSchedulerType, kwargs)
	} else {
		warmup := a.WarmupSteps
		if a.LRSchedulerType == "constant" {
			warmup = 0 // get_scheduler ignores it
		}
		if t.Schedule, err = lr.ByName(a.LRSchedulerType, kwargs, warmup); err == nil && t.LearningRate == 0 {
			t.LearningRate, t.Schedule = 1, zeroRate{t.Schedule}
		}
	}
	if err != nil {
		return &Error{"lr_scheduler_type", a.LRSchedulerType, "another, or other lr_scheduler_kwargs: " + err.Error()}
	}
	return nil
}

// zeroRate is a schedule with the learning rate 0, which cannot be set in trainer.Options, where it
// means the default.
type zeroRate struct{ lr.Schedule }

func (z zeroRate) Plan(_ float64, updates int) lr.Rate { return z.Schedule.Plan(0, updates) }
func (z zeroRate) ValidatePlan(_ float64, updates int) error {
	return lr.Validate(z.Schedule, 0, updates)
}

// applyReports sets what is shown and where it is reported.
func (a *TrainingArguments) applyReports(t *trainer.Options, _ *engine.Options) error {
	if optional.Or(a.DisableTQDM, false) {
		t.Progress = io.Discard
	}
	for _, name := range a.ReportTo {
		report, err := a.report(name)
		if err != nil {
			return err
		}
		if report != nil {
			t.Callbacks = append(slices.Clip(t.Callbacks), report)
		}
	}
	if a.RunName != "" && !slices.Contains(a.ReportTo, "mlflow") {
		return &Error{"run_name", a.RunName, "it left out: only report_to mlflow names its runs; a run is named after " +
			"its output_dir"}
	}
	if a.DDPTimeout != 1800 && t.Group == nil {
		return &Error{"ddp_timeout", a.DDPTimeout, "it left out, since one process trains; with several " +
			"dist.Options.Timeout has it"}
	}
	if word := os.Getenv(verbosity); word != "" && (a.LogLevel == "passive" || a.LogLevelReplica == "passive") {
		if _, known := levels[word]; !known {
			return &Error{verbosity, word, "detail, debug, info, warning, error or critical in the environment"}
		}
	}
	t.LogLevel, t.LogLevelReplica = level(a.LogLevel), level(a.LogLevelReplica)
	if t.LogOnEachNode = a.LogOnEachNode; t.Logger == nil { // the trainer filters by level
		t.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	t.SaveInterrupted = a.EnableJITCheckpoint
	return nil
}
