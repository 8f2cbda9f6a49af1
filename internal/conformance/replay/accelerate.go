package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// accelerateArgs are the arguments of a training loop with Hugging Face Accelerate.
type accelerateArgs struct {
	loopArgs
	AccumulationPlugin         *spec.Object
	PrepareScheduler           bool
	StepSchedulerWithOptimizer bool
	SplitBatches               bool
	EvenBatches                bool // no effect in one process
	UseSeedableSampler         bool
	DataSeed                   *uint64
	SetEpoch                   bool
	MaxTrainSteps              int
	AutomaticNaming            bool
	TotalLimit                 int
	RegisterCounter            bool
	Scaler                     *spec.Object

	accumulation accelerate.Accumulation
	saveEvery    int  // in batches
	saveEpochs   bool // after each epoch
	gradScaler   *amp.GradScalerOptions
	raw          bool // the course's loop without Accelerate
}

func readAccelerateArgs(o *spec.Object, raw bool) accelerateArgs {
	a := accelerateArgs{loopArgs: readLoopArgs(o), PrepareScheduler: true, StepSchedulerWithOptimizer: true, raw: raw}
	a.accumulation.Steps = a.GradientAccumulationSteps
	if raw {
		spec.Check(o.Done())
		if a.MixedPrecision == "fp16" {
			spec.Refusef("args.mixed_precision is fp16, which the course's loop does not have")
		}
		return a
	}
	switch v := o.Any("checkpointing").(type) {
	case nil:
	case json.Number:
		a.saveEvery = o.Int("checkpointing", 0)
	default:
		if a.saveEpochs = v == "epoch"; !a.saveEpochs {
			o.Fail("checkpointing", `a number of batches or "epoch"`)
		}
	}
	o.Fill(&a)
	if p := a.AccumulationPlugin; p != nil && len(p.Names()) > 0 {
		a.accumulation = accelerate.Accumulation{Steps: p.Int("num_steps", 1),
			CarryOver: !p.Bool("sync_with_dataloader", true)}
		p.Bool("sync_each_batch", false) // no effect in one process
		p.Bool("adjust_scheduler", true) // no effect in Accelerate 1.15
		spec.Check(p.Done())
	}
	if a.Scaler != nil {
		a.gradScaler = &amp.GradScalerOptions{}
		a.Scaler.Fill(a.gradScaler, "enabled:!Disabled")
		spec.Check(a.Scaler.Done())
	}
	spec.Check(o.Done())
	return a
}

// counter is the recording's own object in checkpoints: the number of samples so far.
type counter struct{ N int }

func (c *counter) MarshalState() ([]byte, error)    { return json.Marshal(c) }
func (c *counter) UnmarshalState(text []byte) error { return json.Unmarshal(text, c) }

// accelerated runs the loop of one phase.
type accelerated struct {
	*session
	phase spec.Phase
	args  accelerateArgs

	acc   *accelerate.Accelerator
	model *model
	opt   *accelerate.Optimizer
	move  func() // steps the schedule, prepared or not
	train *accelerate.Loader[row, batch]
	valid *accelerate.Loader[row, batch]
	count counter
	total int // length that the schedule is planned for

	// A schedule that is not prepared starts again at a resume, while the optimizer keeps the
	// momentum that it had.
	momentum *float64
	momenta  map[string]float64 // by the name of the state that was saved with it

	updates, micro int
}

// replayAccelerate replays the loop of the Hugging Face course, with and without Accelerate: the
// raw loop is the same as the other with none of Accelerate's features.
func replayAccelerate(ctx context.Context, c *session) *Run {
	noMore(c.spec)
	raw := c.spec.Peer == "course"
	var result any
	var last *accelerated
	var failed error
	momenta := map[string]float64{}
	phases := c.spec.Phases
	if raw { // a raw loop has no phases
		phases = []spec.Phase{{Do: "train", Options: spec.NewObject("", nil)}}
	}
	for _, phase := range phases {
		if phase.Do != "train" {
			spec.Refusef("a phase that does %q with the trainer accelerate", phase.Do)
		}
		last = &accelerated{session: c, phase: phase, momenta: momenta}
		if failed = refusal(func() { result = last.run(ctx, raw) }); failed != nil {
			break
		}
		c.recorder.phase(trace.Of("do", "train"))
	}
	var optimizer optim.Optimizer
	if last.opt != nil {
		optimizer = last.opt.Optimizer()
	}
	checkpoints := trace.Of("written", c.written, "after", c.saved("checkpoints/*", "epoch_*", "step_*"))
	return &Run{Trace: c.trace(failed, "checkpoints", checkpoints, "train_output", result),
		final: finalTensors(last.model, optimizer)}
}

