package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// accelerateArgs are the arguments of the loop with Hugging Face Accelerate.
type accelerateArgs struct {
	loopArgs
	accumulation    accelerate.Accumulation
	prepareSchedule bool
	freeSchedule    bool
	splitBatches    bool
	seedable        bool
	dataSeed        *uint64
	setEpoch        bool
	maxSteps        int
	saveEvery       int  // batches
	saveEpochs      bool // after each epoch
	automaticNaming bool
	totalLimit      int
	counter         bool
	scaler          *amp.GradScalerOptions
}

func readAccelerateArgs(o *spec.Object) (a accelerateArgs, err error) {
	a = accelerateArgs{
		loopArgs: readLoopArgs(o), prepareSchedule: o.Bool("prepare_scheduler", true),
		freeSchedule: !o.Bool("step_scheduler_with_optimizer", true),
		splitBatches: o.Bool("split_batches", false), seedable: o.Bool("use_seedable_sampler", false),
		setEpoch: o.Bool("set_epoch", false),
		maxSteps: o.Int("max_train_steps", 0), automaticNaming: o.Bool("automatic_naming", false),
		totalLimit: o.Int("total_limit", 0), counter: o.Bool("register_counter", false),
	}
	o.Bool("even_batches", true) // one process has no batches to even out
	if o.Has("data_seed") && o.Any("data_seed") != nil {
		a.dataSeed = new(uint64(o.Int("data_seed", 0)))
	}
	switch v := o.Any("checkpointing").(type) {
	case nil:
	case string:
		if a.saveEpochs = v == "epoch"; !a.saveEpochs {
			o.Fail("checkpointing", `a number of batches or "epoch"`)
		}
	case json.Number:
		a.saveEvery = o.Int("checkpointing", 0)
	default:
		o.Fail("checkpointing", `a number of batches or "epoch"`)
	}
	a.accumulation.Steps = a.accumulate
	if p := o.Object("accumulation_plugin"); p != nil && len(p.Names()) > 0 {
		a.accumulation = accelerate.Accumulation{Steps: p.Int("num_steps", 1),
			CarryOver: !p.Bool("sync_with_dataloader", true)}
		p.Bool("sync_each_batch", false) // of no effect in one process
		p.Bool("adjust_scheduler", true) // of no effect in Accelerate 1.15
		if err := p.Done(); err != nil {
			return a, err
		}
	}
	if s := o.Object("scaler"); s != nil {
		a.scaler = &amp.GradScalerOptions{}
		s.Fill(a.scaler, "enabled:!Disabled")
		if err := s.Done(); err != nil {
			return a, err
		}
	}
	return a, o.Done()
}

// counter is the object of the recording's own that goes into checkpoints: the number of samples so
// far.
type counter struct{ n int }

func (c *counter) MarshalState() ([]byte, error) { return json.Marshal(map[string]int{"n": c.n}) }
func (c *counter) UnmarshalState(text []byte) error {
	state := map[string]int{}
	if err := json.Unmarshal(text, &state); err != nil {
		return err
	}
	c.n = state["n"]
	return nil
}

// accelerated is the loop of a phase.
type accelerated struct {
	spec  *spec.Spec
	phase spec.Phase
	args  accelerateArgs
	rec   *recorder
	out   string // the folder of the run

	acc   *accelerate.Accelerator
	model model
	opt   *accelerate.Optimizer
	sched stepper
	train *accelerate.Loader[row, batch]
	valid *accelerate.Loader[row, batch]
	count counter
	total int // that the schedule is planned for

	// A schedule that is not prepared begins anew at a resume, while the optimizer goes on with the
	// momentum that it had been given.
	momentum *float64
	momenta  map[string]float64 // by the names of the states that were saved with it

	updates, micro int
}

// stepper moves a schedule, prepared or not.
type stepper func() error

func replayAccelerate(ctx context.Context, s *spec.Spec) (*Run, error) {
	if err := noMore(s); err != nil {
		return nil, err
	}
	sets, err := readRows(s)
	if err != nil {
		return nil, err
	}
	out, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(out) }()
	rec := &recorder{}
	var result any
	var last *accelerated
	momenta := map[string]float64{}
	for _, phase := range s.Phases {
		if phase.Do != "train" {
			return nil, spec.Unsupportedf("a phase that does %q with the trainer accelerate", phase.Do)
		}
		before := rec.mark()
		last = &accelerated{spec: s, phase: phase, rec: rec, out: out, momenta: momenta}
		outcome, failed := last.run(ctx, sets)
		if err = failed; err != nil {
			break
		}
		result = outcome
		rec.phase(trace.Of("do", "train"), before)
	}
	if aboutCase(err) {
		return nil, err
	}
	left, leftErr := savedFolders(out)
	if leftErr != nil {
		return nil, leftErr
	}
	run := &Run{Trace: rec.trace(err, "checkpoints", trace.Of("written", rec.written, "after", left),
		"train_output", result)}
	var optimizer optim.Optimizer
	if last.opt != nil {
		optimizer = last.opt.Optimizer()
	}
	run.final = finalTensors(moduleOf(last.model), optimizer)
	return run, nil
}

