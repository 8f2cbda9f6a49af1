package pymarlin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// SingleProcess trains in one process: the backend "sp". The zero value is ready for New.
//
// A window of GradientAccumulation batches ends with an update. As in PyMarlin, windows continue
// past the end of an epoch: with 10 batches and windows of 4, the last two batches are the first
// half of the next epoch's first window. Batches of an unfinished window at the end of the run
// train nothing.
type SingleProcess[B any] struct {
	// ClipGradients, if set, replaces [SingleProcess.DefaultClipGradients]: _clip_gradients.
	ClipGradients func() error
	// Optimize, if set, replaces [SingleProcess.DefaultOptimize]: optimize.
	Optimize func() error

	args      BackendArguments[B]
	scaler    *amp.GradScaler // disabled here; SingleProcessAmp enables it
	precision amp.Precision   // of forward passes; FP32 here
	batches   int
	updates   int
	norm      torch.Tensor // gradient norm at the last clipping

	distributed bool       // a DDPTrainerBackend uses this backend
	order       int        // which epoch's order of samples comes next, with several processes
	parallel    *ddp.Model // the model, averaged over the processes; there may be only one process

	// Whether the module has hooks for the outputs of a window, or of an epoch.
	collectsWindow, collects bool

	epoch, window collector // outputs of the current epoch and window
}

// Init takes over what the trainer has created.
func (b *SingleProcess[B]) Init(args BackendArguments[B]) error {
	if args.GradientAccumulation < 1 {
		return argumentf("BackendArguments.GradientAccumulation is %d; want at least 1", args.GradientAccumulation)
	}
	if world := args.Group.World(); world > 1 && !b.distributed {
		return argumentf("this backend trains in one process, and Options.Group has %d; take the backend ddp, ddp-amp, "+
			"or a DDPTrainerBackend with this one in it", world)
	}
	for _, o := range args.Optimizers {
		if _, ok := o.optimizer.(optim.BackwardUpdater); ok && args.Group.World() > 1 {
			return argumentf("%T updates each parameter during the backward pass, before its gradient is averaged over "+
				"%d processes; want another optimizer, or one process", o.optimizer, args.Group.World())
		}
	}
	var err error
	if b.parallel, err = ddp.New(context.Background(), args.Group, modelOf(args.Module),
		ddp.Options{FindUnusedParameters: true}); err != nil {
		return err
	}
	b.args = args
	if b.scaler == nil {
		b.scaler = amp.NewGradScaler(amp.GradScalerOptions{Disabled: true})
	}
	_, b.collectsWindow = args.Module.(TrainStepEndHook)
	_, b.collects = args.Module.(TrainEpochEndHook)
	if b.ClipGradients == nil {
		b.ClipGradients = b.DefaultClipGradients
	}
	if b.Optimize == nil {
		b.Optimize = b.DefaultOptimize
	}
	return nil
}

// TrainDL runs the batches of an epoch and returns their collected outputs. The outputs of an
// epoch in which the run is interrupted are kept for the session that continues it.
func (b *SingleProcess[B]) TrainDL(_ context.Context, loader Dataloader[B], train func(Dataloader[B]) error) (Collected,
	error) {
	defer b.window.drop() // a window that ends in the next epoch shows only the outputs from that epoch
	if err := train(loader); err != nil {
		if !errors.As(err, new(*trainer.InterruptedError)) {
			b.epoch.drop()
		}
		return Collected{}, err
	}
	if !b.collects {
		return Collected{}, nil
	}
	return b.gather(b.epoch.take(), nil)
}

// TrainBatch runs one forward and backward pass.
func (b *SingleProcess[B]) TrainBatch(batch B) error {
	if err := loops.Scoped(func() error { return b.batch(batch) }); err != nil {
		return fmt.Errorf("batch %d: %w", b.batches+1, err)
	}
	b.batches++
	return nil
}

