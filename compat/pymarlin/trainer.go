package pymarlin

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Options are the replaceable parts of a [Trainer]. The zero value means PyMarlin's.
type Options[B any] struct {
	Backend      TrainerBackend[B] // nil: the one named by TrainerArguments.Backend
	Checkpointer Checkpointer      // nil: a [DefaultCheckpointer] with TrainerArguments.CheckpointerArgs
	Extra        Stateful          // additional state: what a subclass of Trainer adds in get_state and update_state
	Stats        *Stats            // nil: new ones
	// nil: lines on standard error, from TrainerArguments.LogLevel on; with several processes on a
	// machine, all but the first log only warnings and errors
	Logger *slog.Logger

	// Group is the group of processes that train the model together, made by dist.Init; nil means
	// this process alone. With a group, the backend is "ddp", "ddp-amp" or a [DDPTrainerBackend].
	// All processes must call the same methods of their trainers in the same order, starting with
	// New; the main one writes checkpoints and stats. If a context is cancelled on one process,
	// Train ends on all, after the same update.
	Group *dist.Group

	// Exact does as PyMarlin does even where nobody would want it. It implies InexactResume and
	// CheckpointerArguments.Exact. It accepts a MaxGradNorm that is not positive, which makes the
	// gradients 0 or reverses them, one that is not finite, and Epochs below 1, which trains
	// nothing and saves that. A zero of these two must be set in a configuration, since a zero
	// field means the default. With several processes, all epochs have the same order of samples,
	// validations end with samples that have already been visited, and the stat loss is that of
	// the main process.
	Exact bool

	// InexactResume omits the random number generators, the stats and the gradients of an
	// unfinished window from checkpoints, writes none when a run is cancelled inside an epoch, and
	// restores none of these, as PyMarlin does. An interrupted run then takes a different course
	// from one that was not interrupted.
	InexactResume bool
}

// Trainer runs the training of a module: pymarlin.core.trainer.Trainer. Only one goroutine may use
// it.
type Trainer[B any] struct {
	module       ModuleInterface[B]
	args         TrainerArguments
	options      Options[B]
	logger       *slog.Logger
	backend      TrainerBackend[B]
	checkpointer Checkpointer
	stats        *Stats
	writers      []Writer // created by name, for the stats
	device       torch.Device

	batches    int // per epoch
	estimate   int // updates per epoch
	optimizers []*Optimizer
	schedulers []Scheduler
	lastEpoch  int
	place      State // where training resumes; nil: from the current state
}

// New makes a trainer: it loads the checkpoint given by the arguments, moves the model to the
// device and lets the module make its optimizers and schedulers. A nil o means the defaults.
func New[B any](module ModuleInterface[B], args TrainerArguments, o *Options[B]) (*Trainer[B], error) {
	o = cmp.Or(o, &Options[B]{})
	args = args.withDefaults()
	args.CheckpointerArgs.Exact = args.CheckpointerArgs.Exact || o.Exact
	t := &Trainer[B]{module: module, args: args, options: *o, logger: o.Logger, backend: o.Backend,
		checkpointer: o.Checkpointer, stats: o.Stats, lastEpoch: -1}
	t.options.InexactResume = o.InexactResume || o.Exact
	if err := t.prepare(); err != nil {
		return nil, err
	}
	saved, err := t.checkpointer.Load()
	if err := loops.Together(t.group(), err); err != nil {
		return nil, err
	}
	defer saved.free()
	if err = t.start(saved); err == nil {
		err = t.checkSameRun()
	}
	if err != nil {
		return nil, errors.Join(err, closeWriters(t.writers)) // custom writers are closed by the caller
	}
	return t, nil
}

func (c Checkpoint) free() {
	free(c.ModuleInterfaceState, c.TrainerState, c.TrainerBackendState)
}

// prepare checks what can be checked before any file is read.
func (t *Trainer[B]) prepare() (err error) {
	if t.module == nil {
		return argumentf("the module is nil")
	}
	if err := t.args.check(t.options.Exact); err != nil {
		return err
	}
	if err := checkHooks(t.module, reflect.TypeFor[TestModule[B]]()); err != nil {
		return err
	}
	if t.logger == nil {
		level, err := parseLevel(t.args.LogLevel)
		if err != nil {
			return err
		}
		if !t.printsHere() {
			level = max(level, slog.LevelWarn)
		}
		t.logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	}
	if t.backend == nil {
		if t.backend, err = BuildTrainerBackend[B](t.args.Backend); err != nil {
			return err
		}
	}
	if err := t.checkRanks(); err != nil {
		return err
	}
	if t.PerGPUGlobalBatchSize() < 1 {
		return argumentf("train_batch_size, TrainerArguments.TrainBatchSize, is %d, which %d processes cannot share; "+
			"want at least one sample for each", t.args.TrainBatchSize, t.group().World())
	}
	if err := torch.Load(); err != nil {
		return err
	}
	if !t.args.NoGPU && torch.CUDADevices() > 0 {
		t.device = torch.CUDA(t.group().LocalRank())
	}
	if t.checkpointer == nil {
		args := t.args.CheckpointerArgs // the main process removes old files before any process looks for one to load
		args.DeleteExistingCheckpoints = args.DeleteExistingCheckpoints && t.IsMainProcess()
		t.checkpointer, err = NewDefaultCheckpointer(args, t.logger)
	}
	return loops.Together(t.group(), err)
}