// savedFolders are the states in the run's folder, in the order of their numbers.
func savedFolders(out string) ([]string, error) {
	names := []string{}
	for _, dir := range []string{"checkpoints", ""} {
		entries, err := os.ReadDir(filepath.Join(out, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if dir != "" || strings.HasPrefix(e.Name(), "epoch_") || strings.HasPrefix(e.Name(), "step_") {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
	}
	number := func(name string) int {
		// SaveState and save make names that end in a number
		n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '_')+1:])
		return n
	}
	slices.SortStableFunc(names, func(a, b string) int { return number(a) - number(b) })
	return names, nil
}

func (a *accelerated) run(ctx context.Context, sets map[string]*rows) (result any, err error) {
	a.rec.where = "setup"
	o := a.spec.PhaseArgs(a.phase)
	if a.args, err = readAccelerateArgs(o); err != nil {
		return nil, err
	}
	resumeUpdate, resumeMicro, ignoreSkip := a.phase.Options.Int("resume_update", 0),
		a.phase.Options.Int("resume_micro", -1), a.phase.Options.Bool("ignore_data_skip", false)
	if err := a.phase.Options.Done(); err != nil {
		return nil, err
	}
	if a.phase.SameTrainer {
		return nil, spec.Unsupportedf("same_trainer with the trainer accelerate")
	}
	if err := a.setup(sets); err != nil {
		return nil, err
	}
	a.rec.where = "train"
	start, skip := 0, 0
	if a.phase.Resume != "" {
		if start, skip, err = a.resume(resumeMicro); err != nil {
			return nil, err
		}
		if ignoreSkip {
			skip = 0
		}
	} else if a.phase.ResumeNewest {
		return nil, fmt.Errorf("resume is true, which names no folder")
	}
	a.updates = resumeUpdate
	if length := a.train.Len(); length >= 0 {
		a.micro = start*length + skip
	}
	return a.loop(ctx, start, skip)
}

func (a *accelerated) setup(sets map[string]*rows) (err error) {
	precision := amp.FP32 // fp16 too, which Accelerate passes over on a CPU
	if a.args.precision == "bf16" {
		precision = amp.BF16
	}
	options := accelerate.Options{FusedHidesSkips: true, MixedPrecision: precision, Accumulation: a.args.accumulation,
		FreeSchedule: a.args.freeSchedule,
		Project: accelerate.Project{Dir: a.out, AutomaticNaming: a.args.automaticNaming,
			TotalLimit: a.args.totalLimit}}
	if a.args.scaler != nil {
		if err := a.args.scaler.Validate(); err != nil {
			return err
		}
		options.Scaler = amp.NewGradScaler(*a.args.scaler)
	}
	if a.acc, err = accelerate.New(options); err != nil {
		return err
	}
	if a.model, err = build(a.spec); err != nil {
		return err
	}
	if a.args.seed != nil {
		if err := accelerate.SetSeed(*a.args.seed); err != nil {
			return err
		}
	}
	if err := a.loaders(sets); err != nil {
		return err
	}
	optimizer, err := a.args.buildOptimizer(a.model)
	if err != nil {
		return err
	}
	if err := a.acc.PrepareModel(a.model.module()); err != nil {
		return err
	}
	a.opt = a.acc.PrepareOptimizer(optimizer, a.args.learningRate)
	if a.total = a.args.trainingSteps; a.total == 0 {
		if a.spec.Data.Iterable {
			return errNoLength
		}
		a.total = a.args.epochs * a.train.Len()
	}
	if a.sched, err = a.schedule(); err != nil {
		return err
	}
	if a.args.counter {
		a.acc.RegisterForCheckpointing(&a.count)
	}
	a.rec.start(a.model)
	a.rec.paramGroups(optimizer)
	return nil
}

func (a *accelerated) loaders(sets map[string]*rows) (err error) {
	train, ok := sets["train"]
	switch {
	case !ok:
		return fmt.Errorf("there is no training set")
	case a.spec.Data.Iterable:
		a.train, err = accelerate.PrepareStream(a.acc, data.StreamOf[row](train, nil), collate,
			accelerate.LoaderOptions{BatchSize: a.args.batchSize, DropLast: a.args.dropLast, Workers: 1})
	default:
		a.train, err = accelerate.PrepareLoader(a.acc, train, collate,
			accelerate.LoaderOptions{BatchSize: a.args.batchSize, Shuffle: a.args.shuffle,
				Seedable: a.args.shuffle && a.args.seedable, Seed: a.args.dataSeed, DropLast: a.args.dropLast,
				Workers: 1})
	}
	if valid := sets["eval"]; err == nil && valid != nil && valid.n > 0 {
		a.valid, err = accelerate.PrepareLoader(a.acc, valid, collate,
			accelerate.LoaderOptions{BatchSize: a.args.evalBatchSize, Workers: 1})
	}
	return err
}

