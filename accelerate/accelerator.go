package accelerate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Options configures [New]. The zero value trains in float32 on the CPU without accumulation:
// Accelerator().
type Options struct {
	Device         torch.Device  // the device that models are moved to; zero: the CPU
	MixedPrecision amp.Precision // precision of [Accelerator.Autocast] (mixed_precision); FP16 needs a GPU
	Accumulation   Accumulation
	Project        Project

	// Scaler scales the loss. Nil: one with PyTorch's defaults if MixedPrecision is FP16, otherwise
	// none.
	Scaler *amp.GradScaler

	// Group is the group of processes that train together, made by dist.Init. Nil: this process
	// alone; New refuses nil in a process that was started as one of several.
	Group *dist.Group

	// Distributed says how the processes average gradients: DistributedDataParallelKwargs.
	Distributed ddp.Options

	// Sharding says what is divided among the processes, so that each has only a part of it:
	// shard.ZeroRedundancyOptimizer, shard.ShardGradOp or shard.FullShard, which are stages 1, 2
	// and 3 of ZeRO. Zero: nothing. It is for a single model, whose optimizer must be made by
	// BuildOptimizer. Of Distributed, FindUnusedParameters, BucketCapMB and KeepBuffers apply. With
	// FullShard, a model made in [nn.Defer] gets its initial weights layer by layer. It corresponds
	// to FullyShardedDataParallelPlugin and DeepSpeedPlugin.
	Sharding shard.Strategy
	// ShardingReplicas divides the processes into this many replicas, each of which shards the
	// model among its processes: [shard.OnePerMachine] or a number; zero: one. It is HYBRID_SHARD
	// of FullyShardedDataParallel.
	ShardingReplicas int

	// SplitBatches makes LoaderOptions.BatchSize the batch size of all processes together
	// (split_batches). Otherwise it is that of each process.
	SplitBatches bool

	// NoDispatchBatches fills up the end of a pass over a stream so that all processes have full
	// batches; GatherForMetrics does not remove the added samples. It is dispatch_batches=False,
	// under which each process reads the stream itself (as it always does here). Otherwise the
	// remaining samples are divided evenly.
	NoDispatchBatches bool

	// FreeSchedule advances a schedule at every Step, whether or not there was an update:
	// step_scheduler_with_optimizer=False.
	FreeSchedule bool

	// FusedHidesSkips treats an update that loss scaling skips as made if the optimizer is fused,
	// so that schedules advance. In Accelerate the kernel is called in any case and skips the
	// update itself, and Accelerate does not learn of it.
	FusedHidesSkips bool
}

// Accumulation says how gradients are accumulated: GradientAccumulationPlugin.
type Accumulation struct {
	Steps     int  // batches per update (num_steps); zero: 1
	CarryOver bool // the end of a loader does not end a window (sync_with_dataloader=False)
}

// Project says where states are saved: ProjectConfiguration.
type Project struct {
	Dir string // project_dir; needed for AutomaticNaming
	// AutomaticNaming makes SaveState("") write Dir/checkpoints/checkpoint_0, checkpoint_1, ...
	// (automatic_checkpoint_naming).
	AutomaticNaming bool
	TotalLimit      int // how many of these to keep; zero: all
	Iteration       int // number of the first of them: a resumed run continues counting from here
	// PythonFiles adds to states the files of Accelerate's save_state, which Python's load_state
	// reads. LoadState reads folders from Python even without it.
	PythonFiles bool
}

// Accelerator knows how each step of a training loop must be done. It is for use by one goroutine
// at a time.
type Accelerator struct {
	options      Options
	scaler       *amp.GradScaler
	models       []any
	parallel     []*ddp.Model // wrappers of the models, with several processes
	sharded      *shard.Model // the divided model, with Options.Sharding
	folderShared bool         // the folder of the state being saved was sent to the other processes
	optimizers   []*Optimizer
	schedules    []*Schedule
	registered   []Stateful

	step      int               // batches in the current window
	sync      bool              // the current batch ends a window
	loaders   []loaderAt        // the loaders that are being read, the innermost last
	iteration int               // number of the next automatically named state
	python    *torchsave.Random // Python's generators from a loaded state; nil: as seeded
	random    [][]byte          // random states of all processes, while a state is saved
}

// loaderAt reports whether the last batch that a loader has returned is its last one.
type loaderAt interface {
	atEnd() bool
	// samples in the last round of batches of all processes, if that is incomplete; 0: it is
	// complete, or its size does not matter
	remainder() int
}

