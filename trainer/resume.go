package trainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// openStore takes the output folder and says from which checkpoint the run goes on; empty: from
// none.
func (f *fit[S, B]) openStore() (from string, err error) {
	if f.o.OutputDir != "" && f.o.Process.Main() {
		f.store, err = checkpoint.Open(f.o.OutputDir, checkpoint.Options{Keep: f.o.KeepCheckpoints,
			OnDamaged: func(e *checkpoint.DamagedError) {
				f.warn("%v; an older one is used", e)
			}})
		if err != nil {
			return "", fmt.Errorf("trainer: Options.OutputDir: %w", err)
		}
	}
	switch f.o.ResumeFrom {
	case "":
		return "", f.beginAnew()
	case Latest:
		if f.store == nil { // the main process has the folder; the others read
			return newestCheckpoint(f.run.Info.OutputDir)
		}
		steps, err := f.store.Steps()
		if err != nil || len(steps) == 0 {
			return "", err
		}
		from, err := f.store.Latest()
		if err != nil {
			return "", fmt.Errorf("trainer: Options.ResumeFrom: %w; nothing is left to resume from: mend a "+
				"checkpoint, or set Options.Overwrite to begin anew", err)
		}
		return from, nil
	default:
		from, err := filepath.Abs(f.o.ResumeFrom)
		if err != nil {
			return "", fmt.Errorf("trainer: Options.ResumeFrom: %w", err)
		}
		if err := checkpoint.Verify(from); err != nil {
			return "", fmt.Errorf("trainer: Options.ResumeFrom: %w; name an older one, or trainer.Latest for the "+
				"newest whole one", err)
		}
		return from, nil
	}
}

// beginAnew sees to it that a new run does not mix with an old one in the same folder.
func (f *fit[S, B]) beginAnew() error {
	if f.store == nil {
		return nil
	}
	steps, err := f.store.Steps()
	if err != nil || f.o.Semantics.KeepOldRun && !f.o.Overwrite && !f.again || f.o.Overwrite && len(steps) == 0 ||
		f.again && f.o.Semantics.RetryFromTrained {
		return err
	}
	if len(steps) == 0 && f.again {
		return nil
	}
	if len(steps) == 0 { // perhaps it was never saved, but its log is worth something
		if log, err := os.Stat(filepath.Join(f.store.Dir(), metricsFile)); err != nil || log.Size() == 0 {
			return nil
		}
		return fmt.Errorf("trainer: %w: %s has a %s, but no checkpoint; set Options.Overwrite to delete it, or "+
			"choose another OutputDir", ErrOldRun, f.store.Dir(), metricsFile)
	}
	if !f.o.Overwrite && !f.again {
		return fmt.Errorf("trainer: %w: %s, the newest is %s; set Options.ResumeFrom to trainer.Latest to go on with "+
			"it, Options.Overwrite to delete it, or choose another OutputDir",
			ErrOldRun, f.store.Dir(), filepath.Base(f.store.Path(steps[len(steps)-1])))
	}
	for _, step := range steps { // oldest first, so that what an interruption leaves is the newest
		if err := os.RemoveAll(f.store.Path(step)); err != nil {
			return fmt.Errorf("trainer: Options.Overwrite: %w", err)
		}
	}
	return nil
}

// resume puts the step, the loop and the hooks where a checkpoint was made. The step comes last:
// what can be refused is refused before any weight has changed.
func (f *fit[S, B]) resume(from string) error {
	state, loop, err := readStates(from)
	if err != nil {
		return err
	}
	if err := f.fits(from, loop); err != nil {
		return err
	}
	var random [][]byte
	if !loop.OnlyModel {
		if random, err = f.readRandom(from); err != nil {
			return err
		}
	}
	if err := f.resumeHooks(from, state); err != nil {
		return err
	}
	if err := f.loadStep(from, loop); err != nil {
		return fmt.Errorf("trainer: cannot resume from %s: %w; resume with the model and the optimizer of that run, "+
			"or begin a new one", from, err)
	}
	if err := f.loadRandom(random); err != nil {
		return err
	}
	f.restoreBest(from, state, loop)
	f.resumeLoop(from, state, loop)
	f.run.Info.ResumedFrom = from
	return f.warnOfNewer(from)
}

