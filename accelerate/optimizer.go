package accelerate

import (
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Optimizer is an optimizer that makes a step only at the end of a window: AcceleratedOptimizer.
type Optimizer struct {
	accelerator *Accelerator
	optimizer   optim.Optimizer
	rate        float64
	peak        float64 // rate that it was prepared with, from which schedules start
	unscaled    bool    // the scale has been removed from the gradients of this window
	skipped     bool
	parts       bool // it has only this process's parts of the parameters: see BuildOptimizer
}

// PrepareOptimizer makes an optimizer follow the accumulation: accelerator.prepare(optimizer). rate
// is its learning rate until a schedule or SetRate changes it. SaveState saves the optimizer.
func (a *Accelerator) PrepareOptimizer(o optim.Optimizer, rate float64) *Optimizer {
	prepared := &Optimizer{accelerator: a, optimizer: o, rate: rate, peak: rate}
	a.optimizers = append(a.optimizers, prepared)
	return prepared
}

// Step makes an update if the current batch ends a window, and does nothing otherwise. With a
// scaler it waits for the device to learn whether the gradients are finite, unless
// Options.FusedHidesSkips leaves that to the kernel.
func (o *Optimizer) Step() error {
	if !o.accelerator.sync {
		return nil
	}
	if err := o.checkParts(); err != nil {
		return err
	}
	scaler := o.accelerator.scaler
	if scaler == nil {
		o.optimizer.Step(o.rate)
		return o.spread()
	}
	if o.parts {
		if err := o.accelerator.UnscaleGradients(); err != nil {
			return err
		}
	}
	applied, err := true, error(nil)
	if o.hidesSkips() {
		err = scaler.StepWithoutWaiting(o.optimizer, o.rate)
	} else {
		applied, err = scaler.Step(o.optimizer, o.rate)
	}
	if err == nil && applied {
		err = o.spread()
	}
	if err != nil {
		return err
	}
	o.skipped = !applied
	if err := scaler.Update(); err != nil {
		return err
	}
	for _, prepared := range o.accelerator.optimizers { // the scaler's Update forgets which gradients have been unscaled
		prepared.unscaled = false
	}
	return nil
}

// ZeroGrad removes the gradients if the current batch ends a window. With a scaler, clipped
// gradients need a Step first: otherwise the next clipping returns [amp.ErrUnscaledTwice], as
// PyTorch's scaler does.
func (o *Optimizer) ZeroGrad() {
	if o.accelerator.sync {
		o.unscaled = false
	}
	switch {
	case !o.accelerator.sync:
	case o.parts:
		o.accelerator.sharded.ZeroGrad()
	default:
		o.optimizer.ZeroGrad()
	}
}

func (o *Optimizer) hidesSkips() bool {
	fused, ok := o.optimizer.(interface{ StepSupportsAMPScaling() bool })
	return o.accelerator.options.FusedHidesSkips && ok && fused.StepSupportsAMPScaling()
}

// StepWasSkipped reports whether loss scaling skipped the last step. See Options.FusedHidesSkips.
func (o *Optimizer) StepWasSkipped() bool { return o.skipped }

// Rate returns the learning rate of the next step.
func (o *Optimizer) Rate() float64 { return o.rate }

// Rates returns the rates of the groups: Rate times their LRScale.
func (o *Optimizer) Rates() []float64 { return torchsave.Rates(o.optimizer, o.rate) }

// SetRate changes the learning rate, for schedules that are not prepared.
func (o *Optimizer) SetRate(rate float64) { o.rate = rate }

// Optimizer returns the optimizer that was prepared.
func (o *Optimizer) Optimizer() optim.Optimizer { return o.optimizer }

// Params returns the optimizer's parameters.
func (o *Optimizer) Params() []torch.Named { return o.optimizer.Params() }