// New makes an Accelerator. The error says which option is not possible.
func New(o Options) (*Accelerator, error) {
	if o.Accumulation.Steps == 0 {
		o.Accumulation.Steps = 1
	}
	switch {
	case o.Accumulation.Steps < 0:
		return nil, fmt.Errorf("accelerate: Options.Accumulation.Steps is %d; want at least 1, or 0 for 1",
			o.Accumulation.Steps)
	case o.MixedPrecision < amp.FP32 || o.MixedPrecision > amp.FP16:
		return nil, fmt.Errorf("accelerate: Options.MixedPrecision is %s; want FP32, BF16 or FP16", o.MixedPrecision)
	case o.MixedPrecision == amp.FP16 && !o.Device.IsCUDA():
		return nil, fmt.Errorf("accelerate: Options.MixedPrecision is fp16, which needs a GPU; Options.Device is %s",
			o.Device)
	case o.Project.TotalLimit < 0:
		return nil, fmt.Errorf("accelerate: Options.Project.TotalLimit is %d; want at least 1, or 0 to keep all",
			o.Project.TotalLimit)
	case o.Project.AutomaticNaming && o.Project.Dir == "":
		return nil, fmt.Errorf("accelerate: Options.Project.AutomaticNaming is set, but Options.Project.Dir, where " +
			"the folders would be, is empty")
	case !o.Project.AutomaticNaming && (o.Project.TotalLimit > 0 || o.Project.Iteration > 0):
		return nil, fmt.Errorf("accelerate: Options.Project.TotalLimit is %d and Iteration %d, but AutomaticNaming is "+
			"not set, so they would have no effect: set it, or leave them zero", o.Project.TotalLimit,
			o.Project.Iteration)
	case o.Project.Iteration < 0:
		return nil, fmt.Errorf("accelerate: Options.Project.Iteration is %d; it counts from 0", o.Project.Iteration)
	}
	if err := errors.Join(checkGroup(o.Group), o.checkSharding()); err != nil {
		return nil, err
	}
	if err := torch.CheckDevice(o.Device); err != nil {
		return nil, fmt.Errorf("accelerate: Options.Device: %w", err)
	}
	if o.MixedPrecision == amp.BF16 && !o.Device.IsCUDA() && torch.Load() == nil {
		if reason := torch.SlowBFloat16(); reason != "" {
			slog.Warn("accelerate: Options.MixedPrecision is bf16", "reason", reason)
		}
	}
	a := &Accelerator{options: o, scaler: o.Scaler, sync: true, iteration: o.Project.Iteration}
	if a.scaler == nil && o.MixedPrecision == amp.FP16 {
		a.scaler = amp.NewGradScaler(amp.GradScalerOptions{})
	}
	return a, nil
}

// Device returns the device that models are moved to, on which batches are expected.
func (a *Accelerator) Device() torch.Device { return a.options.Device }

// Scaler returns the scaler of the loss; nil if there is none.
func (a *Accelerator) Scaler() *amp.GradScaler { return a.scaler }

// PrepareModel moves a model to the device and registers it for SaveState:
// accelerator.prepare(model). With several processes, all get the parameters and buffers of the
// main one.
func (a *Accelerator) PrepareModel(model any) error {
	if !shard.DrawsLayers(a.options.Sharding, a.options.Device) {
		if err := nn.Materialize(model); err != nil {
			return fmt.Errorf("accelerate: PrepareModel: %w", err)
		}
	}
	err := torch.Try(func() {
		if a.options.Device != torch.CPU {
			nn.To(model, torch.TensorOptions{Device: a.options.Device})
		}
		nn.Params(model) // so that a wrong tag is noticed here and not in the middle of the run
	})
	if err != nil {
		return fmt.Errorf("accelerate: PrepareModel: %w", err)
	}
	if parts := nn.LinearParts(model); len(parts) > 0 {
		return fmt.Errorf("accelerate: PrepareModel: only parts of the model are here (%s); divided layers (dist/tensor) "+
			"need a training loop of your own", parts[0])
	}
	if a.options.Sharding != 0 {
		if err := a.shard(model); err != nil {
			return fmt.Errorf("accelerate: PrepareModel: %w", err)
		}
	} else if a.NumProcesses() > 1 {
		o := a.options.Distributed
		if o.BucketCapMB == 0 {
			o.BucketCapMB = 25 // also for the first bucket, unlike DistributedDataParallel by itself
		}
		m, err := ddp.New(context.Background(), a.options.Group, model, o)
		if err != nil {
			return fmt.Errorf("accelerate: PrepareModel: %w", err)
		}
		a.parallel = append(a.parallel, m)
	}
	a.models = append(a.models, model)
	return nil
}

// Autocast runs a forward pass in the precision of Options.MixedPrecision. Python's Accelerator
// wraps the model's forward in it and returns its outputs as float32. Here, compute the loss inside
// Autocast too, and convert outputs that you keep where they are used.
func (a *Accelerator) Autocast(forward func()) {
	amp.Autocast(a.options.Device, a.options.MixedPrecision, forward)
}

// SetSeed restarts the default generators of all devices: accelerate.utils.set_seed.
func SetSeed(seed uint64) error {
	seeded.Store(seed)
	return torch.Try(func() { torch.ManualSeed(seed) })
}
