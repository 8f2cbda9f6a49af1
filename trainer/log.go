package trainer

import (
	"math"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// logLoss carries out doLog: the mean loss since the last log, the gradients' norm and the rate of
// the last update.
func (f *fit[S, B]) logLoss() error {
	if err := f.report(); err != nil {
		return err
	}
	row := Logs{"loss": f.lossSum / float64(f.loop.GlobalStep-f.loop.LastLogged)}
	if f.losses.wanted() {
		row["loss"] = f.losses.value()
	}
	if f.gradNorm != nil {
		row["grad_norm"] = *f.gradNorm
	}
	switch {
	case f.lastRate == nil:
		row["learning_rate"] = f.rate(f.scheduleStep)
	default:
		row["learning_rate"] = *f.lastRate
	}
	f.warnNonFinite("loss", row["loss"])
	f.settleLoss()
	f.loop.LastLogged = f.loop.GlobalStep
	if f.o.CountTokens {
		row.tokenSpeed(f.start, f.tokens-f.startTokens)
	}
	f.loop.Control.ShouldLog = false
	return f.log(row)
}

// warnNonFinite says once that a loss is nan or infinite, since the weights are mostly lost by
// then. The run goes on, as Hugging Face's does.
func (f *fit[S, B]) warnNonFinite(name string, loss float64) {
	if f.nonFinite || !math.IsNaN(loss) && !math.IsInf(loss, 0) {
		return
	}
	f.nonFinite = true
	f.warn("%s is %v at %s %d, and the run goes on; look for nan in the data, lower Options.LearningRate or limit "+
		"the gradients; torch.DetectAnomaly names the operator",
		name, loss, f.run.Info.unit(), f.loop.GlobalStep)
}

// settleLoss adds what was logged to the total and begins anew.
func (f *fit[S, B]) settleLoss() {
	f.lossTotal += f.lossSum
	if f.o.Semantics.NonFiniteLossStays {
		f.lossSum -= f.lossSum // nan where it is nan or inf
		return
	}
	f.lossSum = 0
}

// report takes over what the step has gathered.
func (f *fit[S, B]) report() error {
	r, err := f.t.step.Report(f.stepContext())
	if err != nil {
		return f.stepError("report the loss", err)
	}
	f.lossSum += r.LossSum
	if !(r.GradNorm < 0) {
		f.gradNorm = &r.GradNorm
	}
	return nil
}

// log adds a row to the log and tells the hooks.
func (f *fit[S, B]) log(row Logs) error {
	if err := fire(f, f.hooks.beforeLog, "BeforeLog",
		func(h BeforeLogHook, r *Run) error { return h.BeforeLog(r, row) }); err != nil {
		return err
	}
	row["epoch"] = f.loop.Progress
	row["step"] = float64(f.loop.GlobalStep)
	if f.o.CountTokens {
		row["num_input_tokens_seen"] = float64(f.tokens)
	}
	f.history = append(f.history, row)
	if f.o.Semantics.Loop != semantics.HezarLoop { // any row answers the wish for one; Hezar logs behind it
		f.loop.Control.ShouldLog = false
	}
	return fire(f, f.hooks.log, "AfterLog", func(h LogHook, r *Run) error { return h.AfterLog(r, row) })
}

// logEnd carries out doFinalLog.
func (f *fit[S, B]) logEnd() error {
	if err := f.report(); err != nil {
		return err
	}
	f.settleLoss()
	row := Logs{"train_loss": f.lossTotal / max(float64(f.loop.GlobalStep), 0.001)}
	f.warnNonFinite("train_loss", row["train_loss"])
	samples, steps := f.trained, float64(f.loop.GlobalStep-f.run.StartStep)
	if f.o.Semantics.TrainLossOverAllSteps { // and speeds of the whole plan over the time of the session
		steps = float64(f.loop.plan.maxSteps)
		samples = float64(f.run.Info.TrainSamples) * f.o.Epochs
		if f.o.MaxSteps > 0 {
			samples = steps * float64(f.o.BatchSize*f.o.Accumulate*f.o.Process.World)
		}
	}
	row["total_flos"] = f.flops
	row.speed("train", f.start, samples, steps)
	f.final = row
	return f.log(row)
}
