package trainer

import (
	"maps"
	"math"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// logLoss logs the mean loss since the last log, and the norm of the gradients and the learning
// rate of the last update.
func (r *runner) logLoss() error {
	if err := r.report(); err != nil {
		return err
	}
	row := Logs{"loss": r.lossSum / float64(r.loop.GlobalStep-r.loop.LastLogged-r.left.SinceLog)}
	if r.losses.wanted() {
		row["loss"] = r.losses.value()
	}
	r.logged.into(row)
	if r.gradNorm != nil {
		row["grad_norm"] = *r.gradNorm
	}
	row["learning_rate"] = r.rates.current()
	if r.rates.last != nil {
		row["learning_rate"] = *r.rates.last
	}
	r.settleLoss()
	r.loop.LastLogged = r.loop.GlobalStep
	if r.o.CountTokens {
		row.perSecond("train", r.start, map[string]float64{"tokens": float64(r.tokens - r.startTokens)})
	}
	r.loop.Control.ShouldLog = false
	if err := r.log(row); err != nil {
		return err
	}
	// a skipped update may have an infinite norm: loss scaling tries out the largest possible scale
	skipped := r.skipped || !r.rates.applied
	if err := r.checkFinite("loss", row["loss"]); err != nil || r.gradNorm == nil || skipped {
		return err
	}
	return r.checkFinite("grad_norm", *r.gradNorm)
}

// settleLoss adds the losses that were logged to the total and starts a new sum.
func (s *session) settleLoss() {
	s.logged = nil
	// updates with such losses were skipped or rolled back, or the run stops
	if !finite(s.lossSum) && s.o.NonFinite != IgnoreNonFinite {
		s.leaveOutLoss()
		return
	}
	s.lossTotal += s.lossSum
	s.left = leftOut{Total: s.left.Total + s.left.SinceLog}
	if s.o.Semantics.NonFiniteLossStays {
		s.lossSum -= s.lossSum // NaN if it is NaN or infinite
		return
	}
	s.lossSum = 0
}

// leaveOutLoss starts a new sum and leaves the updates since the last log out of train_loss.
func (s *session) leaveOutLoss() {
	s.lossSum, s.left = 0, leftOut{Total: s.left.Total + s.loop.GlobalStep - s.loop.LastLogged}
}

// seesEachLoss reports whether the loop waits for the device after each update that may be skipped,
// so that it knows the loss of each.
func (r *runner) seesEachLoss() bool { return r.o.NonFinite == SkipNonFinite && !r.skipsUnseen() }

// reportStep adds the loss of a step to the sum or, if it is not finite, leaves it out like the
// update.
func (r *runner) reportStep() error {
	before, logged := r.lossSum, maps.Clone(r.logged)
	if err := r.report(); err != nil {
		return err
	}
	if finite(before) && !finite(r.lossSum) {
		r.warnNonFinite("loss", r.lossSum)
		r.lossSum, r.logged = before, logged
		r.left.SinceLog++
	}
	return nil
}

// report adds what the step has accumulated since its last report.
func (s *session) report() error {
	r, err := s.step.Report(s.stepCtx)
	if err != nil {
		return s.stepError("report the loss", err)
	}
	s.lossSum += r.LossSum
	s.logged.add(r.Logged)
	s.skipped = r.Skipped
	if !(r.GradNorm < 0) {
		s.gradNorm = &r.GradNorm
	}
	return nil
}

// discardWindow removes the losses of a window that will be trained on again from the sum since the
// last log. The step knows only the sum, so their share is estimated from the number of batches.
func (r *runner) discardWindow() error {
	if !r.loop.unfinished || r.gathered == 0 || r.o.Semantics.Loop != semantics.DefaultLoop {
		return nil
	}
	sum, logged := r.lossSum, maps.Clone(r.logged)
	if err := r.report(); err != nil {
		return err
	}
	share := float64(r.gathered) / float64(r.loop.window)
	r.gathered = 0
	steps := float64(r.loop.GlobalStep - r.loop.LastLogged - r.left.SinceLog)
	switch {
	case r.seesEachLoss(): // the sum was already complete at the end of the last step
		r.lossSum, r.logged = sum, logged
	case steps == 0:
		r.lossSum, r.logged = 0, nil
	default:
		r.lossSum *= steps / (steps + share)
		r.logged.scale(steps / (steps + share))
	}
	return nil
}

// log adds a row to the log and calls the hooks.
func (s *session) log(row Logs) error {
	if err := fireWith(s, "BeforeLog", beforeLogHook.BeforeLog, row); err != nil {
		return err
	}
	row["epoch"] = s.loop.Progress
	row["step"] = float64(s.loop.GlobalStep)
	if s.o.CountTokens {
		row["num_input_tokens_seen"] = float64(s.tokens)
	}
	s.history = append(s.history, row)
	// any row fulfils a request for a log, except that Hezar logs the loss after its evaluations
	if s.o.Semantics.Loop != semantics.HezarLoop {
		s.loop.Control.ShouldLog = false
	}
	return fireWith(s, "AfterLog", afterLogHook.AfterLog, row)
}

// logEnd logs train_loss and the speeds, and checks the weights a last time.
func (r *runner) logEnd() error {
	if err := r.report(); err != nil {
		return err
	}
	r.settleLoss()
	known := r.loop.GlobalStep - r.left.Total
	row := Logs{"train_loss": r.lossTotal / max(float64(known), 0.001)}
	if known == 0 && r.left.Total > 0 {
		row["train_loss"] = math.NaN()
		r.warnNonFinite("train_loss", math.NaN())
	}
	samples, steps := r.trained, float64(r.loop.GlobalStep-r.run.StartStep)
	if r.o.Semantics.TrainLossOverAllSteps { // the speeds, too, are those of the whole plan over the time of this session
		steps = float64(r.loop.plan.maxSteps)
		samples = float64(r.run.Info.TrainSamples) * r.o.Epochs
		if r.o.MaxSteps > 0 {
			samples = steps * float64(r.o.BatchSize*r.o.Accumulate*r.o.Process.World)
		}
	}
	row["total_flos"] = r.flops
	row.perSecond("train", r.start, map[string]float64{"samples": samples, "steps": steps})
	r.final = row
	if err := r.log(row); err != nil {
		return err
	}
	if known > 0 {
		if err := r.checkFinite("train_loss", row["train_loss"]); err != nil {
			return err
		}
	}
	if r.o.NonFinite == IgnoreNonFinite || r.loop.LastSaved == r.loop.GlobalStep { // checked by the last save
		return nil
	}
	_, err := r.checkWeights()
	return err
}