func (b *SingleProcess[B]) batch(batch B) error {
	var outputs Outputs
	last := (b.batches+1)%b.args.GradientAccumulation == 0 // gradients are averaged after it
	err := b.parallel.BeforeForward(context.Background(), last)
	if err != nil {
		return err
	}
	amp.Autocast(b.args.Device, b.precision, func() {
		outputs, err = b.args.Module.TrainStep(b.updates+1, batch, b.args.Device)
	})
	if err != nil {
		return err
	}
	if len(outputs.Tensors) == 0 || !outputs.Tensors[0].Defined() {
		return errors.New("TrainStep returned no loss; want it as the first tensor of the outputs: " +
			"pymarlin.Tensors(loss)")
	}
	loss := outputs.Tensors[0].DivScalar(float64(b.args.GradientAccumulation))
	scaled := b.scaler.Scale(loss)
	if err := b.parallel.Backward(context.Background(), scaled.Backward, scaled); err != nil {
		return err
	}
	err = call(b.args.Module, func(h BackwardEndHook) error { return h.OnEndBackward(b.updates, loss) })
	if err != nil {
		return err
	}
	if b.collects {
		b.epoch.add(outputs)
	}
	if !b.collectsWindow {
		outputs = Tensors(outputs.Tensors[0]) // only the loss is needed for the window
	}
	b.window.add(outputs)
	return nil
}

// ProcessGlobalStep makes an update: it adds the loss to the stats, clips, steps optimizers and
// schedulers, calls the module's hook, and logs the stats that are due.
func (b *SingleProcess[B]) ProcessGlobalStep() error {
	if err := loops.Scoped(b.globalStep); err != nil {
		return fmt.Errorf("update %d: %w", b.updates+1, err)
	}
	return nil
}

func (b *SingleProcess[B]) globalStep() error {
	outputs := b.window.take()
	defer outputs.free()
	loss := outputs.Tensors[0].Mean(torch.DefaultDType)
	if b.distributed && !b.args.Exact { // PyMarlin logs the loss of the main process
		if err := ddp.AllReduce(context.Background(), b.args.Group, dist.Mean, loss); err != nil {
			return err
		}
	}
	b.args.Stats.UpdateTensor("loss", loss, true)
	if err := b.ClipGradients(); err != nil {
		return err
	}
	if err := b.Optimize(); err != nil {
		return err
	}
	b.updates++
	err := call(b.args.Module, func(h TrainStepEndHook) error { return h.OnEndTrainStep(b.updates, outputs) })
	if err != nil {
		return err
	}
	return b.args.Stats.LogStats(b.updates, false)
}

// DefaultClipGradients unscales all gradients and limits them by a single norm.
func (b *SingleProcess[B]) DefaultClipGradients() error {
	for _, o := range b.args.Optimizers {
		if err := b.scaler.Unscale_(o.optimizer); err != nil {
			return err
		}
	}
	if !b.args.ClipGrads {
		return nil
	}
	b.norm.Free()
	b.norm = optim.ClipGradNorm(b.args.Params, b.args.MaxGradNorm).Keep()
	return nil
}

// GradNorm returns the norm of the last update's gradients before clipping, undefined without
// clipping.
func (b *SingleProcess[B]) GradNorm() torch.Tensor { return b.norm }

// DefaultOptimize steps each optimizer and removes its gradients, then steps all schedulers.
func (b *SingleProcess[B]) DefaultOptimize() error {
	for _, o := range b.args.Optimizers {
		if err := o.step(func() (bool, error) { return b.scaler.Step(o.optimizer, o.rate) }); err != nil {
			return err
		}
		o.ZeroGrad()
	}
	if err := b.scaler.Update(); err != nil {
		return err
	}
	for _, s := range b.args.Schedulers {
		if err := s.Step(); err != nil {
			return err
		}
	}
	return nil
}

// ValidateDL runs step over the batches of a set and returns the outputs of all processes.
func (b *SingleProcess[B]) ValidateDL(ctx context.Context, loader Dataloader[B], step StepFunc[B]) (Collected, error) {
	// Broadcast the buffers of the main process.
	if err := b.parallel.BeforeForward(context.Background(), false); err != nil {
		return Collected{}, err
	}
	return b.gather(b.validate(ctx, loader, step))
}

