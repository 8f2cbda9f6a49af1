package pymarlin

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// SingleProcess trains in one process: the backend "sp". The zero value is ready for New.
//
// A window of GradientAccumulation batches ends in an update. Windows run over the end of an epoch,
// as in PyMarlin: of 10 batches in windows of 4, the last two are the first half of the next
// epoch's first window. What is left at the end of the run trains nothing.
type SingleProcess[B any] struct {
	// ClipGradients, where it is set, takes the place of [SingleProcess.DefaultClipGradients]:
	// _clip_gradients.
	ClipGradients func() error
	// Optimize, where it is set, takes the place of [SingleProcess.DefaultOptimize]: optimize.
	Optimize func() error

	args      BackendArguments[B]
	scaler    *amp.GradScaler // nil: none
	precision amp.Precision   // FP32 here; of forward passes
	batches   int
	updates   int
	norm      torch.Tensor // of the last clipping

	onBackward func(globalStep int, loss torch.Tensor) error
	onUpdate   func(globalStep int, outputs Collected) error
	collects   bool // the module has a hook for the outputs of an epoch

	epoch, window collector // of the current ones
}

var _ TrainerBackend[int] = (*SingleProcess[int])(nil)

// Init takes what the trainer has made.
func (b *SingleProcess[B]) Init(args BackendArguments[B]) error {
	if args.GradientAccumulation < 1 {
		return argumentf("BackendArguments.GradientAccumulation is %d; want at least 1", args.GradientAccumulation)
	}
	b.args = args
	b.onBackward = func(int, torch.Tensor) error { return nil }
	if h, ok := args.Module.(BackwardEndHook); ok {
		b.onBackward = h.OnEndBackward
	}
	if h, ok := args.Module.(TrainStepEndHook); ok {
		b.onUpdate = h.OnEndTrainStep
	}
	_, b.collects = args.Module.(TrainEpochEndHook)
	if b.ClipGradients == nil {
		b.ClipGradients = b.DefaultClipGradients
	}
	if b.Optimize == nil {
		b.Optimize = b.DefaultOptimize
	}
	return nil
}

// TrainDL runs the batches of an epoch and returns what has been gathered of their outputs. That of
// an epoch in which the run is interrupted stays for the session that continues it.
func (b *SingleProcess[B]) TrainDL(_ context.Context, loader Dataloader[B], train func(Dataloader[B]) error) (Collected,
	error) {
	defer b.window.drop() // a window that ends in the next epoch shows the outputs of that one only
	if err := train(loader); err != nil {
		if !errors.As(err, new(*trainer.InterruptedError)) {
			b.epoch.drop()
		}
		return Collected{}, err
	}
	return b.epoch.take(), nil
}

// TrainBatch is one forward and backward pass.
func (b *SingleProcess[B]) TrainBatch(batch B) error {
	if err := scoped(func() error { return b.batch(batch) }); err != nil {
		return fmt.Errorf("batch %d: %w", b.batches+1, err)
	}
	b.batches++
	return nil
}

func (b *SingleProcess[B]) batch(batch B) error {
	var outputs Outputs
	var err error
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
	if b.scaler != nil {
		b.scaler.Scale(loss).Backward()
	} else {
		loss.Backward()
	}
	if err := b.onBackward(b.updates, loss); err != nil {
		return err
	}
	if b.collects {
		b.epoch.add(outputs)
	}
	if b.onUpdate == nil {
		outputs = Tensors(outputs.Tensors[0]) // the loss is all that is needed of the window
	}
	b.window.add(outputs)
	return nil
}

// ProcessGlobalStep is an update: the loss among the stats, clipping, optimizers and schedulers,
// the module's hook, and the stats that are due.
func (b *SingleProcess[B]) ProcessGlobalStep() error {
	if err := scoped(b.globalStep); err != nil {
		return fmt.Errorf("update %d: %w", b.updates+1, err)
	}
	return nil
}