// start restores module, optimizers and backend from a checkpoint.
func (t *Trainer[B]) start(saved Checkpoint) error {
	err := load(moduleKey, saved.ModuleInterfaceState, func(s State) error { return updateModule(t.module, s) })
	if err != nil {
		return err
	}
	var params []torch.Named
	err = torch.Try(func() {
		if t.device != torch.CPU {
			nn.To(modelOf(t.module), torch.TensorOptions{Device: t.device})
		}
		params = nn.Params(modelOf(t.module))
	})
	if err != nil {
		return fmt.Errorf("pymarlin: the model: %w", err)
	}
	if err := t.estimateSteps(); err != nil {
		return err
	}
	t.logger.Info("hyperparameters", "args", fmt.Sprintf("%+v", t.args), "device", t.device.String(),
		"train_step_batch_size", t.TrainStepBatchSize(), "gradient_accumulation", t.GradientAccumulation(),
		"estimated_global_steps_per_epoch", t.estimate, "last_epoch", t.lastEpoch)
	if t.optimizers, t.schedulers, err = t.module.OptimizersSchedulers(t.estimate, t.args.Epochs); err != nil {
		return err
	}
	if err := load(trainerKey, saved.TrainerState, t.updateState); err != nil {
		return err
	}
	if len(t.optimizers) == 0 {
		return argumentf("OptimizersSchedulers made no optimizer, so nothing would be trained; want at least one")
	}
	if err := t.initStats(); err != nil {
		return err
	}
	err = t.backend.Init(BackendArguments[B]{
		Module: t.module, Params: params, Group: t.group(), Device: t.device, Optimizers: t.optimizers,
		Schedulers: t.schedulers, GradientAccumulation: t.GradientAccumulation(), TrainBatchSize: t.args.TrainBatchSize,
		MaxTrainStepsPerEpoch: t.args.MaxTrainStepsPerEpoch, MaxValStepsPerEpoch: t.args.MaxValStepsPerEpoch,
		ClipGrads: !t.args.NoClipGrads, MaxGradNorm: t.args.MaxGradNorm, Stats: t.stats,
		DisableTqdm: t.args.DisableTqdm || !t.printsHere(), InexactResume: t.options.InexactResume,
		Exact: t.options.Exact,
	})
	if err != nil {
		return err
	}
	if err := load(backendKey, saved.TrainerBackendState, t.backend.UpdateState); err != nil {
		return err
	}
	return t.countBatches()
}

// load passes a part of a checkpoint to update, if it is not empty.
func load(key string, part State, update func(State) error) error {
	if len(part) == 0 {
		return nil
	}
	if err := loops.Scoped(func() error { return update(part) }); err != nil {
		return fmt.Errorf("pymarlin: %w: %s: %w", errNotLoaded, key, err)
	}
	return nil
}

// initStats creates the writers; only the main process has any.
func (t *Trainer[B]) initStats() error {
	names, custom := t.args.Writers, t.args.CustomWriters
	if !t.IsMainProcess() {
		names, custom = nil, nil
	}
	for _, name := range names {
		if name == azureML { // as in Python without azureml: a warning, and nothing is written
			t.logger.Warn("AML writer failed to initialize.", "reason", "Azure ML's client is a Python package; where "+
				"MLflow tracks the run, give a writer for it in CustomWriters")
			continue
		}
		w, err := BuildWriter(name, t.args.WriterArgs)
		if err != nil {
			return err
		}
		t.writers = append(t.writers, w)
	}
	t.stats = cmp.Or(t.stats, NewStats(t.args.StatsArgs))
	if err := t.stats.Rebuild(t.args.StatsArgs, slices.Concat(custom, t.writers)); err != nil {
		return err
	}
	if u, ok := t.module.(StatsUser); ok {
		u.UseStats(t.stats)
	}
	return nil
}

// estimateSteps counts the batches of the module's loader; a module without training data has none.
func (t *Trainer[B]) estimateSteps() error {
	loader, err := t.module.TrainDataloader(SequentialSampler{}, t.TrainStepBatchSize())
	if err != nil || loader == nil {
		return err
	}
	t.batches = loader.Len()
	t.estimate = EstimatedGlobalSteps(t.batches, t.group().World(), t.GradientAccumulation(),
		t.args.MaxTrainStepsPerEpoch)
	return nil
}

