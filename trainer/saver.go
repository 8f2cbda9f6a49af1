package trainer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// saver writes the checkpoints of a run, deletes old ones and knows which is the best.
type saver struct {
	*session
	uploads    uploads
	store      *checkpoint.Store // nil without an output folder
	checkpoint string            // the newest checkpoint
	loaded     string            // the checkpoint whose weights LoadBestAtEnd has loaded
	again      bool              // an earlier attempt of the run ran out of memory
	spoiled    bool              // the weights were not finite when they were last saved
	failed     error             // why the last checkpoint could not be written; nil: it was written
	underWay   *saving           // the save in progress in another goroutine; nil: none
	waited     time.Duration     // time spent waiting for saves in progress
	// warnings of the store, some of them from a goroutine that saves
	storeWarnings storeWarnings
	// states returns the state files of a checkpoint; best is the path of the best model's
	// checkpoint.
	states func(best string) (savedState, loopState, error)
}

// SaveFailure says what a run does when a checkpoint cannot be written because the disk is full or
// fails. If there is no room for a new checkpoint, the trainer first makes room by deleting the
// oldest checkpoint that the options do not require to be kept.
type SaveFailure int

const (
	// RetrySave warns, continues, and tries again after each update until it succeeds. If the last
	// attempt of a run failed, its error is returned with the Result.
	RetrySave         SaveFailure = iota
	StopAtSaveFailure             // end the run with the error
)

// save writes a checkpoint, or leaves that to the next update if writing fails and the options
// allow it.
func (s *saver) save(async bool) error { return s.retryLater(s.write(async)) }

// retryLater returns the error of a save, or nil if the options leave the save to the next update.
func (s *saver) retryLater(err error) error {
	failed, ok := errors.AsType[*StepError](err) // the error of a hook after the save is not an error of the save
	again := checkpoint.IsSaveError(err) && s.o.SaveFailure == RetrySave || errors.Is(err, ErrChangedWhileSaved)
	if !ok || failed.Op != "save" || !again {
		return err
	}
	if s.failed == nil {
		s.warn("%v; the run continues, and tries again after the next update", err)
	}
	s.failed, s.loop.saveAgain = err, true
	s.loop.Control.ShouldSave = false
	return nil
}

// write writes a checkpoint and then deletes older ones. With async it only copies the state, and
// leaves the rest to another goroutine.
func (s *saver) write(async bool) error {
	if !s.saves() {
		return wrong("OutputDir", `""`, "a folder, since a hook asked for a checkpoint")
	}
	if s.o.Saver == nil && !s.step.About().Saves {
		return cannot(s.step.given, fmt.Sprintf("a hook asked for a checkpoint after update %d", s.loop.GlobalStep),
			"be saved", "Saves", remedySaves)
	}
	if err := s.settle(true); err != nil {
		return err
	}
	if !s.o.Semantics.ForgetLossAtResume {
		if err := s.report(); err != nil {
			return err
		}
	}
	finite := true
	if !async || s.several() { // otherwise the other goroutine checks the copy
		var err error
		if finite, err = s.checkWeights(); err != nil {
			return err
		}
	}
	random, err := s.gatherRandom()
	if err != nil {
		return err
	}
	v := &saving{step: s.loop.GlobalStep, saved: s.loop.LastSaved, path: s.checkpointPath(s.loop.GlobalStep),
		best: s.bestCheckpoint(), bestStep: s.best.GlobalStep, message: s.uploads.message(), async: async,
		spoiled: !finite}
	s.loop.LastSaved = s.loop.GlobalStep
	err = s.attempt(v, random)
	if s.retryWithRoom(err) {
		err = s.attempt(v, random)
	}
	if async && (err == nil || s.several()) { // the other processes do not know of the error yet
		s.underWay = v
		v.start(err)
		s.loop.Control.ShouldSave = false
		return nil
	}
	return s.written(v, err)
}

// attempt writes the checkpoint, by Options.Saver if there is one. With async it leaves the writing
// to v.finish. With several processes only the main one writes, except for the parts of a sharded
// step.
func (s *saver) attempt(v *saving, random [][]byte) error {
	v.finish = func() error { return nil }
	if s.o.Saver == nil && s.store == nil {
		if s.sharded() {
			return s.savePart(v)
		}
		return nil
	}
	state, loop, err := s.states(v.best)
	if err != nil {
		return s.noFolder(err)
	}
	loop.NonFinite = v.spoiled
	if s.o.Saver != nil {
		s.show()
		text, err := json.Marshal(bothStates{state, loop})
		if err != nil {
			return err
		}
		v.path, err = s.o.Saver.SaveCheckpoint(s.run, text)
		return err
	}
	if err := s.take(v, random, state, loop); err != nil || v.async {
		return err
	}
	return v.finish()
}

