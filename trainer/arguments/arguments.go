package arguments

// TrainingArguments holds the arguments of transformers.TrainingArguments 5.17 under their names.
// Each field has the argument's name in Go's spelling; its tag has the name used in flags and
// files, and the default. A pointer is nil, and a string empty, where Python has None. A field of
// type any holds what a flag or a file gave: a string, a truth value, a list or a map. The tag
// least is the smallest value. An argument with the tag only has no meaning here: its default is
// accepted, and the tag says what to use instead of other values, and why.
// docs/training-arguments.md says what each argument does here.
type TrainingArguments struct {
	// Run length and batches.

	OutputDir                  string  `name:"output_dir" help:"The folder of the run; empty: trainer_output."`
	PerDeviceTrainBatchSize    int     `name:"per_device_train_batch_size" default:"8" least:"1" help:"Samples of a training batch of one process."`
	PerDeviceEvalBatchSize     int     `name:"per_device_eval_batch_size" default:"8" least:"1" help:"Samples of an evaluation batch of one process."`
	NumTrainEpochs             float64 `name:"num_train_epochs" default:"3.0" help:"Passes over the training set."`
	MaxSteps                   int     `name:"max_steps" default:"-1" help:"Updates of the run, instead of epochs; -1: epochs decide."`
	GradientAccumulationSteps  int     `name:"gradient_accumulation_steps" default:"1" least:"1" help:"Batches behind one update."`
	AutoFindBatchSize          bool    `name:"auto_find_batch_size" help:"Try smaller batches when memory runs out."`
	AverageTokensAcrossDevices bool    `name:"average_tokens_across_devices" default:"true" help:"Count the labels of all processes for the loss." only:"true: with trainer.Options.Group the labels of all processes count"`

	// Learning rate and optimizer.

	LearningRate         float64  `name:"learning_rate" default:"5e-05" least:"0" help:"The peak learning rate."`
	LRSchedulerType      string   `name:"lr_scheduler_type" default:"linear" help:"The schedule of the rate, by name."`
	LRSchedulerKwargs    any      `name:"lr_scheduler_kwargs" help:"Its arguments, as JSON."`
	WarmupSteps          float64  `name:"warmup_steps" default:"0" help:"Updates of warmup; below 1 a share of the run."`
	Optim                string   `name:"optim" default:"adamw_torch_fused" help:"The optimizer, by name."`
	OptimArgs            string   `name:"optim_args" help:"Its own settings: momentum=0.9,nesterov=true."`
	WeightDecay          float64  `name:"weight_decay" default:"0.0" help:"The weight decay, but of biases and normalisation layers."`
	AdamBeta1            float64  `name:"adam_beta1" default:"0.9" help:"AdamW's first beta."`
	AdamBeta2            float64  `name:"adam_beta2" default:"0.999" help:"AdamW's second beta."`
	AdamEpsilon          float64  `name:"adam_epsilon" default:"1e-08" help:"AdamW's epsilon."`
	OptimTargetModules   any      `name:"optim_target_modules" help:"The modules of GaLore and APOLLO: an expression, or a list of parts of names."`
	MaxGradNorm          *float64 `name:"max_grad_norm" default:"1.0" help:"The largest norm of the gradients; 0: not limited."`
	LabelSmoothingFactor float64  `name:"label_smoothing_factor" default:"0.0" help:"The epsilon of label smoothing."`
	NeftuneNoiseAlpha    *float64 `name:"neftune_noise_alpha" help:"The size of NEFTune's noise."`

	// Precision and speed.

	BF16                        bool   `name:"bf16" help:"Train under autocast to bfloat16."`
	FP16                        bool   `name:"fp16" help:"Train under autocast to float16."`
	BF16FullEval                bool   `name:"bf16_full_eval" help:"Evaluate in bfloat16."`
	FP16FullEval                bool   `name:"fp16_full_eval" help:"Evaluate in float16."`
	TF32                        *bool  `name:"tf32" help:"Matrix products in TF32."`
	GradientCheckpointing       bool   `name:"gradient_checkpointing" help:"Compute activations again in the backward pass."`
	GradientCheckpointingKwargs any    `name:"gradient_checkpointing_kwargs" help:"Arguments of checkpointing, as JSON."`
	TorchCompile                bool   `name:"torch_compile" help:"Python's compiler." only:"false: the compiler is Python's; kernels are called directly"`
	TorchCompileBackend         string `name:"torch_compile_backend" help:"Its backend." only:"it left out: the compiler is Python's"`
	TorchCompileMode            string `name:"torch_compile_mode" help:"Its mode." only:"it left out: the compiler is Python's"`
	UseLigerKernel              bool   `name:"use_liger_kernel" help:"Liger's kernels." only:"false: the kernels are written in Triton, which needs Python"`
	LigerKernelConfig           any    `name:"liger_kernel_config" help:"Their settings." only:"it left out: the kernels are written in Triton, which needs Python"`
	UseCache                    bool   `name:"use_cache" help:"Keep the keys and values of generation." only:"false: training never keeps the keys and values of generation"`
	TorchEmptyCacheSteps        *int   `name:"torch_empty_cache_steps" help:"Updates between two returns of unused memory to the device."`
	UseCPU                      bool   `name:"use_cpu" help:"Train on the CPU though there is a GPU."`
	FullDeterminism             bool   `name:"full_determinism" help:"Refuse operators that are not reproducible."`

	// Logging.

	LoggingStrategy           string   `name:"logging_strategy" default:"steps" help:"When to log: no, steps or epoch."`
	LoggingSteps              float64  `name:"logging_steps" default:"500" help:"Updates between two logs; below 1 a share of the run."`
	LoggingFirstStep          bool     `name:"logging_first_step" help:"Log the first update too."`
	LogOnEachNode             bool     `name:"log_on_each_node" default:"true" help:"The first process of each machine logs at log_level, not that of the first machine alone."`
	LoggingNaNInfFilter       bool     `name:"logging_nan_inf_filter" default:"true" help:"Leave nan and infinity out of the logged loss, where the semantics do."`
	IncludeNumInputTokensSeen any      `name:"include_num_input_tokens_seen" default:"no" nargs:"?" help:"Count the input tokens: no, all or non_padding."`
	LogLevel                  string   `name:"log_level" default:"passive" help:"What the main process logs: debug, info, warning, error, critical, passive."`
	LogLevelReplica           string   `name:"log_level_replica" default:"warning" help:"What the other processes log."`
	DisableTQDM               *bool    `name:"disable_tqdm" help:"Show no progress."`
	ReportTo                  []string `name:"report_to" default:"none" help:"Where to report: none, tensorboard or mlflow."`
	RunName                   string   `name:"run_name" help:"The name of the run in MLflow."`
	Project                   string   `name:"project" default:"huggingface" help:"The project in a report." only:"it left out: it is of a reporting service"`
	TrackioSpaceID            string   `name:"trackio_space_id" help:"Of the service Trackio." only:"it left out: it is of the service Trackio"`
	TrackioBucketID           string   `name:"trackio_bucket_id" help:"Of the service Trackio." only:"it left out: it is of the service Trackio"`
	TrackioStaticSpaceID      string   `name:"trackio_static_space_id" help:"Of the service Trackio." only:"it left out: it is of the service Trackio"`

	// Evaluation.

	EvalStrategy          string   `name:"eval_strategy" default:"no" help:"When to evaluate: no, steps or epoch."`
	EvalSteps             *float64 `name:"eval_steps" help:"Updates between two evaluations; below 1 a share of the run; absent: logging_steps."`
	EvalDelay             float64  `name:"eval_delay" default:"0" help:"No evaluation before so many updates or epochs."`
	EvalOnStart           bool     `name:"eval_on_start" help:"Evaluate before the first update."`
	PredictionLossOnly    bool     `name:"prediction_loss_only" help:"Compute the loss and no other metrics."`
	EvalDoConcatBatches   bool     `name:"eval_do_concat_batches" default:"true" help:"Join the batches of an evaluation." only:"true: engine.Predictions has the batches joined"`
	EvalUseGatherObject   bool     `name:"eval_use_gather_object" help:"Gather objects that are no tensors." only:"false: what is not a tensor is shared by engine.ObservationSharer"`
	EvalAccumulationSteps *int     `name:"eval_accumulation_steps" help:"Batches after which predictions move to the host."`
	IncludeForMetrics     []string `name:"include_for_metrics" help:"What else the metrics get." only:"it left out: what a task puts into engine.Outputs.Inputs is in engine.Predictions.Inputs, and its Losses are there always"`
	BatchEvalMetrics      bool     `name:"batch_eval_metrics" help:"Compute metrics batch by batch."`
	LabelNames            []string `name:"label_names" help:"The names of the labels."`
	MetricForBestModel    string   `name:"metric_for_best_model" help:"The metric of the best evaluation."`
	GreaterIsBetter       *bool    `name:"greater_is_better" help:"More of it is better."`
	LoadBestModelAtEnd    bool     `name:"load_best_model_at_end" help:"End with the weights of the best evaluation."`

	// Saving, resuming, sharing.

	SaveStrategy                        string  `name:"save_strategy" default:"steps" help:"When to save: no, steps, epoch or best."`
	SaveSteps                           float64 `name:"save_steps" default:"500" help:"Updates between two checkpoints; below 1 a share of the run."`
	SaveTotalLimit                      *int    `name:"save_total_limit" help:"How many checkpoints stay."`
	SaveOnlyModel                       bool    `name:"save_only_model" help:"Leave the states of optimizer, schedule and generators out."`
	SaveOnEachNode                      bool    `name:"save_on_each_node" help:"Save on each machine." only:"false: the main process writes"`
	EnableJITCheckpoint                 bool    `name:"enable_jit_checkpoint" help:"Save when a signal ends the run, whatever save_strategy is."`
	ResumeFromCheckpoint                any     `name:"resume_from_checkpoint" help:"The checkpoint to continue from; true: the newest."`
	IgnoreDataSkip                      bool    `name:"ignore_data_skip" help:"Begin the interrupted epoch again when resuming."`
	RestoreCallbackStatesFromCheckpoint bool    `name:"restore_callback_states_from_checkpoint" help:"Callbacks continue too."`
	PushToHub                           bool    `name:"push_to_hub" help:"Push the model to the Hub."`
	HubToken                            string  `name:"hub_token" help:"The token for it; absent: that of the environment."`
	HubPrivateRepo                      *bool   `name:"hub_private_repo" help:"Make the repository private."`
	HubModelID                          string  `name:"hub_model_id" help:"The repository; absent: the name of output_dir."`
	HubRevision                         string  `name:"hub_revision" help:"The branch."`
	HubStrategy                         string  `name:"hub_strategy" default:"every_save" help:"What to push: end, every_save, checkpoint or all_checkpoints."`
	HubAlwaysPush                       bool    `name:"hub_always_push" help:"Push while another push is under way too."`

	// Data and seeds.

	Seed                             int    `name:"seed" default:"42" least:"0" help:"Of random numbers and of the order of samples."`
	DataSeed                         *int   `name:"data_seed" least:"0" help:"Of the order of samples alone."`
	DataloaderDropLast               bool   `name:"dataloader_drop_last" help:"Leave out a last batch that is smaller."`
	DataloaderNumWorkers             int    `name:"dataloader_num_workers" default:"0" least:"0" help:"Goroutines that load; 0: one for each processor."`
	DataloaderPrefetchFactor         *int   `name:"dataloader_prefetch_factor" help:"Batches that each of them loads ahead."`
	DataloaderPinMemory              bool   `name:"dataloader_pin_memory" default:"true" help:"Pinned memory for batches." only:"true: engine.Input sends every batch to a GPU from pinned memory"`
	DataloaderPersistentWorkers      bool   `name:"dataloader_persistent_workers" help:"Workers outlive an epoch." only:"false: a goroutine costs microseconds to start"`
	DataloaderMultiprocessingContext string `name:"dataloader_multiprocessing_context" help:"How worker processes start." only:"it left out: there are no worker processes"`
	DataloaderInOrder                bool   `name:"dataloader_in_order" default:"true" help:"Batches come in order." only:"true: batches come in the order of the samples"`
	TrainSamplingStrategy            string `name:"train_sampling_strategy" default:"random" help:"The order of the samples: random, sequential, group_by_length, batch_rebalance."`
	LengthColumnName                 string `name:"length_column_name" default:"length" help:"The column of lengths." only:"it left out: TrainingArguments.Lengths holds the lengths"`
	RemoveUnusedColumns              bool   `name:"remove_unused_columns" default:"true" help:"Drop columns that the model does not take." only:"true: samples and batches are typed, and have the fields that the task uses"`

	// Several processes.

	LocalRank               int    `name:"local_rank" default:"-1" help:"The number of the process on its machine." only:"it left out: the launcher says it by LOCAL_RANK in the environment"`
	AcceleratorConfig       any    `name:"accelerator_config" help:"Settings of Accelerate, as JSON or the name of a file."`
	ParallelismConfig       any    `name:"parallelism_config" help:"Parallelism within a model." only:"it left out: engine.Options.Sharding or fsdp share a model out; dist/tensor divides its layers, in a loop of your own"`
	DDPFindUnusedParameters *bool  `name:"ddp_find_unused_parameters" help:"Of DistributedDataParallel."`
	DDPBucketCapMB          *int   `name:"ddp_bucket_cap_mb" least:"1" help:"Of DistributedDataParallel."`
	DDPBroadcastBuffers     *bool  `name:"ddp_broadcast_buffers" help:"Of DistributedDataParallel."`
	DDPStaticGraph          *bool  `name:"ddp_static_graph" help:"Of DistributedDataParallel."`
	DDPBackend              string `name:"ddp_backend" help:"How processes communicate."`
	DDPTimeout              int    `name:"ddp_timeout" default:"1800" help:"Seconds after which a call to other processes fails."`
	FSDP                    any    `name:"fsdp" nargs:"?" help:"FullyShardedDataParallel."`
	FSDPConfig              any    `name:"fsdp_config" help:"Its settings." only:"it left out: a configuration of accelerate says more (gotrainer launch)"`
	Deepspeed               any    `name:"deepspeed" help:"DeepSpeed's settings." only:"it left out: it is DeepSpeed's engine; accelerate's file has zero_stage"`

	// Debugging, and flags for scripts.

	Debug             []string `name:"debug" help:"Debugging aids." only:"it left out: it hooks into Python modules; package torch has DetectAnomaly"`
	SkipMemoryMetrics bool     `name:"skip_memory_metrics" default:"true" help:"Report no memory." only:"true: the memory of a run is measured from outside, or by a hook"`
	DoTrain           bool     `name:"do_train" help:"Train."`
	DoEval            bool     `name:"do_eval" help:"Evaluate."`
	DoPredict         bool     `name:"do_predict" help:"Predict."`

	// Lengths are the lengths of the training samples, in tokens. The program must set them if
	// train_sampling_strategy is group_by_length or batch_rebalance.
	Lengths []int `kong:"-"`
}
