package pymarlin

import (
	"context"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// TrainerBackend runs the passes over the data: how a batch becomes gradients, and gradients an
// update. [SingleProcess] and [SingleProcessAmp] are two backends, and [DDPTrainerBackend] makes
// them work on several processes. A custom one may be given in [Options].
//
// With several processes, all must call Init, TrainDL, ValidateDL, GetState and UpdateState.
type TrainerBackend[B any] interface {
	// Init is called once by New.
	Init(args BackendArguments[B]) error
	// TrainDL wraps an epoch: it calls train once with the loader, or with another one of the same
	// length, and returns the outputs of the batches if the module has a TrainEpochEndHook. An
	// error from train ends the run.
	TrainDL(ctx context.Context, loader Dataloader[B], train func(Dataloader[B]) error) (Collected, error)
	// TrainBatch runs one forward and backward pass; the loop calls it for each batch.
	TrainBatch(batch B) error
	// ProcessGlobalStep makes an update; the loop calls it after the last batch of each window.
	ProcessGlobalStep() error
	// ValidateDL runs step over the batches of a set without gradients and returns the outputs.
	ValidateDL(ctx context.Context, loader Dataloader[B], step StepFunc[B]) (Collected, error)
	// BatchesCompleted and GlobalStepsCompleted count the batches and updates of all runs.
	BatchesCompleted() int
	GlobalStepsCompleted() int
	// TrainSampler and ValSampler return the samplers that are passed to the module's loaders.
	TrainSampler() Sampler
	ValSampler() Sampler
	Stateful
}

// StepFunc is a step of a module: ValStep or TestStep.
type StepFunc[B any] func(globalStep int, batch B, device torch.Device) (Outputs, error)

// BackendArguments are the arguments of a backend: TrainerBackendArguments.
type BackendArguments[B any] struct {
	Module                ModuleInterface[B]
	Params                []torch.Named // of the model; clipped by a single norm
	Group                 *dist.Group   // the processes that train the model; nil: this one alone
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
	Exact                 bool // see Options.Exact
}

// BuildTrainerBackend makes a backend by name: "sp" runs in one process, and "sp-amp" does so in
// mixed precision; "ddp" and "ddp-amp" are the same for the processes of [Options].Group. Names of
// PyMarlin that need Apex or Opacus are refused.
func BuildTrainerBackend[B any](name string) (TrainerBackend[B], error) {
	switch name {
	case "sp":
		return &SingleProcess[B]{}, nil
	case "sp-amp":
		return &SingleProcessAmp[B]{Precision: amp.FP16}, nil
	case "ddp", "ddp-amp":
		inner, err := BuildTrainerBackend[B]("sp" + name[len("ddp"):])
		return &DDPTrainerBackend[B]{TrainerBackend: inner}, err
	case "sp-amp-apex", "ddp-amp-apex":
		return nil, argumentf("the backend %q needs Apex, a Python package that PyTorch's own mixed precision has "+
			"replaced; take %s", name, strings.TrimSuffix(name, "-apex"))
	case "sp-dp", "ddp-dp":
		return nil, argumentf("the backend %q needs gradients of single samples, which Opacus makes with Python "+
			"hooks; there is no such backend here", name)
	}
	return nil, argumentf("there is no backend %q; want sp, sp-amp, ddp or ddp-amp", name)
}
