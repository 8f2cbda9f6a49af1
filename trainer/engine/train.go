package engine

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// try calls f and also returns a panic of package torch as an error.
func try(f func() error) (err error) {
	if panicked := torch.Try(func() { err = f() }); panicked != nil {
		return panicked
	}
	return err
}

// inScope is try inside a torch.Scope.
func inScope(f func() error) error {
	return try(func() (err error) {
		torch.Scope(func() { err = f() })
		return err
	})
}

// scoped is inScope without gradients.
func scoped(f func() error) error {
	return inScope(func() (err error) {
		torch.NoGrad(func() { err = f() })
		return err
	})
}

// mode puts the model into training or evaluation mode, or keeps its current mode. In training,
// some modules may remain in evaluation mode; if all of them are, a callback has left the model in
// that mode.
func (s *core) mode(training, keep bool) {
	s.fresh = false
	if training {
		s.endsEval() // a failed evaluation has not done so
		s.optimizerMode(true)
	} else {
		s.optimizerMode(false)
		s.copies.wait()
		s.ema.show()
		s.lower()
	}
	left := training && len(s.modes) > 0 && !slices.ContainsFunc(s.modes, modeReporter.Training)
	if !keep && (s.training != training || left) {
		nn.SetTraining(s.task.Model(), training)
		s.training = training
	}
}

// modeReporter is a module that has a mode.
type modeReporter interface{ Training() bool }

// modesOf returns the modules of a model that have a mode.
func modesOf(model any) (list []modeReporter) {
	for _, n := range nn.Modules(model) {
		if m, ok := n.Module.(modeReporter); ok {
			list = append(list, m)
		}
	}
	return list
}

func (s *core) pass(items int64) ForwardPass {
	s.arrivals.forget(func(a *arrival) bool { return a.used }) // by earlier passes
	const unloaded = " is set, but the batches of this run do not come from a loader over a data set (a stream of data " +
		"does not), so "
	if s.prefetcher != nil && !s.prefetcher.loads {
		s.once("Options.Prefetch" + unloaded + "none is sent ahead")
	}
	if s.resident != nil && !s.resident.used && s.stepping {
		s.once("Options.DatasetOnDevice" + unloaded + "they are sent one by one")
	}
	return ForwardPass{Device: s.options.Device, Items: items, precision: s.options.Precision, arrivals: &s.arrivals}
}

// trainingPass is the pass of a micro-batch.
func (s *core) trainingPass(ctx context.Context, w trainer.Window) ForwardPass {
	p := s.pass(w.Items)
	p.Part, p.WindowLen, p.gathering = w.Share > 0, w.Len, s.gathering(ctx)
	return p
}

// train is [Step.Train].
func (s *core) train(ctx context.Context, b any, w trainer.Window) error {
	if err := s.beforeForward(ctx, w); err != nil {
		return err
	}
	err := s.gather(w, func() torch.Tensor {
		s.mode(true, w.KeepMode)
		loss := s.passes(ctx, b, w)
		if s.task.isLossObserver {
			s.task.ObserveLoss(b, loss)
		}
		return loss
	})
	if errors.Is(err, torch.ErrOutOfMemory) {
		s.graphs.forget()
	}
	return err
}

// gather runs the passes of a micro-batch and adds the loss they return to the sum since the last
// report.
func (s *core) gather(w trainer.Window, passes func() torch.Tensor) error {
	err := s.stepped(func() error {
		s.logged.fresh = torch.Tensor{}
		loss := passes()
		err := s.checkFinite("loss", loss, w.StopAtNonFinite)
		s.addLoss(loss, w)
		s.logged.add(w)
		return err
	})
	return s.passed(err, w)
}

// stepped is inScope for a part of a training step.
func (s *core) stepped(f func() error) error {
	s.stepping = true
	defer func() { s.stepping = false }()
	return inScope(f)
}

// trainingStep runs forward and backward on a micro-batch and returns the loss to report.
func (s *core) trainingStep(ctx context.Context, p ForwardPass, b any, w trainer.Window) torch.Tensor {
	if s.task.isTrainingStepper {
		return s.task.TrainingStep(Training[any]{
			ForwardPass: p, Loss: func(b any) Loss { return s.loss(p, b) },
			Backward: func(l Loss) torch.Tensor { return s.backward(ctx, l, w) },
		}, b).Detach()
	}
	return s.backward(ctx, s.loss(p, b), w)
}