func (b *SingleProcess[B]) globalStep() error {
	outputs := b.window.take()
	defer outputs.free()
	b.args.Stats.UpdateTensor("loss", outputs.Tensors[0].Mean(torch.DefaultDType), true)
	if err := b.ClipGradients(); err != nil {
		return err
	}
	if err := b.Optimize(); err != nil {
		return err
	}
	b.updates++
	if b.onUpdate != nil {
		if err := b.onUpdate(b.updates, outputs); err != nil {
			return err
		}
	}
	return b.args.Stats.LogStats(b.updates, false)
}

// DefaultClipGradients limits the gradients of all parameters by one norm, after the scale has been
// taken off them.
func (b *SingleProcess[B]) DefaultClipGradients() error {
	if b.scaler != nil {
		for _, o := range b.args.Optimizers {
			if err := b.scaler.Unscale_(o.optimizer); err != nil {
				return err
			}
		}
	}
	if !b.args.ClipGrads {
		return nil
	}
	b.norm.Free()
	b.norm = optim.ClipGradNorm(b.args.Params, b.args.MaxGradNorm).Keep()
	return nil
}

// GradNorm is the norm that the gradients of the last update had before clipping, undefined where
// nothing is clipped.
func (b *SingleProcess[B]) GradNorm() torch.Tensor { return b.norm }

// DefaultOptimize steps each optimizer and removes its gradients, then moves all schedulers.
func (b *SingleProcess[B]) DefaultOptimize() error {
	for _, o := range b.args.Optimizers {
		step := func() (bool, error) { o.optimizer.Step(o.rate); return true, nil }
		if b.scaler != nil {
			step = func() (bool, error) { return b.scaler.Step(o.optimizer, o.rate) }
		}
		if err := o.step(step); err != nil {
			return err
		}
		o.ZeroGrad()
	}
	if b.scaler != nil {
		if err := b.scaler.Update(); err != nil {
			return err
		}
	}
	for _, s := range b.args.Schedulers {
		if err := s.Step(); err != nil {
			return err
		}
	}
	return nil
}

