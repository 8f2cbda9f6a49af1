package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// save writes a checkpoint, then rotates older ones.
func (f *fit[S, B]) save() error {
	if !f.saves() {
		return &OptionError{"OutputDir", `""`, "a folder, since a hook asked for a checkpoint"}
	}
	if f.o.Saver == nil && !f.t.step.About().Saves {
		return cannot(f.t.step, fmt.Sprintf("a hook asked for a checkpoint after update %d", f.loop.GlobalStep),
			"be saved", "Saves", "implement Save and Load, and set it")
	}
	if !f.o.Semantics.ForgetLossAtResume {
		if err := f.report(); err != nil {
			return err
		}
	}
	random, err := f.gatherRandom()
	if err != nil {
		return err
	}
	saved := f.loop.LastSaved
	f.loop.LastSaved = f.loop.GlobalStep
	best := f.bestCheckpoint()
	path, err := f.writeCheckpoint(random, best)
	if err != nil {
		f.loop.LastSaved = saved
		return f.stepError("save", err)
	}
	if err := f.barrier("wait for the main process to save"); err != nil {
		return err
	}
	f.checkpoint, f.best.Checkpoint = path, best
	if err := f.pushCheckpoint(); err != nil {
		return err
	}
	f.rotate()
	f.loop.Control.ShouldSave = false
	return fire(f, f.hooks.save, "AfterSave", func(h SaveHook, r *Run) error { return h.AfterSave(r, path) })
}

// writeCheckpoint has the checkpoint written, by Options.Saver where there is one, and returns
// where it is. Of several processes the main one writes.
func (f *fit[S, B]) writeCheckpoint(random [][]byte, best string) (string, error) {
	switch {
	case f.o.Saver != nil:
		f.show()
		state, err := f.state(best)
		if err != nil {
			return "", err
		}
		return f.o.Saver.SaveCheckpoint(f.run, state)
	case f.store == nil:
		return f.checkpointPath(f.loop.GlobalStep), nil
	}
	return f.store.Write(f.loop.GlobalStep, func(dir string) error {
		if err := f.t.step.Save(dir, SaveOptions{WeightsOnly: f.o.SaveOnlyModel}); err != nil {
			return err
		}
		if random != nil {
			if err := writeJSON(filepath.Join(dir, randomFile), random); err != nil {
				return err
			}
		}
		return f.writeStates(dir, best)
	})
}

// rotate deletes old checkpoints, but none that is the best or being uploaded.
func (f *fit[S, B]) rotate() {
	if f.store == nil {
		return
	}
	var protect []string
	if f.best.Checkpoint != "" {
		protect = append(protect, f.best.Checkpoint)
	}
	if f.pushes != nil {
		protect = append(protect, f.pushes.folders()...)
	}
	if err := f.store.Rotate(protect...); err != nil {
		// no reason to end a run
		f.warn("old checkpoints could not be deleted after update %d: %v", f.loop.GlobalStep, err)
	}
}

// bestCheckpoint is where the model of the best evaluation is, as of the checkpoint that is about
// to be written.
func (f *fit[S, B]) bestCheckpoint() string {
	// transformers takes update 0 for none
	if f.best.Metric == "" || f.forgetsBestStep() || f.best.GlobalStep == 0 && f.o.Semantics.BestMayBeUnsaved {
		return ""
	}
	path := f.checkpointPath(f.best.GlobalStep)
	if f.best.GlobalStep == f.loop.GlobalStep {
		return path
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return f.best.Checkpoint
}

// forgetsBestStep tells whether nobody remembers at which update the best evaluation was:
// transformers does not where only hooks save.
func (f *fit[S, B]) forgetsBestStep() bool {
	return f.o.Save.kind == never && f.o.Semantics.BestMayBeUnsaved
}

// savedState is trainer_state.json as of now.
func (f *fit[S, B]) savedState(best string) (savedState, error) {
	states, err := hookStates(f.hooks.all)
	if err != nil {
		return savedState{}, err
	}
	if states["TrainerControl"], err = f.loop.Control.exported(); err != nil {
		return savedState{}, err
	}
	s := savedState{
		Epoch: jsonFloat(f.loop.Progress), GlobalStep: f.loop.GlobalStep, MaxSteps: f.loop.plan.maxSteps,
		NumTrainEpochs: f.loop.plan.epochs,
		LogHistory:     append([]Logs{}, f.history...), StatefulCallbacks: states, TrainBatchSize: f.savedBatchSize(),
		NumInputTokensSeen: f.tokens, TotalFlos: jsonFloat(f.flops),
		IsLocalProcessZero: f.o.Process.LocalRank == 0, IsWorldProcessZero: f.o.Process.Main(),
		EvalSteps: updatesOf(f.loop.flow.eval), LoggingSteps: updatesOf(f.loop.flow.log),
		SaveSteps: updatesOf(f.loop.flow.save),
	}
	if f.best.Metric != "" {
		value := jsonFloat(f.best.Value)
		s.BestMetric, s.BestGlobalStep = &value, &f.best.GlobalStep
		if f.forgetsBestStep() {
			s.BestGlobalStep = nil
		}
	}
	if best != "" {
		s.BestModelCheckpoint = &best
	}
	return s, nil
}

// writeStates writes the two state files of a checkpoint.
func (f *fit[S, B]) writeStates(dir, best string) error {
	s, l, err := f.states(best)
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, stateFile), s); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, loopFile), l)
}