// loss runs the forward pass and computes the loss that the options select.
func (s *core) loss(p ForwardPass, b any) (loss Loss) {
	if s.options.ownLoss() {
		var o Outputs
		p.Autocast(func() { o = s.task.Predict(p, b) }) // New has looked whether it is a Predictor
		loss, _ = s.lossOf(p, o)
		return loss
	}
	p.Autocast(func() { loss = s.task.Loss(p, b) })
	return loss
}

// backward divides and scales a loss, runs the backward pass and returns the divided loss.
func (s *core) backward(ctx context.Context, loss Loss, w trainer.Window) torch.Tensor {
	defer s.explain(loss.Value)
	value := loss.Value
	switch {
	case !loss.whole:
		if w.Divisor != 1 {
			value = value.DivScalar(w.Divisor)
		}
	case w.Share > 0 && w.Items == 0: // part of a mean that is summed over the window
		value = value.MulScalar(w.Share)
	}
	// averaging over the processes undoes this: items are counted over all processes
	if n := s.group.World(); n > 1 && loss.whole {
		value = value.MulScalar(n)
	}
	if s.frozen && !value.NeedsGrad() {
		panic(torch.Errorf("Backward", torch.ErrValue, "all parameters of %T are frozen, so its loss has no gradient: "+
			"such a model can be evaluated, not trained; SetRequiresGrad(true) those to train", s.task.Model()))
	}
	s.logged.take(s.task.given, loss.Logged)
	s.beginBackward(w)
	scaled := value
	if s.scaler != nil {
		scaled = s.scaler.Scale(value)
	}
	s.propagate(ctx, scaled)
	return value.Detach()
}

// explain replaces the panic of a backward pass if a loss is to blame that cannot be trained on. It
// looks only then, since each question is a call of the shim.
func (s *core) explain(loss torch.Tensor) {
	p := recover()
	if p == nil {
		return
	}
	const want = "want a scalar that depends on the parameters"
	switch e, failed := p.(*torch.Error); {
	case !failed || errors.Is(e, torch.ErrOutOfMemory):
	case !loss.Defined():
		p = torch.Errorf("Backward", torch.ErrValue, "the loss of %T has no Value; %s", s.task.Model(), want)
	case loss.Numel() != 1:
		p = torch.Errorf("Backward", torch.ErrValue, "the loss of %T has the shape %v; %s: its Mean or Sum", s.task.Model(),
			loss.Shape(), want)
	case !loss.NeedsGrad() && !s.frozen:
		p = torch.Errorf("Backward", torch.ErrValue, "the loss of %T has no gradient: it was computed of detached tensors, "+
			"within torch.NoGrad, or of numbers that were read from tensors; %s", s.task.Model(), want)
	}
	panic(p)
}

// beginBackward records the settings of a window.
func (s *core) beginBackward(w trainer.Window) {
	s.beforeBackward(w)
	s.skipNonFinite, s.stopAtNonFinite, s.skipUnseen = w.SkipNonFinite, w.StopAtNonFinite, w.SkipUnseen
}

// addLoss adds a loss to the sum on the device. With FilterLoss, a loss that is not finite counts
// as the mean so far.
func (s *core) addLoss(loss torch.Tensor, w trainer.Window) {
	if w.FilterLoss {
		loss = torch.Where(loss.IsFinite(), loss, s.lossSum.DivScalar(1+w.SinceLog))
	}
	s.lossSum.Add_(loss)
}

// waits reports whether Update must know if it changes the weights: the loop needs it, the
// optimizer cannot skip a step by itself, or an average of the weights must not be updated.
func (s *core) waits() bool { return !s.skipUnseen || s.ema != nil || !s.fused() }

// Clip unscales the gradients and limits their norm and their values.
func (s *core) Clip(ctx context.Context) error {
	limits := s.clipped() && (s.options.MaxGradNorm >= 0 || s.options.MaxGradValue > 0)
	if s.scaler == nil && !limits && !s.normed && !s.skipNonFinite { // nothing to compute
		s.skip = false
		return nil
	}
	return s.reason(inScope(func() error {
		s.skip = false
		if s.scaler != nil {
			if err := s.scaler.Unscale_(s.optimizer); err != nil {
				return err
			}
			s.agreeOnInf(ctx)
		}
		if s.clipped() {
			s.limit(ctx)
		}
		if s.normed {
			if err := s.checkFinite("grad_norm", s.gradNorm, s.stopAtNonFinite); err != nil {
				return err
			}
		}
		if s.skipNonFinite && s.scaler == nil { // the scaler checks by itself
			s.checkGradNorm(ctx)
		}
		return nil
	}))
}