// take puts everything into the folder of a checkpoint that depends on the current state of the
// run.
func (s *saver) take(v *saving, random [][]byte, state savedState, loop loopState) error {
	draft, err := s.store.Begin(v.step)
	if err != nil {
		return s.noFolder(err)
	}
	o := SaveOptions{WeightsOnly: s.o.SaveOnlyModel, Gradients: s.loop.Phase > 0}
	var later writes
	if v.async {
		o.Later = later.add
	}
	store, stay := s.store, s.bestOnDisk(v.best)
	if !s.o.Semantics.KeepOldRun { // with it, newer checkpoints of an earlier run count, and the new one may be deleted
		stay = append(stay, v.path)
	}
	v.finish = func() error {
		err := draft.Write(func(dir string) error {
			nonFinite, err := later.run()
			if err != nil {
				return err
			}
			return s.checkCopy(v, dir, loop, nonFinite)
		})
		if err == nil {
			err = draft.Commit()
		}
		if err == nil && !v.spoiled {
			v.rotated = store.Rotate(append(s.uploads.queue.folders(), stay...)...)
		}
		return err
	}
	return s.givenUp(v, &later, draft.Write(func(dir string) error {
		if err := s.saveStep(dir, o); err != nil {
			return err
		}
		if err := s.saveTransformers(dir, loop, o); err != nil {
			return err
		}
		if random != nil {
			if err := writeJSON(filepath.Join(dir, randomFile), random); err != nil {
				return err
			}
		}
		err := cmp.Or(s.historyText.writeState(filepath.Join(dir, stateFile), state),
			writeJSON(filepath.Join(dir, loopFile), loop))
		if err != nil {
			return err
		}
		return fireWith(s.session, "BeforeSeal", beforeSealHook.BeforeSeal, dir)
	}))
}

// checkCopy handles the weights that are not finite in the copy of an asynchronous save.
func (s *saver) checkCopy(v *saving, dir string, loop loopState, nonFinite []string) error {
	switch {
	case len(nonFinite) == 0 || v.spoiled:
		return nil
	case s.o.NonFinite != IgnoreNonFinite:
		return weightsError(nonFinite, v.step)
	}
	v.spoiled, loop.NonFinite = true, true
	return writeJSON(filepath.Join(dir, loopFile), loop)
}

// written completes a save that is on the disk, or has failed, on the goroutine of the loop.
func (s *saver) written(v *saving, err error) error {
	s.passOnWarnings()
	if err = s.agreeOnSave(err); err != nil {
		s.loop.unsaved(v.step, v.saved)
		if s.best.Checkpoint == v.path {
			s.best.Checkpoint = ""
		}
		return s.stepError("save", err)
	}
	if s.failed != nil {
		s.note("the checkpoint that failed before was written after update %d", v.step)
		s.failed, s.loop.saveAgain = nil, false
	}
	s.checkpoint, s.spoiled = v.path, v.spoiled
	if s.best.GlobalStep == v.bestStep || s.o.Semantics.BestMayBeUnsaved { // there has been no better one since
		s.best.Checkpoint = v.best
	}
	if err := s.uploads.saved(v.path, v.message); err != nil {
		return err
	}
	if v.rotated != nil { // not a reason to end the run
		s.warn("old checkpoints could not be deleted after update %d: %v", v.step, v.rotated)
	}
	if !v.async {
		s.loop.Control.ShouldSave = false
	}
	return fireWith(s.session, "AfterSave", afterSaveHook.AfterSave, v.path)
}

// makeRoom deletes a checkpoint that would be deleted after this save, and reports whether it has.
// It deletes none if the weights to be saved are not finite.
func (s *saver) makeRoom(full *checkpoint.SpaceError) bool {
	if s.store == nil {
		return false
	}
	if s.sharded() { // all processes have just checked their weights, and NonFinite needs them all
		if s.spoiled {
			return false
		}
	} else if bad, err := s.step.NonFinite(); err != nil || len(bad) > 0 {
		return false
	}
	before, err := s.store.Steps()
	if err == nil {
		err = s.store.MakeRoom(s.protected()...)
	}
	after, stepsErr := s.store.Steps()
	if err != nil || stepsErr != nil || len(after) == len(before) {
		return false
	}
	s.note("%v; older checkpoints were deleted before the new one was written", full)
	return true
}

// protected returns the checkpoints that must not be deleted: the best and those being uploaded.
func (s *saver) protected() []string {
	return append(s.uploads.queue.folders(), s.bestOnDisk(s.best.Checkpoint)...)
}

// bestOnDisk returns the checkpoint of the best model. If that of the best evaluation is not yet
// written or could not be written, it is the best of those on disk, if the run needs one.
func (s *saver) bestOnDisk(best string) []string {
	switch wanted := s.o.LoadBestAtEnd || s.o.Save.kind == atBest; {
	case best != "":
		return []string{best}
	case !wanted || s.o.Semantics.BestMayBeUnsaved:
		return nil
	}
	next := s.nextBest()
	return next[:min(1, len(next))]
}