func (a *accelerated) run(ctx context.Context, raw bool) any {
	a.where = "setup"
	a.args = readAccelerateArgs(a.spec.PhaseArgs(a.phase), raw)
	options := a.phase.Options
	resumeUpdate, resumeMicro, ignoreSkip := options.Int("resume_update", 0), options.Int("resume_micro", -1),
		options.Bool("ignore_data_skip", false)
	spec.Check(options.Done())
	if a.phase.SameTrainer {
		spec.Refusef("same_trainer with the trainer accelerate")
	}
	a.setup()
	a.where = "train"
	start, skip := 0, 0
	if a.phase.ResumeNewest {
		spec.Failf("resume is true, which names no folder")
	} else if a.phase.Resume != "" {
		if start, skip = a.resume(resumeMicro); ignoreSkip {
			skip = 0
		}
	}
	a.updates = resumeUpdate
	if length := a.train.Len(); length >= 0 {
		a.micro = start*length + skip
	}
	return a.loop(ctx, start, skip)
}

func (a *accelerated) setup() {
	precision := amp.FP32 // also for fp16, which Accelerate ignores on a CPU
	if a.args.MixedPrecision == "bf16" {
		precision = amp.BF16
	}
	options := accelerate.Options{Device: a.device, FusedHidesSkips: true, MixedPrecision: precision,
		Accumulation: a.args.accumulation,
		FreeSchedule: !a.args.StepSchedulerWithOptimizer,
		Project:      accelerate.Project{Dir: a.dir, AutomaticNaming: a.args.AutomaticNaming}}
	if a.args.AutomaticNaming { // no effect without it, and refused here
		options.Project.TotalLimit = a.args.TotalLimit
	}
	if a.args.gradScaler != nil {
		spec.Check(a.args.gradScaler.Validate())
		options.Scaler = amp.NewGradScaler(*a.args.gradScaler)
	}
	a.acc = spec.Must(accelerate.New(options))
	a.model = build(a.spec)
	if a.args.Seed != nil {
		spec.Check(accelerate.SetSeed(*a.args.Seed))
	}
	a.loaders()
	optimizer := a.args.buildOptimizer(a.model)
	spec.Check(a.acc.PrepareModel(a.model.module))
	a.opt = a.acc.PrepareOptimizer(optimizer, a.args.LearningRate)
	if a.total = a.args.NumTrainingSteps; a.total == 0 {
		if a.spec.Data.Iterable {
			spec.Check(errNoLength)
		}
		a.total = a.args.NumEpochs * a.train.Len()
	}
	a.move = a.schedule()
	if a.args.RegisterCounter {
		a.acc.RegisterForCheckpointing(&a.count)
	}
	a.start(a.model)
	a.paramGroups(optimizer)
}

func (a *accelerated) loaders() {
	train := a.split("train")
	o := accelerate.LoaderOptions{BatchSize: a.args.BatchSize, DropLast: a.args.DropLast, Workers: 1}
	if a.spec.Data.Iterable {
		a.train = spec.Must(accelerate.PrepareStream(a.acc, data.StreamOf[row](train, nil), collate, o))
	} else {
		o.Shuffle, o.Seed = a.args.Shuffle, a.args.DataSeed
		o.Seedable = a.args.Shuffle && a.args.UseSeedableSampler
		a.train = spec.Must(accelerate.PrepareLoader(a.acc, train, collate, o))
	}
	if valid := a.sets["eval"]; valid != nil && valid.n > 0 {
		a.valid = spec.Must(accelerate.PrepareLoader(a.acc, valid, collate,
			accelerate.LoaderOptions{BatchSize: a.args.EvalBatchSize, Workers: 1}))
	}
}