// state is the state of the run as a Saver keeps it.
func (f *fit[S, B]) state(best string) ([]byte, error) {
	s, l, err := f.states(best)
	if err != nil {
		return nil, err
	}
	return json.Marshal(bothStates{s, l})
}

// stateNow is Run.State.
func (f *fit[S, B]) stateNow(done bool) ([]byte, error) {
	p := f.loop.place(done)
	if !p.possible() {
		return nil, fmt.Errorf("trainer: Run.State: no run can begin where this one stands (%s); ask for it in "+
			"AroundEpoch, StepEnd, EpochEnd, EpochDone or TrainEnd", p.At)
	}
	if !f.o.Semantics.ForgetLossAtResume {
		if err := f.report(); err != nil {
			return nil, err
		}
	}
	s, l, err := f.states(f.bestCheckpoint())
	if err != nil {
		return nil, err
	}
	l.Position = p
	return json.Marshal(bothStates{s, l})
}

// states are the state of the run as of now.
func (f *fit[S, B]) states(best string) (savedState, loopState, error) {
	s, err := f.savedState(best)
	if err != nil {
		return s, loopState{}, err
	}
	l := loopState{
		Format: loopFormat, Position: f.loop.saved(), Sizes: f.sizes(), ScheduleStep: f.scheduleStep,
		PeakRate: f.o.LearningRate, NextRate: f.rate(f.scheduleStep),
		LastRate: f.lastRate, LossSum: jsonFloat(f.lossSum), LossTotal: jsonFloat(f.lossTotal),
		BestMetric: f.best.Metric, BestMetrics: Logs(f.best.Metrics),
		Evaluated: f.evaluated, OnlyModel: f.o.SaveOnlyModel, Losses: f.losses.state(),
	}
	if f.controller != nil {
		if l.Controller, err = f.controller.State(); err != nil {
			return s, l, fmt.Errorf("state of Options.Adaptive: %w", err)
		}
	}
	if f.gradNorm != nil {
		norm := jsonFloat(*f.gradNorm)
		l.GradNorm = &norm
	}
	return s, l, nil
}

// savedBatchSize is the batch size in trainer_state.json: where the semantics keep the intervals of
// a checkpoint, its own too.
func (f *fit[S, B]) savedBatchSize() int {
	if f.stateBatchSize > 0 {
		return f.stateBatchSize
	}
	return f.o.BatchSize
}

// updatesOf is how transformers writes an interval that is not one of updates: its default.
func updatesOf(t Trigger) int {
	if t.kind == every && t.unit == Update {
		return t.n
	}
	return 500
}

func (f *fit[S, B]) sizes() sizes {
	return sizes{TrainSamples: f.run.Info.TrainSamples, BatchSize: f.o.BatchSize, Accumulate: f.o.Accumulate,
		DropLast: f.o.DropLast, DataSeed: f.o.DataSeed}
}

// end carries out doTrainEnd.
func (f *fit[S, B]) end() error {
	if f.o.LoadBestAtEnd {
		if err := f.loadBest(); err != nil {
			return err
		}
	}
	if f.o.Semantics.OnlyBestAtEnd && f.o.KeepCheckpoints == 1 && f.best.Checkpoint != "" && f.store != nil {
		if f.pushes != nil {
			f.pushes.wait() // it may be uploading what is about to go
		}
		f.deleteAllButBest()
	}
	if err := fire(f, f.hooks.trainEnd, "TrainEnd", TrainEndHook.TrainEnd); err != nil {
		return err
	}
	return f.pushEnd()
}

func (f *fit[S, B]) loadBest() error {
	if f.best.Checkpoint == "" {
		f.warn("LoadBestAtEnd: no checkpoint of a best evaluation exists, so the weights are those of the last update")
		return nil
	}
	if err := checkpoint.Verify(f.best.Checkpoint); err != nil {
		return f.stepError("load the best model", err)
	}
	return f.stepError("load the best model", f.t.step.Load(f.best.Checkpoint, LoadOptions{WeightsOnly: true}))
}

func (f *fit[S, B]) deleteAllButBest() {
	steps, err := f.store.Steps()
	for _, step := range steps {
		if path := f.store.Path(step); filepath.Base(path) != filepath.Base(f.best.Checkpoint) {
			err = errors.Join(err, os.RemoveAll(path))
			if path == f.checkpoint {
				f.checkpoint = f.best.Checkpoint
			}
		}
	}
	if err != nil {
		f.warn("old checkpoints could not be deleted at the end: %v", err)
	}
}

func (f *fit[S, B]) result() *Result {
	return &Result{
		GlobalStep: f.loop.GlobalStep, Epoch: f.loop.Progress, TrainLoss: f.final["train_loss"], Metrics: f.final,
		Best:       f.best,
		Checkpoint: f.checkpoint, StopReason: f.stopReason, History: slices.Clip(f.history), Warnings: f.warnings,
	}
}