// GetState returns the trainer's part of a checkpoint, including that of Options.Extra. All
// processes must call it.
func (t *Trainer[B]) GetState() (State, error) {
	p, err := t.currentPlace()
	if err != nil {
		return nil, err
	}
	return t.stateAt(p)
}

func (t *Trainer[B]) stateAt(place State) (State, error) {
	optimizers, err := states(t.optimizers)
	schedulers, err2 := states(t.schedulers)
	s := State{"last_epoch": t.lastEpoch, "optimizers": optimizers, "schedulers": schedulers}
	err = errors.Join(err, err2)
	if !t.options.InexactResume {
		err = addOwn(t.group(), s, place, err)
	}
	if err != nil || t.options.Extra == nil {
		return s, err
	}
	more, err := t.options.Extra.GetState()
	for key := range more {
		if _, taken := s[key]; taken {
			return nil,
				fmt.Errorf("pymarlin: the state of Options.Extra has the key %q, which is the trainer's own", key)
		}
	}
	maps.Copy(s, more)
	return s, err
}

// updateState restores what GetState returned.
func (t *Trainer[B]) updateState(s State) (err error) {
	last, ok := s["last_epoch"].(int)
	if !ok || last < -1 {
		return fmt.Errorf("want the number of the last epoch last_epoch, found %v", s["last_epoch"])
	}
	t.lastEpoch = last
	if t.options.Extra != nil {
		if err := t.options.Extra.UpdateState(s); err != nil {
			return err
		}
	}
	if !t.options.InexactResume {
		own, err := ownOf(t.group(), s)
		if err != nil {
			return err
		}
		if t.place, err = t.extractPlace(own); err != nil {
			return err
		}
	}
	if t.args.ResetOptimizersSchedulers {
		t.logger.Info("Optimizers and schedulers reset, not loaded from checkpoint")
		if left := t.args.Epochs - t.lastEpoch - 1; left > 0 {
			t.optimizers, t.schedulers, err = t.module.OptimizersSchedulers(t.estimate, left)
		}
		return err
	}
	t.logger.Info("Loading optimizers and schedulers from checkpoint")
	if err := loadStates("optimizers", t.optimizers, s["optimizers"]); err != nil {
		return err
	}
	return loadStates("schedulers", t.schedulers, s["schedulers"])
}

// Module returns the module that is trained.
func (t *Trainer[B]) Module() ModuleInterface[B] { return t.module }

// Args returns the arguments with their defaults filled in.
func (t *Trainer[B]) Args() TrainerArguments { return t.args }

// Backend returns the backend, which runs the passes.
func (t *Trainer[B]) Backend() TrainerBackend[B] { return t.backend }

// Stats returns the stats.
func (t *Trainer[B]) Stats() *Stats { return t.stats }

// Optimizers returns the optimizers of the module, in its order.
func (t *Trainer[B]) Optimizers() []*Optimizer { return t.optimizers }

// Schedulers returns the schedulers of the module, in its order.
func (t *Trainer[B]) Schedulers() []Scheduler { return t.schedulers }

// Device returns the device of the model.
func (t *Trainer[B]) Device() torch.Device { return t.device }

// LastEpoch returns the number of the last finished epoch, -1 before the first.
func (t *Trainer[B]) LastEpoch() int { return t.lastEpoch }

// PerGPUGlobalBatchSize returns the number of samples per update in this process.
func (t *Trainer[B]) PerGPUGlobalBatchSize() int { return t.args.TrainBatchSize / t.group().World() }

// TrainStepBatchSize returns the number of samples in a forward pass, see the function of that
// name.
func (t *Trainer[B]) TrainStepBatchSize() int {
	return TrainStepBatchSize(t.PerGPUGlobalBatchSize(), t.args.GPUBatchSizeLimit)
}

// GradientAccumulation returns the number of batches per update.
func (t *Trainer[B]) GradientAccumulation() int {
	return t.PerGPUGlobalBatchSize() / t.TrainStepBatchSize()
}

// EstimatedGlobalStepsPerEpoch returns the estimate passed to OptimizersSchedulers, see
// [EstimatedGlobalSteps].
func (t *Trainer[B]) EstimatedGlobalStepsPerEpoch() int { return t.estimate }

// GlobalStepsFinished returns the number of updates of all runs.
func (t *Trainer[B]) GlobalStepsFinished() int { return t.backend.GlobalStepsCompleted() }

// TotalStepsFinished returns the number of batches of all runs.
func (t *Trainer[B]) TotalStepsFinished() int { return t.backend.BatchesCompleted() }