// schedule plans the schedule and returns a function that steps it.
func (a *accelerated) schedule() func() {
	name, warmup := a.args.LRScheduler, a.args.NumWarmupSteps
	if a.args.TorchScheduler != "" {
		name, warmup = a.args.TorchScheduler, 0
	}
	s, err := schedule(name, a.args.SchedulerKwargs, warmup)
	if errors.Is(err, errAdaptive) {
		// GreedyLR is not an LRScheduler, so Accelerate does not prepare it.
		prepared := a.args.PrepareScheduler && name != "greedy" || a.args.raw
		return func() {
			if !prepared || a.acc.SyncGradients() || !a.args.StepSchedulerWithOptimizer {
				spec.Check(errAdaptive)
			}
		}
	}
	spec.Check(err)
	last := lr.StepLimit(s, a.total)
	if !a.args.PrepareScheduler {
		return a.unprepared(s, last)
	}
	prepared := spec.Must(a.acc.PrepareSchedule(a.opt, s, a.total))
	return func() {
		// the schedule's end is not checked with split_batches
		if last > 0 && a.args.SplitBatches && a.acc.SyncGradients() && !a.acc.OptimizerStepWasSkipped() &&
			prepared.Moves() == last {
			spec.Failf("the schedule is made for %d moves", last)
		}
		spec.Check(prepared.Step())
		checkMoves(prepared.Moves(), last)
	}
}

func checkMoves(moves, last int) {
	if last > 0 && moves > last {
		spec.Failf("the schedule is made for %d moves, and this is move %d", last, moves)
	}
}

// unprepared steps a schedule at every batch, like a scheduler that was not passed to Accelerate.
func (a *accelerated) unprepared(s lr.Schedule, last int) func() {
	spec.Check(lr.Validate(s, a.args.LearningRate, a.total))
	rate, momentum := s.Plan(a.args.LearningRate, a.total), lr.PlanMomentum(s, a.total)
	moves := -1
	step := func() {
		moves++
		checkMoves(moves, last)
		a.opt.SetRate(rate(moves))
		if momentum != nil {
			a.momentum = new(momentum(moves))
			a.setMomentum(*a.momentum)
		}
	}
	step()
	return step
}

// setMomentum sets the optimizer's momentum; all optimizers of package optim are MomentumSetters.
func (a *accelerated) setMomentum(momentum float64) {
	spec.Check(a.opt.Optimizer().(optim.MomentumSetter).SetMomentum(momentum))
}

// resume loads a state, and derives from its name where the run resumes.
func (a *accelerated) resume(micro int) (start, skip int) {
	spec.Check(a.acc.LoadState(filepath.Join(a.dir, filepath.FromSlash(a.phase.Resume))))
	if momentum, ok := a.momenta[a.phase.Resume]; ok {
		a.setMomentum(momentum)
	}
	name := filepath.Base(a.phase.Resume)
	if digits, ok := strings.CutPrefix(name, "epoch_"); ok {
		return spec.Must(strconv.Atoi(digits)) + 1, 0
	}
	if digits, ok := strings.CutPrefix(name, "step_"); ok {
		micro = spec.Must(strconv.Atoi(digits))
	}
	switch {
	case micro < 0:
		spec.Failf("resume is %q: the name does not tell how many batches were done, and resume_micro does not either",
			a.phase.Resume)
	case a.spec.Data.Iterable:
		spec.Check(errNoLength)
	case a.train.Len() == 0:
		spec.Failf("the training set gives no batch, so none can be skipped")
	}
	return micro / a.train.Len(), micro % a.train.Len()
}

func (a *accelerated) save(name string) {
	if a.args.AutomaticNaming {
		name = filepath.ToSlash(spec.Must(filepath.Rel(a.dir, spec.Must(a.acc.SaveState("")))))
	} else {
		spec.Must(a.acc.SaveState(filepath.Join(a.dir, name)))
	}
	if a.momentum != nil {
		a.momenta[name] = *a.momentum
	}
	a.written = append(a.written, name)
}

