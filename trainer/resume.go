package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// openStore opens the output folder and returns the checkpoint from which the run continues; empty:
// it starts from the beginning.
func (s *saver) openStore() (from string, err error) {
	defer s.passOnWarnings()
	if s.o.OutputDir != "" && s.o.Process.Main() {
		s.store, err = checkpoint.Open(s.o.OutputDir, checkpoint.Options{Keep: s.o.KeepCheckpoints,
			OnDamaged: func(e *checkpoint.DamagedError) {
				s.warn("%v; using an older one", e)
			}, OnWarning: s.storeWarnings.add, Unmanifested: verifyCheckpoint})
		if err != nil {
			return "", &folderError{fmt.Errorf("trainer: Options.OutputDir: %w", err)}
		}
	}
	switch s.o.ResumeFrom {
	case "":
		return "", s.beginNew()
	case Latest:
		if s.store == nil { // the main process has locked the folder; the others only read it
			return newestCheckpoint(s.run.Info.OutputDir)
		}
		steps, err := s.steps()
		if err != nil || len(steps) == 0 {
			return "", err
		}
		from, err := s.store.Latest()
		if err != nil && !errors.Is(err, checkpoint.ErrNone) {
			return "", &folderError{fmt.Errorf("trainer: Options.OutputDir: %w", err)}
		}
		if err != nil {
			return "", fmt.Errorf("trainer: Options.ResumeFrom: %w; no checkpoint is left to resume from: repair "+
				"one, or set Options.Overwrite to start over", err)
		}
		return s.latestFinite(from, steps), nil
	default:
		from, err := filepath.Abs(s.o.ResumeFrom)
		if err != nil {
			return "", fmt.Errorf("trainer: Options.ResumeFrom: %w", err)
		}
		if err := verifyCheckpoint(from); err != nil {
			return "", unusable(from, err)
		}
		if s.o.resumesOwn() {
			return from, nil
		}
		return from, s.beginNew()
	}
}

// unusable explains why ResumeFrom is no whole checkpoint.
func unusable(from string, err error) error {
	within := func(dir string) string { // the newest checkpoint in a folder
		newest, err := newestCheckpoint(dir)
		if err != nil || newest == "" {
			return ""
		}
		return filepath.Base(newest)
	}
	if errors.Is(err, fs.ErrNotExist) {
		found := ""
		if newest := within(filepath.Dir(from)); newest != "" {
			found = fmt.Sprintf("; the newest one beside it is %s", newest)
		}
		return fmt.Errorf("trainer: Options.ResumeFrom: %w: there is no folder %s%s", checkpoint.ErrNone, from, found)
	}
	if newest := within(from); newest != "" {
		return fmt.Errorf("trainer: Options.ResumeFrom: %w: %s is the folder of a run; name a checkpoint in it, of which "+
			"%s is the newest, or make it OutputDir and set trainer.Latest", checkpoint.ErrNone, from, newest)
	}
	return fmt.Errorf("trainer: Options.ResumeFrom: %w; name an older one, or trainer.Latest for the newest whole one",
		err)
}

// resumesOwn reports whether ResumeFrom is a checkpoint in OutputDir, so that its run continues
// there.
func (o *Options) resumesOwn() bool {
	if o.ResumeFrom == Latest {
		return true
	}
	own, err := os.Stat(o.OutputDir)
	if err != nil {
		return false
	}
	behind, _ := filepath.EvalSymlinks(o.ResumeFrom)
	for _, path := range []string{o.ResumeFrom, behind} {
		path, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		if parent, err := os.Stat(filepath.Dir(path)); err == nil && os.SameFile(parent, own) {
			return true
		}
	}
	return false
}

func (s *saver) steps() ([]int, error) {
	steps, err := s.store.Steps()
	if err != nil {
		return nil, &folderError{fmt.Errorf("trainer: Options.OutputDir: %w", err)}
	}
	return steps, nil
}

// latestFinite returns the newest checkpoint whose weights are finite, or simply the newest under
// IgnoreNonFinite.
func (s *saver) latestFinite(newest string, steps []int) string {
	if _, loop, err := readStates(newest); s.o.NonFinite == IgnoreNonFinite || err != nil || !loop.NonFinite {
		return newest
	}
	for _, step := range slices.Backward(steps) {
		path := s.store.Path(step)
		_, loop, err := readStates(path)
		if err == nil && !loop.NonFinite && checkpoint.Verify(path) == nil {
			s.warn("the weights in %s are not finite; using %s instead", newest, filepath.Base(path))
			return path
		}
	}
	s.warn("the weights in %s are not finite, and there is no other checkpoint", newest)
	return newest
}