func (b *SingleProcess[B]) validate(ctx context.Context, loader Dataloader[B], step StepFunc[B]) (Collected, error) {
	var all collector
	defer all.drop()
	progress := newProgress(b.args.DisableTqdm, "validation", loader.Len())
	defer progress.End()
	seen := 0
	for batch, err := range loader.Batches(ctx) {
		if err != nil {
			return Collected{}, err
		}
		if b.args.MaxValStepsPerEpoch > 0 && seen >= b.args.MaxValStepsPerEpoch {
			break
		}
		err = loops.Scoped(func() (err error) {
			var outputs Outputs
			torch.NoGrad(func() {
				amp.Autocast(b.args.Device, b.precision, func() {
					outputs, err = step(b.updates, batch, b.args.Device)
				})
			})
			if err == nil {
				all.add(outputs)
			}
			return err
		})
		if err != nil {
			return Collected{}, fmt.Errorf("batch %d: %w", seen+1, err)
		}
		seen++
		progress.Add()
	}
	if err := ctx.Err(); err != nil {
		return Collected{}, context.Cause(ctx)
	}
	return all.take(), nil
}

// BatchesCompleted counts the batches of all runs.
func (b *SingleProcess[B]) BatchesCompleted() int { return b.batches }

// GlobalStepsCompleted counts the updates of all runs.
func (b *SingleProcess[B]) GlobalStepsCompleted() int { return b.updates }

// TrainSampler returns a [RandomSampler], or a [DistributedSampler] for a [DDPTrainerBackend].
func (b *SingleProcess[B]) TrainSampler() Sampler {
	if !b.distributed {
		return RandomSampler{}
	}
	return DistributedSampler{Rank: b.args.Group.Rank(), WorldSize: b.args.Group.World(), Epoch: b.order}
}

// ValSampler returns a [SequentialSampler] or, for a [DDPTrainerBackend], a
// [SequentialDistributedSampler], which visits each sample once. With [Options].Exact it is padded
// as in PyMarlin.
func (b *SingleProcess[B]) ValSampler() Sampler {
	if !b.distributed {
		return SequentialSampler{}
	}
	return SequentialDistributedSampler{Rank: b.args.Group.Rank(), WorldSize: b.args.Group.World(),
		Padded: b.args.Exact}
}

// The keys of an unfinished window in a state.
const (
	gradientsKey = "gradients"
	windowKey    = "gradient_accumulation" // the number of batches per window; missing in states of earlier versions
)

// GetState returns the two counts and, unless inexact resumption is allowed, the gradients of an
// unfinished window and the outputs of an unfinished epoch, which differ between processes.
func (b *SingleProcess[B]) GetState() (State, error) {
	s, own := State{"global_step_completed": b.updates, "batches_completed": b.batches}, State{}
	if b.args.InexactResume {
		return s, nil
	}
	if len(b.epoch.tensors) > 0 { // the run was interrupted inside an epoch
		own[outputsKey] = b.epoch.state()
	}
	if b.batches%b.args.GradientAccumulation != 0 {
		gradients := State{}
		for _, p := range b.args.Params {
			if g := p.Tensor.Grad(); g.Defined() {
				gradients[p.Name] = g
			}
		}
		own[gradientsKey], own[windowKey] = gradients, b.args.GradientAccumulation
	}
	return s, addOwn(b.args.Group, s, own, nil)
}

// UpdateState restores what GetState returned.
func (b *SingleProcess[B]) UpdateState(s State) error {
	updates, ok := s["global_step_completed"].(int)
	batches, ok2 := s["batches_completed"].(int)
	if !ok || !ok2 || updates < 0 || batches < 0 {
		return fmt.Errorf("want the counts global_step_completed and batches_completed, found %v and %v",
			s["global_step_completed"], s["batches_completed"])
	}
	b.updates, b.batches = updates, batches
	if b.args.InexactResume {
		return nil
	}
	own, err := ownOf(b.args.Group, s)
	if err != nil {
		return err
	}
	if gradients, ok := own[gradientsKey].(State); ok {
		// The accumulated gradients were divided by the length of their window.
		if n, ok := own[windowKey].(int); ok && n != b.args.GradientAccumulation {
			return fmt.Errorf("%w: a window of %d batches was open when it was written, and windows have %d batches now: "+
				"load it with the TrainBatchSize and GPUBatchSizeLimit of then, or set Options.InexactResume to continue "+
				"without the gradients of that window", trainer.ErrOtherRun, n, b.args.GradientAccumulation)
		}
		if err := b.takeGradients(gradients); err != nil {
			return err
		}
	}
	outputs, err := readCollected(own[outputsKey])
	if b.collects {
		b.epoch.put(outputs)
	} else {
		outputs.free()
	}
	return err
}