// ValidateDL runs step over the batches of a set.
func (b *SingleProcess[B]) ValidateDL(ctx context.Context, loader Dataloader[B], step StepFunc[B]) (Collected, error) {
	var all collector
	defer all.drop()
	defer b.args.Progress.end()
	seen := 0
	for batch, err := range loader.Batches(ctx) {
		if err != nil {
			return Collected{}, err
		}
		if b.args.MaxValStepsPerEpoch > 0 && seen >= b.args.MaxValStepsPerEpoch {
			break
		}
		err = scoped(func() error {
			var outputs Outputs
			var err error
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
		b.args.Progress.show("validation", seen, loader.Len())
	}
	if err := ctx.Err(); err != nil {
		return Collected{}, context.Cause(ctx)
	}
	return all.take(), nil
}

// scoped runs f in a scope, and turns the panic of an operator into an error.
func scoped(f func() error) error {
	var err error
	panicked := torch.Try(func() { torch.Scope(func() { err = f() }) })
	return errors.Join(panicked, err)
}

// BatchesCompleted counts the batches of all runs.
func (b *SingleProcess[B]) BatchesCompleted() int { return b.batches }

// GlobalStepsCompleted counts the updates of all runs.
func (b *SingleProcess[B]) GlobalStepsCompleted() int { return b.updates }

// TrainSampler is a [RandomSampler].
func (b *SingleProcess[B]) TrainSampler() Sampler { return RandomSampler{} }

// ValSampler is a [SequentialSampler].
func (b *SingleProcess[B]) ValSampler() Sampler { return SequentialSampler{} }

// GetState has the two counts and, unless the resumption may be inexact, the gradients of an
// unfinished window and the outputs of an unfinished epoch.
func (b *SingleProcess[B]) GetState() (State, error) {
	s := State{"global_step_completed": b.updates, "batches_completed": b.batches}
	if b.args.InexactResume {
		return s, nil
	}
	if len(b.epoch.tensors) > 0 { // the run is interrupted in the middle of it
		s[outputsKey] = b.epoch.state()
	}
	if b.batches%b.args.GradientAccumulation == 0 {
		return s, nil
	}
	gradients := State{}
	for _, p := range b.args.Params {
		if g := p.Tensor.Grad(); g.Defined() {
			gradients[p.Name] = g
		}
	}
	s["gradients"] = gradients
	return s, nil
}

// UpdateState continues from what GetState returned.
func (b *SingleProcess[B]) UpdateState(s State) error {
	updates, ok := s["global_step_completed"].(int)
	batches, ok2 := s["batches_completed"].(int)
	if !ok || !ok2 || updates < 0 || batches < 0 {
		return fmt.Errorf("want the counts global_step_completed and batches_completed, found %v and %v",
			s["global_step_completed"], s["batches_completed"])
	}
	gradients, _ := s["gradients"].(State)
	if b.args.InexactResume {
		gradients = nil
	}
	byName := map[string]torch.Tensor{}
	for name, v := range gradients {
		t, ok := v.(torch.Tensor)
		if !ok {
			return fmt.Errorf("the gradient of %s is %T, want a tensor", name, v)
		}
		byName[name] = t
	}
	for _, p := range b.args.Params {
		if g, ok := byName[p.Name]; ok {
			if !sameShape(g, p.Tensor) {
				return fmt.Errorf("the gradient of %s has shape %v, the parameter %v", p.Name, g.Shape(),
					p.Tensor.Shape())
			}
			delete(byName, p.Name)
		}
	}
	for name := range byName {
		return fmt.Errorf("there is a gradient of %s, which is no parameter of the model", name)
	}
	for _, p := range b.args.Params {
		if g, ok := gradients[p.Name].(torch.Tensor); ok {
			p.Tensor.SetGrad(g.Clone().ToDevice(p.Tensor.Device()).Keep())
		}
	}
	outputs, err := readCollected(s[outputsKey])
	if err != nil {
		return err
	}
	if b.collects && !b.args.InexactResume {
		b.epoch.put(outputs)
	} else {
		outputs.free()
	}
	b.updates, b.batches = updates, batches
	return nil
}

func sameShape(a, b torch.Tensor) bool {
	x, y := a.Shape(), b.Shape()
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}

// SingleProcessAmp trains in one process in mixed precision: the backend "sp-amp". Forward passes
// run under autocast; with FP16 the loss is scaled, from 4096 on, and an update whose gradients
// overflow is left out, although the schedulers move.
type SingleProcessAmp[B any] struct {
	SingleProcess[B]

	// Precision is FP16, which needs a GPU, or BF16, which scales nothing. "sp-amp" means FP16; on
	// a CPU, where PyMarlin goes on in float32 without a word, it is refused.
	Precision amp.Precision
}

var _ TrainerBackend[int] = (*SingleProcessAmp[int])(nil)

// Init takes what the trainer has made.
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

// GetState has the scaler too, which PyMarlin forgets.
func (b *SingleProcessAmp[B]) GetState() (State, error) {
	s, err := b.SingleProcess.GetState()
	if err == nil && b.scaler != nil {
		scale := b.scaler.State()
		s["scaler"] = State{"scale": scale.Scale, "growth_factor": scale.GrowthFactor,
			"backoff_factor": scale.BackoffFactor, "growth_interval": scale.GrowthInterval,
			"_growth_tracker": scale.GrowthTracker}
	}
	return s, err
}

// UpdateState continues from what GetState returned; a state without scaler, as PyMarlin's, begins
// its scale anew.
func (b *SingleProcessAmp[B]) UpdateState(s State) error {
	saved, ok := s["scaler"].(State)
	if ok && b.scaler != nil {
		state := b.scaler.State()
		var good [4]bool
		state.Scale, good[0] = number(saved["scale"])
		state.GrowthFactor, good[1] = number(saved["growth_factor"])
		state.BackoffFactor, good[2] = number(saved["backoff_factor"])
		state.GrowthInterval, good[3] = saved["growth_interval"].(int)
		tracker, tracked := saved["_growth_tracker"].(int)
		if state.GrowthTracker = tracker; good != [4]bool{true, true, true, true} || !tracked {
			return fmt.Errorf("want a state_dict() of torch.amp.GradScaler, found %v", saved)
		}
		if err := b.scaler.LoadState(state); err != nil {
			return err
		}
	}
	return b.SingleProcess.UpdateState(s)
}

// setTraining is module.train() or module.eval().
func setTraining(m any, on bool) { nn.SetTraining(modelOf(m), on) }
