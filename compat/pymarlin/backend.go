package pymarlin

import (
	"context"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/torch"
)

// TrainerBackend carries out the passes over the data: how a batch becomes gradients, and gradients
// an update. [SingleProcess] and [SingleProcessAmp] are two; another one may be given in [Options].
type TrainerBackend[B any] interface {
	// Init is called once by New.
	Init(args BackendArguments[B]) error
	// TrainDL is around an epoch: it has train run the batches of the loader, or of another one
	// with as many, once, and returns their outputs, if the module has a TrainEpochEndHook. An
	// error of train ends the run.
	TrainDL(ctx context.Context, loader Dataloader[B], train func(Dataloader[B]) error) (Collected, error)
	// TrainBatch is one forward and backward pass; the loop calls it for each batch.
	TrainBatch(batch B) error
	// ProcessGlobalStep is an update; the loop calls it behind the last batch of each window.
	ProcessGlobalStep() error
	// ValidateDL runs step over the batches of a set without gradients and returns the outputs.
	ValidateDL(ctx context.Context, loader Dataloader[B], step StepFunc[B]) (Collected, error)
	// BatchesCompleted and GlobalStepsCompleted count batches and updates since the beginning of
	// the first run.
	BatchesCompleted() int
	GlobalStepsCompleted() int
	// TrainSampler and ValSampler are what the module's loaders are asked for.
	TrainSampler() Sampler
	ValSampler() Sampler
	Stateful
}

// StepFunc is a step of a module: ValStep or TestStep.
type StepFunc[B any] func(globalStep int, batch B, device torch.Device) (Outputs, error)

// BackendArguments are what a backend works with: TrainerBackendArguments.
type BackendArguments[B any] struct {
	Module                ModuleInterface[B]
	Params                []torch.Named // of the model; one norm goes over all
	Device                torch.Device
	Optimizers            []*Optimizer
	Schedulers            []Scheduler
	GradientAccumulation  int // batches in a window
	TrainBatchSize        int
	MaxTrainStepsPerEpoch int
	MaxValStepsPerEpoch   int
	ClipGrads             bool
	MaxGradNorm           float64
	Stats                 *Stats
	DisableTqdm           bool // no progress line
	InexactResume         bool // the gradients of an unfinished window are not part of the state
}

// BuildTrainerBackend makes a backend by its name: "sp" runs in one process, "sp-amp" does so in
// mixed precision. The names of PyMarlin's that need several processes (ddp, ddp-amp), Apex or
// Opacus are refused.
func BuildTrainerBackend[B any](name string) (TrainerBackend[B], error) {
	switch name {
	case "sp":
		return &SingleProcess[B]{}, nil
	case "sp-amp":
		return &SingleProcessAmp[B]{Precision: amp.FP16}, nil
	case "ddp", "ddp-amp":
		return nil, argumentf("the backend %q trains in several processes, which this package does not; take %q, "+
			"where a window of batches gives the same gradients", name, "sp"+name[len("ddp"):])
	case "sp-amp-apex", "ddp-amp-apex":
		return nil, argumentf("the backend %q needs Apex, a Python package that PyTorch's own mixed precision has "+
			"replaced; take sp-amp", name)
	case "sp-dp", "ddp-dp":
		return nil, argumentf("the backend %q needs gradients of single samples, which Opacus makes with Python "+
			"hooks; there is no such backend here", name)
	}
	return nil, argumentf("there is no backend %q; want sp or sp-amp", name)
}