// checkGradNorm checks whether the norm of the gradients is finite. It waits for the device only if
// Update has to know.
func (s *core) checkGradNorm(ctx context.Context) {
	norm := s.gradNorm
	if !s.normed {
		norm = s.norm(ctx, 0)
	}
	finite := norm.IsFinite()
	if s.waits() {
		s.skip = finite.Item() == 0
		return
	}
	if !s.nonFinite.Defined() {
		s.nonFinite = torch.TensorOptions{Device: s.options.Device}.Zeros([]int64{}...).Keep()
	}
	s.nonFinite.Copy_(finite.LogicalNot())
}

func (s *core) clip(ctx context.Context) {
	if limit := cmp.Or(s.options.MaxGradNorm, 1); limit > 0 {
		if math.IsInf(limit, 1) { // only reported
			limit = 0
		}
		s.gradNorm.Copy_(s.norm(ctx, limit))
		s.normed = true
	}
	if s.options.MaxGradValue > 0 {
		s.params.ClipGradValue(s.options.MaxGradValue)
	}
}

// Update updates the weights and clears the gradients. If gradients that are not finite cause an
// update to be skipped, under loss scaling or SkipNonFinite, Update has to wait for the device to
// learn whether they are finite. It does not wait if the result is not needed
// (trainer.Window.SkipUnseen) and the optimizer is fused: its kernel then decides.
func (s *core) Update(ctx context.Context, lr float64) (applied bool, err error) {
	s.copies.wait()
	err = s.reason(inScope(func() (err error) {
		applied, err = s.step(lr)
		if applied && err == nil && s.sharded != nil {
			s.must("Update", s.sharded.Spread(ctx))
		}
		s.zeroGrad()
		if applied {
			s.ema.update()
		}
		return err
	}))
	return applied && err == nil, err
}

// step makes the optimizer's step, or skips it.
func (s *core) step(lr float64) (applied bool, err error) {
	s.unseen = !s.waits() && (s.scaler != nil || s.skipNonFinite)
	switch {
	case s.unseen && s.scaler != nil:
		applied, err = true, s.scaler.StepWithoutWaiting(s.optimizer, lr)
	case s.unseen:
		applied = true
		s.optimizer.(amp.UnlessStepper).StepUnless(lr, s.nonFinite)
	case s.scaler != nil:
		applied, err = s.scaler.Step(s.optimizer, lr)
	case !s.skip:
		applied = true
		s.optimizer.Step(lr)
	}
	if err == nil && s.scaler != nil {
		err = s.scaler.Update()
	}
	return applied, err
}

// leftOut waits for the device and reports whether the last Update skipped its step although it
// returned true.
func (s *core) leftOut() bool {
	switch {
	case !s.unseen:
		return false
	case s.scaler != nil:
		return s.scaler.LeftOut(s.optimizer)
	}
	return s.nonFinite.Item() != 0
}

// endsEval puts the trained weights back after an evaluation.
func (s *core) endsEval() {
	s.raise()
	s.ema.hide()
}

// Report reads back from the device the sum of losses (with several processes, the mean over them),
// the last gradient norm, and the numbers of a TrainingLogger.
func (s *core) Report(ctx context.Context) (r trainer.Report, err error) {
	if err := s.averageLoss(ctx); err != nil {
		return r, err
	}
	err = torch.Try(func() {
		r = trainer.Report{LossSum: s.lossSum.Item(), GradNorm: -1}
		s.lossSum.Zero_()
		if s.normed {
			r.GradNorm = s.gradNorm.Item()
		}
		r.Skipped = s.leftOut()
	})
	if err == nil {
		r.Logged, err = s.reportLogged(ctx)
	}
	return r, err
}

// GradNorm returns the total norm of the gradients before clipping at the last update. ok is false
// if none was computed. It waits for the device.
func (s *core) GradNorm() (norm float64, ok bool, err error) {
	if !s.normed {
		return 0, false, nil
	}
	err = torch.Try(func() { norm = s.gradNorm.Item() })
	return norm, err == nil, err
}

// OutOfMemory reports whether err means that the device ran out of memory.
func (s *core) OutOfMemory(err error) bool { return errors.Is(err, torch.ErrOutOfMemory) }

// ZeroGrad removes the gradients of all trained parameters.
func (s *core) ZeroGrad() error { return torch.Try(s.zeroGrad) }
