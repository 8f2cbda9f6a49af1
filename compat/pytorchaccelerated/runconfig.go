package pytorchaccelerated

// RunConfig is what a run is made with: TrainerRunConfig, and its to_dict() by encoding/json. It
// does not change while the run lasts.
type RunConfig struct {
	NumEpochs                   int            `json:"num_epochs"`
	TrainPerDeviceBatchSize     int            `json:"train_per_device_batch_size"`
	TrainLoaderOptions          *LoaderOptions `json:"train_dl_kwargs"` // nil in an evaluation run
	EvalPerDeviceBatchSize      int            `json:"eval_per_device_batch_size"`
	EvalLoaderOptions           *LoaderOptions `json:"eval_dl_kwargs"` // nil without evaluation set
	GradientAccumulationSteps   int            `json:"gradient_accumulation_steps"`
	GradientClipValue           *float64       `json:"gradient_clip_value"`
	TrainTotalBatchSize         int            `json:"train_total_batch_size"`
	EvalTotalBatchSize          int            `json:"eval_total_batch_size"`
	NumUpdateStepsPerEpoch      int            `json:"num_update_steps_per_epoch"`
	NumLocalUpdateStepsPerEpoch int            `json:"num_local_update_steps_per_epoch"`
	// 0: none; under Rules.LimitByEpoch one more than planned where none was given
	MaxNumTrainSteps   int    `json:"max_num_train_steps"`
	IsLocalProcessZero bool   `json:"is_local_process_zero"`
	IsWorldProcessZero bool   `json:"is_world_process_zero"`
	IsDistributed      bool   `json:"is_distributed"`
	MixedPrecision     string `json:"mixed_precision"` // "no", "bf16" or "fp16"
	NumProcesses       int    `json:"num_processes"`
}

// ceilDiv is math.ceil(a / b).
func ceilDiv(a, b int) int { return (a + b - 1) / b }