// beginNew keeps a new run, or one that continues a checkpoint from another folder, from mixing
// with an earlier run in the output folder.
func (s *saver) beginNew() error {
	if s.store == nil {
		return nil
	}
	steps, err := s.steps()
	if over := s.o.Overwrite || s.again; err != nil || s.o.Semantics.KeepOldRun && !over || over && len(steps) == 0 ||
		s.again && s.o.Semantics.RetryFromTrained {
		return err
	}
	if len(steps) == 0 { // it was perhaps never saved, but its log may be valuable
		if log, err := os.Stat(filepath.Join(s.store.Dir(), metricsFile)); err != nil || log.Size() == 0 {
			return nil
		}
		return fmt.Errorf("trainer: %w: %s has a %s, but no checkpoint; set Options.Overwrite to delete it, or "+
			"choose another OutputDir", ErrOldRun, s.store.Dir(), metricsFile)
	}
	if !s.o.Overwrite && !s.again {
		return fmt.Errorf("trainer: %w: %s, the newest is %s; set Options.ResumeFrom to trainer.Latest to continue "+
			"it, Options.Overwrite to delete it, or choose another OutputDir",
			ErrOldRun, s.store.Dir(), filepath.Base(s.store.Path(steps[len(steps)-1])))
	}
	for _, step := range steps { // oldest first, so that what an interruption leaves is the newest
		if err := os.RemoveAll(s.store.Path(step)); err != nil {
			return &folderError{fmt.Errorf("trainer: Options.Overwrite: %w", err)}
		}
	}
	return nil
}

// resume restores the step, the hooks and the loop from a checkpoint; it does nothing if from is
// empty. Whatever can be refused is refused before the step loads its weights.
func (r *runner) resume(from string) error {
	if from == "" {
		return nil
	}
	state, loop, err := r.readCheckpoint(from)
	if err != nil {
		return err
	}
	if loop, err = r.regroup(from, loop); err != nil {
		return err
	}
	continueRandom := func() error { return nil }
	if !loop.OnlyModel { // before fits, which would not say that the number of processes is another
		if continueRandom, err = r.saver.readRandom(from, loop.Position.GlobalStep); err != nil {
			return err
		}
	}
	if err := r.fits(from, loop); err != nil {
		return err
	}
	if err := r.resumeHooks(from, state); err != nil {
		return err
	}
	if err := r.loadCheckpoint(from, &loop); err != nil {
		return &unlike{cannotResume(from, "%w; resume with the model and the optimizer of that run, or begin a new one", err)}
	}
	if err := continueRandom(); err != nil {
		return err
	}
	r.restoreBest(from, state, loop)
	r.resumeLoop(from, state, loop)
	r.run.Info.ResumedFrom = from
	return r.saver.warnOfNewer(from)
}

// resumeState continues from the state that a [Saver] was given.
func (r *runner) resumeState(start StartPosition) error {
	const from = "Options.Start.State"
	var s bothStates
	if err := json.Unmarshal(start.State, &s); err != nil {
		return cannotResume(from, "%w", err)
	}
	if err := s.Loop.validate(); err != nil {
		return cannotResume(from, "%w", err)
	}
	if err := r.fits(from, s.Loop); err != nil {
		return err
	}
	if err := r.resumeHooks(from, s.Trainer); err != nil {
		return err
	}
	if err := r.load(start); err != nil {
		return err
	}
	r.restoreBest(from, s.Trainer, s.Loop)
	r.resumeLoop(from, s.Trainer, s.Loop)
	return nil
}

func (r *runner) resumeHooks(from string, state savedState) error {
	if r.o.Semantics.ForgetHooksAtResume {
		return nil
	}
	notes, err := restoreHooks(r.hooks, state.StatefulCallbacks)
	if err != nil {
		return err
	}
	for _, note := range notes {
		r.warn("%s %s", from, note)
	}
	return nil
}

// resumeLoop restores the counts, the losses and the position.
func (r *runner) resumeLoop(from string, state savedState, loop loopState) {
	r.history, r.historyText = state.LogHistory, historyText{}
	r.tokens, r.flops = state.NumInputTokensSeen, float64(state.TotalFlos)
	r.startTokens = r.tokens
	if !loop.OnlyModel {
		r.rates.restore(loop, r.o.Semantics)
	}
	r.record.restore(loop, r.o.Semantics)
	if parts := r.parts.Load(); parts > 1 && !r.o.DivideOnOutOfMemory {
		r.parts.Store(1)
		r.warn("%s was made by a run that trained each batch in %d parts because memory ran out; "+
			"Options.DivideOnOutOfMemory is not set, so batches are whole again", from, parts)
	}
	if r.o.Semantics.IntervalsFromCheckpoint {
		r.restoreIntervals(state)
	}
	position := loop.Position
	position.LastSaved = -1
	if r.saver.saves() && (r.o.Saver != nil || r.checkpointPath(position.GlobalStep) == from) {
		position.LastSaved = position.GlobalStep
		if r.o.Saver == nil {
			r.saver.checkpoint, r.saver.spoiled = from, loop.NonFinite
		}
		// a run that was killed after a save, but before it deleted older ones, has left one
		// checkpoint too many
		if r.o.ResumeFrom == Latest {
			r.saver.rotate()
		}
	}
	r.loop.resume(position)
	if r.onlyModel = loop.OnlyModel; r.onlyModel {
		r.loop.LoaderStarted = false // the generator that was drawn from was not restored
	}
	r.eval.evaluated = loop.Evaluated
	if r.loop.EvalSet >= len(r.eval.sets) || r.eval.evaluated == nil {
		r.loop.EvalSet, r.eval.evaluated = 0, nil
	}
	r.show()
}