// resumeState continues from what a [Saver] was given.
func (f *fit[S, B]) resumeState(start StartPosition) error {
	const from = "Options.Start.State"
	var s bothStates
	if err := parseState(start.State, &s); err != nil {
		return fmt.Errorf("trainer: cannot resume from %s: %w", from, err)
	}
	if err := s.Loop.validate(); err != nil {
		return fmt.Errorf("trainer: cannot resume from %s: %w", from, err)
	}
	if err := f.fits(from, s.Loop); err != nil {
		return err
	}
	if err := f.resumeHooks(from, s.Trainer); err != nil {
		return err
	}
	if err := f.load(start); err != nil {
		return err
	}
	f.restoreBest(from, s.Trainer, s.Loop)
	f.resumeLoop(from, s.Trainer, s.Loop)
	return nil
}

// resumeHooks gives the hooks their states back.
func (f *fit[S, B]) resumeHooks(from string, state savedState) error {
	if f.o.Semantics.ForgetHooksAtResume {
		return nil
	}
	unknown, err := restoreHooks(f.hooks.all, state.StatefulCallbacks)
	if err != nil {
		return err
	}
	for _, name := range unknown {
		f.warn("%s has no state of the hook %s, which starts anew", from, name)
	}
	return nil
}

// resumeLoop takes over the counts, the losses and the position.
func (f *fit[S, B]) resumeLoop(from string, state savedState, loop loopState) {
	f.history = state.LogHistory
	f.tokens, f.flops = state.NumInputTokensSeen, float64(state.TotalFlos)
	f.startTokens = f.tokens
	if !loop.OnlyModel {
		f.restoreRate(loop)
	}
	f.restoreLoss(loop)
	f.losses.restore(loop.Losses, f.o.Semantics, loop.Position.GlobalStep)
	if f.o.Semantics.IntervalsFromCheckpoint {
		f.restoreIntervals(state)
	}
	position := loop.Position
	position.LastSaved = -1
	if f.saves() && (f.o.Saver != nil || f.checkpointPath(position.GlobalStep) == from) {
		position.LastSaved = position.GlobalStep
		if f.o.Saver == nil {
			f.checkpoint = from
		}
		// a run that was killed between a save and its deletions has left one checkpoint too many
		if f.o.ResumeFrom == Latest {
			f.rotate()
		}
	}
	f.loop.resume(position)
	if f.onlyModel = loop.OnlyModel; f.onlyModel {
		f.loop.LoaderStarted = false // no generator stands behind that draw
	}
	f.evaluated = loop.Evaluated
	if f.loop.EvalSet >= len(f.evals) || f.evaluated == nil {
		f.loop.EvalSet, f.evaluated = 0, nil
	}
	f.show()
}

// loadStep puts the step where a checkpoint was made; of one with SaveOnlyModel only the weights.
func (f *fit[S, B]) loadStep(from string, loop loopState) error {
	if !loop.OnlyModel {
		return f.t.step.Load(from, LoadOptions{Settings: f.o.Semantics.OptimizerFromCheckpoint})
	}
	if !f.o.Semantics.ResumeFromWeights {
		return ErrOnlyModel
	}
	f.warn("%s holds only the weights: moments, learning rate and random numbers begin anew", from)
	return f.t.step.Load(from, LoadOptions{WeightsOnly: true})
}

// fits refuses a checkpoint whose position means something else in this run.
func (f *fit[S, B]) fits(from string, loop loopState) error {
	now := f.sizes()
	difference := loop.Sizes.differs(now)
	if difference == "" && !f.loop.plan.stream && loop.Position.Micro > f.loop.plan.batches {
		difference = fmt.Sprintf("an epoch has %d batches, and it was made after %d", f.loop.plan.batches,
			loop.Position.Micro)
	}
	if difference == "" {
		return nil
	}
	if f.o.Semantics.PositionFromGlobalStep {
		f.warn("%s: %s; the position in the epoch is worked out anew from the number of updates", from, difference)
		return nil
	}
	return fmt.Errorf("trainer: cannot resume from %s: %w: %s; resume with the same, or begin a new run from its "+
		"weights", from, ErrOtherRun, difference)
}