// schedule plans the schedule and returns how it is moved.
func (a *accelerated) schedule() (stepper, error) {
	s, err := a.args.schedule.build()
	if err == errAdaptive { //nolint:errorlint // it is returned bare
		return func() error {
			// GreedyLR is no LRScheduler, so that Accelerate passes over it
			prepared := a.args.prepareSchedule && a.args.schedule.name != "greedy"
			if prepared && !a.acc.SyncGradients() && !a.args.freeSchedule {
				return nil
			}
			return errAdaptive
		}, nil
	}
	if err != nil {
		return nil, err
	}
	last := lr.StepLimit(s, a.total)
	if !a.args.prepareSchedule {
		return a.unprepared(s, last)
	}
	prepared, err := a.acc.PrepareSchedule(a.opt, s, a.total)
	if err != nil {
		return nil, err
	}
	return func() error {
		// nobody looks at its end then
		if last > 0 && a.args.splitBatches && a.acc.SyncGradients() && !a.acc.OptimizerStepWasSkipped() &&
			prepared.Moves() == last {
			return fmt.Errorf("the schedule is made for %d moves", last)
		}
		if err := prepared.Step(); err != nil {
			return err
		}
		if last > 0 && prepared.Moves() > last {
			return fmt.Errorf("the schedule is made for %d moves, and this is move %d", last, prepared.Moves())
		}
		return nil
	}, nil
}

// unprepared moves a schedule at every batch, as a scheduler that Accelerate knows nothing of.
func (a *accelerated) unprepared(s lr.Schedule, last int) (stepper, error) {
	if err := lr.Validate(s, a.args.learningRate, a.total); err != nil {
		return nil, err
	}
	rate := s.Plan(a.args.learningRate, a.total)
	var momentum lr.Rate
	if m, ok := s.(lr.MomentumSchedule); ok {
		momentum = m.PlanMomentum(a.total)
	}
	moves := -1
	step := func() error {
		if moves++; last > 0 && moves > last {
			return fmt.Errorf("the schedule is made for %d moves, and this is move %d", last, moves)
		}
		a.opt.SetRate(rate(moves))
		if momentum == nil {
			return nil
		}
		a.momentum = new(momentum(moves))
		return a.opt.Optimizer().(optim.MomentumSetter).SetMomentum(*a.momentum)
	}
	return step, step()
}

// resume loads a state and tells from its name where the run goes on.
func (a *accelerated) resume(micro int) (start, skip int, err error) {
	if err := a.acc.LoadState(filepath.Join(a.out, filepath.FromSlash(a.phase.Resume))); err != nil {
		return 0, 0, err
	}
	if momentum, ok := a.momenta[a.phase.Resume]; ok {
		if err := a.opt.Optimizer().(optim.MomentumSetter).SetMomentum(momentum); err != nil {
			return 0, 0, err
		}
	}
	name := filepath.Base(a.phase.Resume)
	if digits, ok := strings.CutPrefix(name, "epoch_"); ok {
		n, err := strconv.Atoi(digits)
		return n + 1, 0, err
	}
	if digits, ok := strings.CutPrefix(name, "step_"); ok {
		if micro, err = strconv.Atoi(digits); err != nil {
			return 0, 0, err
		}
	}
	if micro < 0 {
		return 0, 0, fmt.Errorf("resume is %q: the name does not tell how many batches were done, and resume_micro "+
			"does not either", a.phase.Resume)
	}
	if a.spec.Data.Iterable {
		return 0, 0, errNoLength
	}
	if a.train.Len() == 0 {
		return 0, 0, fmt.Errorf("the training set gives no batch, so none can be skipped")
	}
	return micro / a.train.Len(), micro % a.train.Len(), nil
}

func (a *accelerated) save(name string) error {
	if a.args.automaticNaming {
		path, err := a.acc.SaveState("")
		if err != nil {
			return err
		}
		if name, err = filepath.Rel(a.out, path); err != nil {
			return err
		}
		name = filepath.ToSlash(name)
	} else if _, err := a.acc.SaveState(filepath.Join(a.out, name)); err != nil {
		return err
	}
	if a.momentum != nil {
		a.momenta[name] = *a.momentum
	}
	a.rec.written = append(a.rec.written, name)
	return nil
}