// rotate deletes old checkpoints, except the best, the current one and those being uploaded.
func (s *saver) rotate() {
	if s.store == nil || s.spoiled {
		return
	}
	if err := s.store.Rotate(append(s.protected(), s.checkpoint)...); err != nil {
		// not a reason to end the run
		s.warn("old checkpoints could not be deleted after update %d: %v", s.loop.GlobalStep, err)
	}
}

// bestCheckpoint returns where the model of the best evaluation is, or will be once the current
// checkpoint is written.
func (s *saver) bestCheckpoint() string {
	// transformers treats update 0 as none
	if s.best.Metric == "" || s.forgetsBestStep() || s.best.GlobalStep == 0 && s.o.Semantics.BestMayBeUnsaved {
		return ""
	}
	path := s.checkpointPath(s.best.GlobalStep)
	if s.best.GlobalStep == s.loop.GlobalStep || s.underWay != nil && s.underWay.path == path {
		return path
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return s.best.Checkpoint
}

// forgetsBestStep reports whether the update of the best evaluation is not recorded: transformers
// does not record it if only hooks save.
func (s *saver) forgetsBestStep() bool {
	return s.o.Save.kind == never && s.o.Semantics.BestMayBeUnsaved
}

// end loads the best model and deletes all other checkpoints, if the options want it.
func (s *saver) end() error {
	if s.o.LoadBestAtEnd {
		if err := s.loadBest(); err != nil {
			return err
		}
	}
	if s.o.Semantics.OnlyBestAtEnd && s.o.KeepCheckpoints == 1 && s.best.Checkpoint != "" && s.store != nil {
		if err := s.uploads.makeUp(); err != nil { // one may be of a checkpoint that is about to be deleted
			return err
		}
		s.deleteAllButBest()
	}
	return nil
}

// final returns the checkpoint with the model that the run ends with.
func (s *saver) final() string {
	return cmp.Or(s.loaded, s.checkpoint)
}

// current returns the checkpoint of the current update; empty if there is none yet.
func (s *saver) current() string {
	switch {
	case !s.saves() || s.loop.LastSaved != s.loop.GlobalStep:
		return ""
	case s.o.Saver != nil:
		return s.checkpoint
	}
	return s.checkpointPath(s.loop.GlobalStep)
}

// loadBest loads the weights of the best evaluation. If its checkpoint could not be written, is
// damaged or gone, or has weights that are not finite, the next best one is loaded.
func (s *saver) loadBest() error {
	var candidates []string
	if s.best.Checkpoint != "" {
		candidates = append(candidates, s.best.Checkpoint)
	}
	if s.best.Checkpoint != "" || !s.o.Semantics.BestMayBeUnsaved {
		candidates = append(candidates, s.nextBest()...)
	}
	if len(candidates) == 0 {
		s.warn("LoadBestAtEnd: no checkpoint of a best evaluation exists, so the weights are those of the last update")
		return nil
	}
	for _, path := range candidates {
		if err := verifyCheckpoint(path); err != nil {
			s.warn("LoadBestAtEnd: %v", err)
			continue
		}
		if _, loop, err := readStates(path); err == nil && loop.NonFinite {
			s.warn("LoadBestAtEnd: the weights in %s are not finite", path)
			continue
		}
		if path != s.best.Checkpoint {
			s.warn("LoadBestAtEnd: the weights are those of the next best checkpoint, %s", path)
		}
		s.loaded = path
		return s.stepError("load the best model", s.step.Load(path, LoadOptions{WeightsOnly: true}))
	}
	s.warn("LoadBestAtEnd: no checkpoint can be loaded, so the weights are those of the last update")
	return nil
}

// nextBest returns the checkpoints of the other evaluations, the best first.
func (s *saver) nextBest() []string {
	rows := slices.DeleteFunc(slices.Clone(s.history), func(row Logs) bool {
		_, ok := row[s.best.Metric]
		return !ok || int(row["step"]) == s.best.GlobalStep
	})
	slices.SortStableFunc(rows, func(a, b Logs) int {
		switch x, y := a[s.best.Metric], b[s.best.Metric]; {
		case s.run.Better(x, y):
			return -1
		case s.run.Better(y, x):
			return 1
		}
		return 0
	})
	var paths []string
	for _, row := range rows {
		path := s.checkpointPath(int(row["step"]))
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

func (s *saver) deleteAllButBest() {
	steps, err := s.store.Steps()
	for _, step := range steps {
		if path := s.store.Path(step); filepath.Base(path) != filepath.Base(s.best.Checkpoint) {
			err = errors.Join(err, os.RemoveAll(path))
			if path == s.checkpoint {
				s.checkpoint = s.best.Checkpoint
			}
		}
	}
	if err != nil {
		s.warn("old checkpoints could not be deleted at the end: %v", err)
	}
}