// loadStep loads the step from a checkpoint; from one with SaveOnlyModel, only the weights.
func (r *runner) loadStep(from string, loop loopState) error {
	if !loop.OnlyModel {
		return r.step.Load(from, LoadOptions{Settings: r.o.Semantics.OptimizerFromCheckpoint})
	}
	if !r.o.Semantics.ResumeFromWeights {
		return ErrOnlyModel
	}
	r.warn("%s holds only the weights: moments, learning rate and random numbers start over", from)
	return r.step.Load(from, LoadOptions{WeightsOnly: true})
}

func (r *runner) restoreBest(from string, state savedState, loop loopState) {
	if state.BestMetric == nil {
		return
	}
	if r.eval.bestMetricChanged(loop) {
		r.recomputeBest(from, state)
		return
	}
	r.best = Best{Metric: loop.BestMetric, Value: float64(*state.BestMetric), Metrics: Metrics(loop.BestMetrics)}
	if r.best.Metric == "" {
		r.best.Metric = evalPrefix + r.eval.bestMetric.name
	}
	if state.BestGlobalStep != nil {
		r.best.GlobalStep = *state.BestGlobalStep
	}
	if state.BestModelCheckpoint == nil {
		return
	}
	// If the run's folder has been moved, it is next to the checkpoint we resume from.
	for _, path := range []string{*state.BestModelCheckpoint, filepath.Join(filepath.Dir(from),
		filepath.Base(*state.BestModelCheckpoint))} {
		if _, err := os.Stat(path); err == nil {
			r.best.Checkpoint = path
			return
		}
	}
	r.warn("the best checkpoint %s no longer exists", *state.BestModelCheckpoint)
}

// bestMetricChanged reports whether the best evaluation of a checkpoint was decided by another
// metric, or in the other direction.
func (ev *evaluator) bestMetricChanged(loop loopState) bool {
	then, ok := loop.Configuration["Direction"]
	return ev.decides() && (loop.BestMetric != "" && loop.BestMetric != evalPrefix+ev.bestMetric.name ||
		ok && then != ev.bestMetric.direction())
}

// recomputeBest finds the best evaluation in the log of a checkpoint, by the metric of this run.
func (r *runner) recomputeBest(from string, state savedState) {
	r.best = r.eval.bestMetric.bestOf(state.LogHistory)
	if r.best.Metric == "" {
		r.warn("the log of %s has no %s, the metric that now decides the best evaluation, so the next evaluation "+
			"counts as the best so far", from,
			evalPrefix+r.eval.bestMetric.name)
		return
	}
	path := filepath.Join(filepath.Dir(from), checkpointPrefix+strconv.Itoa(r.best.GlobalStep))
	if _, err := os.Stat(path); err == nil {
		r.best.Checkpoint = path
	}
}

func (r *runner) restoreIntervals(state savedState) {
	r.stateBatchSize = state.TrainBatchSize
	for _, i := range []struct {
		trigger *Trigger
		steps   int
	}{{&r.loop.flow.log, state.LoggingSteps}, {&r.loop.flow.eval, state.EvalSteps},
		{&r.loop.flow.save, state.SaveSteps}} {
		if i.trigger.kind == every && i.trigger.unit == Update && i.steps > 0 {
			i.trigger.n = i.steps
		}
	}
}

// warnOfNewer warns of checkpoints newer than the one resumed from, since they belong to another
// course of the run.
func (s *saver) warnOfNewer(from string) error {
	if s.store == nil || filepath.Dir(from) != s.store.Dir() {
		return nil
	}
	steps, err := s.steps()
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step > s.loop.GlobalStep {
			s.warn("%s is newer than %s, from which this run continues; until it is replaced, trainer.Latest would "+
				"resume from it", s.store.Path(step), filepath.Base(from))
		}
	}
	return nil
}

// newestCheckpoint returns the newest complete checkpoint in a folder, without locking the folder;
// empty if there is none.
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
		if !ok || err != nil || step <= newest || verifyCheckpoint(filepath.Join(dir, e.Name())) != nil {
			continue
		}
		newest, path = step, filepath.Join(dir, e.Name())
	}
	return path, nil
}

const checkpointPrefix = "checkpoint-"

// saves reports whether the run writes checkpoints, in this process or in the main one.
func (s *saver) saves() bool {
	return s.store != nil || s.o.Saver != nil || s.o.OutputDir != "" && !s.o.Process.Main()
}

func (s *session) checkpointPath(step int) string {
	return filepath.Join(s.run.Info.OutputDir, checkpointPrefix+strconv.Itoa(step))
}
