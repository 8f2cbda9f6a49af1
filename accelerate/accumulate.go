package accelerate

import (
	"context"
	"errors"

	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Accumulate runs one batch of a loop: accelerator.accumulate(model). It decides whether the batch
// ends a window, opens a scope that frees the tensors made in body, and returns body's error, or a
// [*torch.Error] that body panicked with.
func (a *Accelerator) Accumulate(body func() error) error {
	if a.endOfLoader() && !a.options.Accumulation.CarryOver {
		a.step, a.sync = 0, true
	} else {
		a.step++
		a.sync = a.step%a.options.Accumulation.Steps == 0
	}
	if err := a.BeginBatch(a.sync); err != nil {
		return err
	}
	var err error
	panicked := torch.Try(func() { torch.Scope(func() { err = body() }) })
	if panicked != nil {
		err = errors.Join(err, a.options.Group.Err()) // the group's error may be the cause
	}
	return errors.Join(panicked, err)
}

// BeginBatch is used instead of Accumulate by loops that count windows themselves. It is called
// before the forward pass of each batch, and sync says whether the batch ends a window. Batches
// that do not are run under no_sync. With several processes, all must call it, and also once before
// an evaluation, with SyncGradients unchanged: before the first batch after an update, the main
// process's buffers are sent to all.
func (a *Accelerator) BeginBatch(sync bool) error {
	a.sync = sync
	return a.beforeForward()
}

// endOfLoader reports whether the current batch is the last one of the loader that it came from.
func (a *Accelerator) endOfLoader() bool {
	return len(a.loaders) > 0 && a.loaders[len(a.loaders)-1].atEnd()
}

// SyncGradients reports whether the current batch ends a window and is followed by an update. It is
// true outside of Accumulate before the first batch.
func (a *Accelerator) SyncGradients() bool { return a.sync }

// AccumulationSteps returns the number by which [Accelerator.Backward] divides:
// gradient_accumulation_steps.
func (a *Accelerator) AccumulationSteps() int { return a.options.Accumulation.Steps }

// Backward divides the loss by the number of batches in a full window, scales it if there is a
// scaler, and adds its gradients to the existing ones. If SyncGradients is true, the gradients of
// all prepared models are then their means over the processes. Backward panics with [*torch.Error]
// as the tensor's own Backward does, and also if another process is gone.
func (a *Accelerator) Backward(loss torch.Tensor) {
	loss = loss.DivScalar(float64(a.options.Accumulation.Steps))
	if a.scaler != nil {
		loss = a.scaler.Scale(loss)
	}
	if a.sharded != nil {
		a.must("Backward", a.sharded.Backward(context.Background(), loss.Backward, loss))
		return
	}
	a.must("Backward", ddp.Backward(context.Background(), a.parallel, loss.Backward, loss))
}

// UnscaleGradients removes the scale from the gradients of all prepared optimizers. The clipping
// methods do this themselves.
func (a *Accelerator) UnscaleGradients() error {
	if a.scaler == nil {
		return nil
	}
	for _, o := range a.optimizers {
		if o.unscaled {
			continue
		}
		if err := a.scaler.Unscale_(o.optimizer); err != nil {
			return err
		}
		if err := a.agreeOnInf(o.optimizer); err != nil {
			return err
		}
		o.unscaled = true
	}
	return nil
}

// ClipGradNorm limits the gradients' total 2-norm, after unscaling, and returns the norm before
// clipping: clip_grad_norm_. Call it when SyncGradients is true; the gradients of an unfinished
// window are not useful. With Options.Sharding, it clips all gradients of the model, whatever
// params are.
func (a *Accelerator) ClipGradNorm(params []torch.Named, maxNorm float64) (norm torch.Tensor, err error) {
	if err := a.UnscaleGradients(); err != nil {
		return torch.Tensor{}, err
	}
	if a.sharded != nil {
		return a.sharded.ClipGradNorm(context.Background(), maxNorm)
	}
	return optim.ClipGradNorm(params, maxNorm), nil
}

// ClipGradValue limits every element of the gradients to ±value, after unscaling: clip_grad_value_.
// With Options.Sharding, params do not matter, as in ClipGradNorm.
func (a *Accelerator) ClipGradValue(params []torch.Named, value float64) error {
	if err := a.UnscaleGradients(); err != nil {
		return err
	}
	if a.sharded != nil {
		params = nil
		for _, p := range a.sharded.Pieces() {
			params = append(params, torch.Named{Name: p.Name, Tensor: p.Tensor})
		}
	}
	optim.ClipGradValue(params, value)
	return nil
}

// OptimizerStepWasSkipped reports whether loss scaling skipped the last step of an optimizer
// because a gradient was infinite or NaN.
func (a *Accelerator) OptimizerStepWasSkipped() bool {
	for _, o := range a.optimizers {
		if o.skipped {
			return true
		}
	}
	return false
}