func (a *accelerated) loop(ctx context.Context, start, skip int) (any, error) {
	for epoch := start; epoch < a.args.epochs; epoch++ {
		nn.SetTraining(a.model.module(), true)
		active, seen := a.train, 0
		if epoch == start && skip > 0 {
			active, seen = accelerate.SkipFirstBatches(a.train, skip), skip
		}
		if a.args.setEpoch {
			active.SetEpoch(epoch)
		}
		for b, err := range active.Batches(ctx) {
			if err != nil {
				return nil, err
			}
			seen++
			if err := a.acc.Accumulate(func() error { return a.batch(b, epoch, seen) }); err != nil {
				return nil, err
			}
			if a.args.saveEvery > 0 && a.micro%a.args.saveEvery == 0 {
				if err := a.save(fmt.Sprintf("step_%d", a.micro)); err != nil {
					return nil, err
				}
			}
			if stop := a.phase.StopAfterUpdate; stop != nil && a.acc.SyncGradients() && *stop == a.updates {
				a.rec.window = nil
				return trace.Of("killed_after_update", a.updates), nil
			}
			if a.done() {
				break
			}
		}
		if a.args.evaluate == "epoch" {
			if err := a.evaluate(ctx, epoch+1); err != nil {
				return nil, err
			}
		}
		if a.args.saveEpochs {
			if err := a.save(fmt.Sprintf("epoch_%d", epoch)); err != nil {
				return nil, err
			}
		}
		if a.done() {
			break
		}
	}
	return trace.Of("updates", a.updates, "scheduler_total", a.total), nil
}

func (a *accelerated) done() bool { return a.args.maxSteps > 0 && a.updates >= a.args.maxSteps }

// batch is one micro-batch: what stands inside accelerator.accumulate.
func (a *accelerated) batch(b batch, epoch, seen int) error {
	if err := takes(a.model, b); err != nil {
		return err
	}
	if !b.has("labels") {
		return fmt.Errorf("the training set has no labels")
	}
	var loss torch.Tensor
	a.acc.Autocast(func() { loss = forward(a.model, b, 0).loss })
	loss = loss.ToDType(torch.Float32)
	a.rec.micro(b.index, loss.DivScalar(float64(a.acc.AccumulationSteps())).Item())
	scaler, scale := a.acc.Scaler(), 0.0
	if scaler != nil {
		scale = scaler.GetScale()
	}
	a.acc.Backward(loss)
	a.micro++
	a.count.n += len(b.index)
	if err := applyInjections(a.args.inject, a.model, a.micro); err != nil {
		return err
	}
	norm, err := a.clip()
	if err != nil {
		return err
	}
	rates := a.opt.Rates()
	if err := a.opt.Step(); err != nil {
		return err
	}
	skipped := a.acc.OptimizerStepWasSkipped()
	if err := a.sched(); err != nil {
		return err
	}
	a.opt.ZeroGrad()
	if !a.acc.SyncGradients() {
		return nil
	}
	a.updates++
	more := trace.Of("lr_after", hexes(a.opt.Rates()...))
	if scaler != nil {
		more = more.With("scale", trace.Hex(scale), "scale_after", trace.Hex(scaler.GetScale()),
			"growth_tracker", scaler.State().GrowthTracker)
	}
	if a.args.counter {
		more = more.With("counter", a.count.n)
	}
	a.rec.update(a.updates, a.progress(epoch, seen), norm, rates, a.model, skipped, more)
	return nil
}

// progress is the epoch of an update; nothing where a pass has no length.
func (a *accelerated) progress(epoch, seen int) any {
	if a.spec.Data.Iterable {
		return nil
	}
	return float64(epoch) + float64(seen)/float64(a.train.Len())
}

// clip limits the gradients at the end of a window.
func (a *accelerated) clip() (norm *float64, err error) {
	if !a.acc.SyncGradients() {
		return nil, nil
	}
	if a.args.clipNorm != nil {
		total, err := a.acc.ClipGradNorm(nn.Params(a.model.module()), *a.args.clipNorm)
		if err != nil {
			return nil, err
		}
		norm = new(total.Item())
	}
	if a.args.clipValue != nil {
		err = a.acc.ClipGradValue(nn.Params(a.model.module()), *a.args.clipValue)
	}
	return norm, err
}

func (a *accelerated) evaluate(ctx context.Context, epoch int) error {
	if a.valid == nil {
		nn.SetTraining(a.model.module(), false)
		return fmt.Errorf("an evaluation is asked for, but there is no evaluation set")
	}
	return evaluate(ctx, a.spec, a.rec, a.model, a.valid.Batches(ctx), a.acc.Autocast, "step", a.updates,
		"epoch", epoch)
}