// takeGradients restores the gradients of an unfinished window.
func (b *SingleProcess[B]) takeGradients(saved State) error {
	gradients, err := torchsave.Named(saved)
	if err != nil {
		return fmt.Errorf("the gradients: %w", err)
	}
	params := map[string]torch.Tensor{}
	for _, p := range b.args.Params {
		params[p.Name] = p.Tensor
	}
	for _, g := range gradients {
		p, ok := params[g.Name]
		if !ok {
			return fmt.Errorf("there is a gradient of %s, which is no parameter of the model", g.Name)
		}
		if !slices.Equal(g.Tensor.Shape(), p.Shape()) {
			return fmt.Errorf("the gradient of %s has shape %v, the parameter %v", g.Name, g.Tensor.Shape(), p.Shape())
		}
	}
	for _, g := range gradients {
		p := params[g.Name]
		p.SetGrad(g.Tensor.Clone().ToDevice(p.Device()).Keep())
	}
	return nil
}

// SingleProcessAmp trains in one process in mixed precision: the backend "sp-amp". Forward passes
// run under autocast. With FP16 the loss is scaled, starting with 4096, and an update whose
// gradients overflow is skipped, although the schedulers are stepped.
type SingleProcessAmp[B any] struct {
	SingleProcess[B]

	// Precision is FP16, which needs a GPU, or BF16, which scales nothing. "sp-amp" means FP16; it
	// is refused on a CPU, where PyMarlin silently continues in float32.
	Precision amp.Precision
}

// Init takes over what the trainer has created.
func (b *SingleProcessAmp[B]) Init(args BackendArguments[B]) error {
	switch {
	case b.Precision != amp.FP16 && b.Precision != amp.BF16:
		return argumentf("SingleProcessAmp.Precision is %s; want amp.FP16 or amp.BF16, or the backend sp", b.Precision)
	case b.Precision == amp.FP16 && !args.Device.IsCUDA():
		return argumentf("the backend sp-amp computes in float16, which needs a GPU, and the device is %s; for "+
			"bfloat16 on the CPU set Options.Backend to &SingleProcessAmp{Precision: amp.BF16}", args.Device)
	}
	b.precision = b.Precision
	if b.Precision == amp.FP16 {
		b.scaler = amp.NewGradScaler(amp.GradScalerOptions{InitScale: 4096})
	}
	return b.SingleProcess.Init(args)
}

// GetState includes the scaler, which PyMarlin forgets.
func (b *SingleProcessAmp[B]) GetState() (State, error) {
	s, err := b.SingleProcess.GetState()
	if err == nil && b.scaler.Enabled() {
		s["scaler"], err = torchsave.FromStruct(b.scaler.State())
	}
	return s, err
}

// UpdateState restores what GetState returned; if the state has no scaler, the scale starts from
// its initial value.
func (b *SingleProcessAmp[B]) UpdateState(s State) error {
	if saved, ok := s["scaler"].(State); ok {
		var state amp.GradScalerState
		if err := torchsave.ToStruct(saved, &state); err != nil {
			return fmt.Errorf("want a state_dict() of torch.amp.GradScaler, found %v: %w", saved, err)
		}
		if err := b.scaler.LoadState(state); err != nil {
			return err
		}
	}
	return b.SingleProcess.UpdateState(s)
}

// setTraining corresponds to module.train() and module.eval().
func setTraining(m any, on bool) { nn.SetTraining(modelOf(m), on) }