func (f *fit[S, B]) restoreBest(from string, state savedState, loop loopState) {
	if state.BestMetric == nil {
		return
	}
	f.best = Best{Metric: loop.BestMetric, Value: float64(*state.BestMetric), Metrics: Metrics(loop.BestMetrics)}
	if f.best.Metric == "" {
		f.best.Metric = evalPrefix + f.judge.metric
	}
	if state.BestGlobalStep != nil {
		f.best.GlobalStep = *state.BestGlobalStep
	}
	if state.BestModelCheckpoint == nil {
		return
	}
	// The run's folder may have been moved: then it lies beside the checkpoint we come from.
	for _, path := range []string{*state.BestModelCheckpoint, filepath.Join(filepath.Dir(from),
		filepath.Base(*state.BestModelCheckpoint))} {
		if _, err := os.Stat(path); err == nil {
			f.best.Checkpoint = path
			return
		}
	}
	f.warn("the best checkpoint %s does not exist any more", *state.BestModelCheckpoint)
}

func (f *fit[S, B]) restoreRate(loop loopState) {
	f.scheduleStep, f.controllerState = loop.ScheduleStep, loop.Controller
	f.lastRate = loop.LastRate
	if f.o.Semantics.OptimizerFromCheckpoint {
		next := loop.NextRate
		f.firstRate = &next
		f.peakRate = loop.PeakRate
	}
}

func (f *fit[S, B]) restoreLoss(loop loopState) {
	if !f.o.Semantics.ForgetLossAtResume {
		f.lossSum = float64(loop.LossSum)
		if loop.GradNorm != nil {
			norm := float64(*loop.GradNorm)
			f.gradNorm = &norm
		}
	}
	if !f.o.Semantics.TrainLossOverAllSteps {
		f.lossTotal = float64(loop.LossTotal)
	}
}

func (f *fit[S, B]) restoreIntervals(state savedState) {
	f.stateBatchSize = state.TrainBatchSize
	for _, i := range []struct {
		trigger *Trigger
		steps   int
	}{{&f.loop.flow.log, state.LoggingSteps}, {&f.loop.flow.eval, state.EvalSteps},
		{&f.loop.flow.save, state.SaveSteps}} {
		if i.trigger.kind == every && i.trigger.unit == Update && i.steps > 0 {
			i.trigger.n = i.steps
		}
	}
}

// warnOfNewer warns of checkpoints that are of another course of the run.
func (f *fit[S, B]) warnOfNewer(from string) error {
	if f.store == nil || filepath.Dir(from) != f.store.Dir() {
		return nil
	}
	steps, err := f.store.Steps()
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step > f.loop.GlobalStep {
			f.warn("%s is newer than %s, from which this run goes on; until it is replaced, trainer.Latest would "+
				"resume from it", f.store.Path(step), filepath.Base(from))
		}
	}
	return nil
}

// newestCheckpoint returns the newest whole checkpoint of a folder without taking it; empty if
// there is none.
func newestCheckpoint(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("trainer: Options.OutputDir: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("trainer: Options.OutputDir: %w", err)
	}
	newest, path := -1, ""
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), checkpointPrefix)
		step, err := strconv.Atoi(number)
		if !ok || err != nil || step <= newest || checkpoint.Verify(filepath.Join(dir, e.Name())) != nil {
			continue
		}
		newest, path = step, filepath.Join(dir, e.Name())
	}
	return path, nil
}

const checkpointPrefix = "checkpoint-"

// saves reports whether the run has checkpoints, written by this process or by the main one.
func (f *fit[S, B]) saves() bool {
	return f.store != nil || f.o.Saver != nil || f.o.OutputDir != "" && !f.o.Process.Main()
}

// checkpointPath is the folder of the checkpoint of an update.
func (f *fit[S, B]) checkpointPath(step int) string {
	return filepath.Join(f.run.Info.OutputDir, checkpointPrefix+strconv.Itoa(step))
}
