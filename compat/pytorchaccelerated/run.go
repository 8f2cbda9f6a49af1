package pytorchaccelerated

import (
	"fmt"
	"io"
	"slices"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/internal/sharedorder"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Run is a Trainer as callbacks see it: the attributes and methods of trainer in Python, except
// those that depend on the type of batches. It may be used only from the goroutine of Train or
// Evaluate.
type Run struct {
	rules     Rules
	model     any
	modules   []any
	builder   optim.Builder
	optimizer optim.Optimizer
	rate      float64 // of the optimizer, between runs
	history   RunHistory
	callbacks []any
	out       io.Writer
	progress  io.Writer

	accelerator *accelerate.Accelerator
	prepared    *accelerate.Optimizer
	order       *sharedorder.Order // of the training set, shared by the processes; nil: none
	schedule    *schedule
	config      RunConfig
	tracker     *LossTracker

	// Set by the Trainer, which knows the type of batches.
	evaluate func(EvalEpoch) error
	loaders  func() (train, eval sized)

	limitTrain, limitEval int          // batches per pass; negative: all
	now                   *trainer.Run // the loop; nil: not started
	start                 *trainer.StartPosition
	place                 place
	updates               int            // in this run
	training              bool           // inside a training epoch
	inWindow              bool           // gradients have been accumulated since the last update
	inEvent               bool           // inside an event: further callbacks may change their states
	evaluated             bool           // the epoch is complete, including its evaluation
	beforeEval            *savedState    // where to resume from a state that is saved during the evaluation of an epoch
	resumed               bool           // callbacks continue with their states from a training state
	pending               []func() error // write the states requested in a window or an event
	saved                 savedState     // the state written or read last
	trains                bool           // a training run, not an evaluation
	evalSliced            bool           // the previous run has left its evaluation loader limited
	// initial_lr, which PyTorch keeps in the parameter groups once a scheduler was made; nil
	// before.
	initialRate *float64
}

// sized is a [Loader] with any type of batches.
type sized interface{ Len() int }

// History returns the run history.
func (r *Run) History() RunHistory { return r.history }

// Config returns the configuration of the run; zero before the first run.
func (r *Run) Config() RunConfig { return r.config }

// Model returns the model: trainer.model, and also get_model(), since there are no wrappers to
// remove.
func (r *Run) Model() any { return r.model }

// Optimizer returns the optimizer: trainer.optimizer.
func (r *Run) Optimizer() optim.Optimizer { return r.optimizer }

// LearningRate returns the rate of the next update.
func (r *Run) LearningRate() float64 {
	if r.prepared == nil {
		return r.rate
	}
	return r.prepared.Rate()
}

// Schedule returns the schedule of the run, or nil if there is none: trainer.scheduler.
func (r *Run) Schedule() lr.Schedule {
	if r.schedule == nil {
		return nil
	}
	return r.schedule.plan
}

// ScheduleSteps returns the number of steps of the schedule in this run, including those before a
// resume.
func (r *Run) ScheduleSteps() int {
	if r.schedule == nil {
		return 0
	}
	return r.schedule.moves
}

// Updates returns the number of updates of this run, including those before a resume.
func (r *Run) Updates() int { return r.updates }

// Accelerator returns the Accelerator of the run: trainer._accelerator. Each run has its own.
func (r *Run) Accelerator() *accelerate.Accelerator { return r.accelerator }

// Device returns the device for batches.
func (r *Run) Device() torch.Device {
	if r.accelerator == nil {
		return torch.CPU
	}
	return r.accelerator.Device()
}

// LossTracker returns the tracker that averages the losses of the current epoch.
func (r *Run) LossTracker() *LossTracker { return r.tracker }

// Callbacks returns the callbacks in order.
func (r *Run) Callbacks() []any { return slices.Clone(r.callbacks) }

// TrainDataloaderLen returns the number of batches in a pass, after limits; 0 without a training
// set.
func (r *Run) TrainDataloaderLen() int {
	train, _ := r.loaders()
	if r.rules.LimitIsLength && train != nil && r.limitTrain >= 0 {
		return r.limitTrain
	}
	return limited(train, r.limitTrain)
}

// EvalDataloaderLen returns the number of batches in an evaluation epoch; 0 without an evaluation
// set.
func (r *Run) EvalDataloaderLen() int {
	_, eval := r.loaders()
	return limited(eval, r.limitEval)
}

func limited(l sized, limit int) int {
	switch {
	case l == nil:
		return 0
	case limit < 0:
		return l.Len()
	}
	return min(limit, l.Len())
}

// LimitTrainBatches ends passes over the training set that start from now on after n batches;
// negative means no limit.
func (r *Run) LimitTrainBatches(n int) { r.limitTrain = n }

// LimitEvalBatches does the same for evaluations. It returns the previous limit.
func (r *Run) LimitEvalBatches(n int) (before int) {
	before, r.limitEval = r.limitEval, n
	return before
}

// EvaluateNow evaluates within a run, for callbacks: _run_eval_epoch. It does not affect the
// losses of the current training epoch, and restores the model's training mode (see
// Rules.StayInEvalMode).
func (r *Run) EvaluateNow(e EvalEpoch) error {
	tracker := r.tracker
	defer func() { r.tracker = tracker }()
	training := r.training
	if err := r.evaluate(e); err != nil {
		return err
	}
	if training && !r.rules.StayInEvalMode {
		nn.SetTraining(r.model, true)
	}
	return nil
}

// Print writes a line to Options.Output, in one process of each machine: trainer.print.
func (r *Run) Print(a ...any) {
	if r.printsHere() {
		_, _ = fmt.Fprintln(r.out, a...)
	}
}

// Gather returns the values of a tensor of all processes, concatenated along the first dimension.
// With a single process, it returns the tensor itself. All processes must call it.
func (r *Run) Gather(t torch.Tensor) torch.Tensor {
	if r.accelerator == nil {
		return t
	}
	return r.accelerator.Gather(t)[0]
}

// GatherPadded gathers tensors whose first dimensions differ between processes: gather(tensor,
// padding_value). They are padded with a value that does not occur in them, and the padding is
// removed again.
func (r *Run) GatherPadded(t torch.Tensor, padding float64) torch.Tensor {
	if r.several() {
		t = r.accelerator.PadAcrossProcesses(accelerate.Pad{Index: padding}, t)[0]
	}
	return RemovePadding(r.Gather(t), padding)
}

// RemovePadding returns the rows of a tensor that do not consist only of padding: remove_padding.
func RemovePadding(t torch.Tensor, padding float64) torch.Tensor {
	mask := t.EqScalar(padding)
	for mask.Dim() > 1 {
		mask = mask.AllDim(-1, false)
	}
	return t.At(mask.LogicalNot())
}

// metricName returns the name under which the loss of an evaluation is recorded.
func (e EvalEpoch) metricName() string {
	switch {
	case e.Intermediate:
		return "intermediate_eval_loss"
	case e.Evaluation:
		return "evaluation_loss"
	}
	return "eval_loss_epoch"
}

// interrupted returns the error of a cancelled run, with its position.
func (r *Run) interrupted(cause error) error {
	return fmt.Errorf("pytorchaccelerated: the run was interrupted in epoch %d after %d updates: %w",
		r.history.CurrentEpoch(), r.updates, cause)
}

// RunConfig is the configuration of a run: TrainerRunConfig, and its to_dict() by encoding/json.
// It does not change during the run.
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
	// 0: none; with Rules.LimitByEpoch, one more than planned if none was given
	MaxNumTrainSteps   int    `json:"max_num_train_steps"`
	IsLocalProcessZero bool   `json:"is_local_process_zero"`
	IsWorldProcessZero bool   `json:"is_world_process_zero"`
	IsDistributed      bool   `json:"is_distributed"`
	MixedPrecision     string `json:"mixed_precision"` // "no", "bf16" or "fp16"
	NumProcesses       int    `json:"num_processes"`
}

// ceilDiv returns math.ceil(a / b).
func ceilDiv(a, b int) int { return (a + b - 1) / b }