func (a *accelerated) loop(ctx context.Context, start, skip int) any {
	for epoch := start; epoch < a.args.NumEpochs; epoch++ {
		nn.SetTraining(a.model.module, true)
		if a.epoch(ctx, epoch, skip) {
			a.window = nil
			return trace.Of("killed_after_update", a.updates)
		}
		skip = 0
		if a.args.Evaluate == "epoch" {
			a.evaluation(ctx, epoch+1)
		}
		if a.args.saveEpochs {
			a.save(fmt.Sprintf("epoch_%d", epoch))
		}
		if a.done() {
			break
		}
	}
	if a.args.raw {
		if a.args.Evaluate == "end" {
			a.evaluation(ctx, a.args.NumEpochs)
		}
		return nil
	}
	return trace.Of("updates", a.updates, "scheduler_total", a.total)
}

// epoch trains one epoch, or the rest of it after skip batches. It reports whether the process
// ended inside it.
func (a *accelerated) epoch(ctx context.Context, epoch, skip int) (killed bool) {
	active, seen := a.train, skip
	if skip > 0 {
		active = accelerate.SkipFirstBatches(a.train, skip)
	}
	if a.args.SetEpoch {
		active.SetEpoch(epoch)
	}
	for b, err := range active.Batches(ctx) {
		spec.Check(err)
		seen++
		spec.Check(a.acc.Accumulate(func() error { return recorded.Try(func() { a.batch(b, epoch, seen) }) }))
		if a.args.saveEvery > 0 && a.micro%a.args.saveEvery == 0 {
			a.save(fmt.Sprintf("step_%d", a.micro))
		}
		if stop := a.phase.StopAfterUpdate; stop != nil && a.acc.SyncGradients() && *stop == a.updates {
			return true
		}
		if a.done() {
			break
		}
	}
	return false
}

func (a *accelerated) done() bool {
	return a.args.MaxTrainSteps > 0 && a.updates >= a.args.MaxTrainSteps
}

// batch trains on one micro-batch: the body of accelerator.accumulate.
func (a *accelerated) batch(b batch, epoch, seen int) {
	takes(a.model, b)
	if !b.has("labels") {
		spec.Failf("the training set has no labels")
	}
	var loss torch.Tensor
	a.acc.Autocast(func() { loss = a.model.forward(b, 0).loss })
	loss = loss.ToDType(torch.Float32)
	a.recorder.micro(b.index, loss.DivScalar(float64(a.acc.AccumulationSteps())).Item())
	scaler, scale := a.acc.Scaler(), 0.0
	if scaler != nil {
		scale = scaler.GetScale()
	}
	a.acc.Backward(loss)
	a.micro++
	a.count.N += len(b.index)
	applyInjections(a.args.inject, a.model, a.micro)
	if a.args.raw && a.spec.Data.Iterable && !a.acc.SyncGradients() {
		spec.Check(errNoLength) // the raw loop needs to know whether this is the last batch
	}
	norm := a.clip()
	rates := a.opt.Rates()
	spec.Check(a.opt.Step())
	skipped := a.acc.OptimizerStepWasSkipped()
	a.move()
	a.opt.ZeroGrad()
	if !a.acc.SyncGradients() {
		return
	}
	a.updates++
	more := trace.Object{}
	if !a.args.raw {
		more["lr_after"] = hexes(a.opt.Rates()...)
	}
	if scaler != nil {
		more.With("scale", trace.Hex(scale), "scale_after", trace.Hex(scaler.GetScale()),
			"growth_tracker", scaler.State().GrowthTracker)
	}
	if a.args.RegisterCounter {
		more["counter"] = a.count.N
	}
	a.update(a.updates, a.progress(epoch, seen), norm, rates, a.model, skipped, more)
}

// progress returns the epoch of an update, or nil if a pass has no length.
func (a *accelerated) progress(epoch, seen int) any {
	if !a.spec.Data.Iterable {
		return float64(epoch) + float64(seen)/float64(a.train.Len())
	}
	if a.args.raw {
		spec.Check(errNoLength)
	}
	return nil
}

// clip clips the gradients at the end of an accumulation window.
func (a *accelerated) clip() (norm any) {
	if !a.acc.SyncGradients() {
		return nil
	}
	params := nn.Params(a.model.module)
	if a.args.ClipGradNorm != nil {
		norm = trace.Hex(spec.Must(a.acc.ClipGradNorm(params, *a.args.ClipGradNorm)).Item())
	}
	if a.args.ClipGradValue != nil {
		spec.Check(a.acc.ClipGradValue(params, *a.args.ClipGradValue))
	}
	return norm
}
