package trainer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// TransformersStep is a [Step] that reads and writes the files in which Hugging Face's Trainer
// keeps its state: optimizer.pt, scheduler.pt, rng_state.pth and, with fp16, scaler.pt. The steps
// of package engine implement it. Such a run can be resumed from a checkpoint of transformers, and
// writes such checkpoints with Options.TransformersFiles.
type TransformersStep interface {
	// SaveTransformers writes these files to dir, next to those that Save has just written with the
	// same options. Anything it leaves to SaveOptions.Later is written from the copy made by Save,
	// after what Save has left to it.
	SaveTransformers(dir string, s SchedulePosition, o SaveOptions) error
	// LoadTransformers restores the state of the step, including the weights, from the files in
	// dir. If any of them does not fit, it changes nothing.
	LoadTransformers(dir string) (SchedulePosition, error)
}

// SchedulePosition is the position in the learning rate schedule: scheduler.pt.
type SchedulePosition struct {
	Moves int     // how often the rate has changed
	Peak  float64 // the rate on which the schedule is based
	Next  float64 // the rate of the next update
}

// optimizerFile is a file that transformers leaves out with save_only_model.
const optimizerFile = "optimizer.pt"

// fromTransformers reports whether a folder is a checkpoint that only transformers has written: it
// has trainer_state.json, but neither our loop state nor our manifest.
func fromTransformers(dir string) bool {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return has(stateFile) && !has(loopFile) && !has(checkpoint.ManifestName)
}

// verifyCheckpoint is checkpoint.Verify. A checkpoint of transformers has no checksums, so only its
// state is read.
func verifyCheckpoint(dir string) error {
	if !fromTransformers(dir) {
		return checkpoint.Verify(dir)
	}
	_, err := readTransformersState(dir)
	return err
}

func readTransformersState(dir string) (s savedState, err error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && (s.GlobalStep < 0 || s.TrainBatchSize < 0) {
		err = fmt.Errorf("its global_step is %d and its train_batch_size %d, want no negative number", s.GlobalStep,
			s.TrainBatchSize)
	}
	if err != nil {
		return s, &checkpoint.DamagedError{Path: dir, File: stateFile, Err: err}
	}
	return s, nil
}

// readCheckpoint is readStates, but also reads checkpoints of transformers.
func (r *runner) readCheckpoint(from string) (savedState, loopState, error) {
	if !fromTransformers(from) {
		return readStates(from)
	}
	state, err := readTransformersState(from)
	if err != nil {
		return state, loopState{}, cannotResume(from, "%w", err)
	}
	if _, ok := r.step.given.(TransformersStep); !ok {
		return state, loopState{}, cannotResume(from, "transformers has written it, and %T is not a "+
			"trainer.TransformersStep: %s", r.step.given, passOn("SaveTransformers and LoadTransformers"))
	}
	if r.o.Adaptive != nil {
		return state, loopState{}, cannotResume(from, "transformers has written it, and the state of a schedule "+
			"that follows the evaluations is not read from its files; use Options.Schedule")
	}
	return state, r.transformersLoop(from, state), nil
}

// transformersLoop computes the state of the loop for a checkpoint of transformers from its number
// of updates. It assumes that the checkpoint was saved where this trainer saves: after an update
// or, if the options save then, after an epoch.
func (r *runner) transformersLoop(from string, state savedState) loopState {
	p := position{At: stepSave, Done: true, GlobalStep: state.GlobalStep, Updates: state.GlobalStep,
		Progress: float64(state.Epoch), LastLogged: state.GlobalStep, LastSaved: -1, LoaderStarted: true}
	plan, rules := r.loop.plan, r.loop.flow.rules
	switch {
	case p.GlobalStep == 0:
		p.At, p.Done, p.LoaderStarted = epochBegin, false, false
	case plan.stream:
		p.Micro, p.InEpoch = p.GlobalStep*plan.accumulate, p.GlobalStep
	default:
		p.Epoch = (p.GlobalStep - 1) / plan.stepsPerEpoch
		p.InEpoch = p.GlobalStep - p.Epoch*plan.stepsPerEpoch
		p.Micro = min(p.InEpoch*plan.batchesPerStep(rules), plan.batches)
		if p.InEpoch == plan.stepsPerEpoch && r.loop.flow.save.kind == every && !r.loop.flow.save.byUpdates() {
			p.At = epochSave
		}
	}
	_, err := os.Stat(filepath.Join(from, optimizerFile))
	sizes := r.sizes()
	sizes.BatchSize = cmp.Or(state.TrainBatchSize, sizes.BatchSize)
	return loopState{Format: loopFormat, Position: p, Sizes: sizes, OnlyModel: errors.Is(err, fs.ErrNotExist),
		Configuration: map[string]string{"MaxSteps": fmt.Sprint(state.MaxSteps)}}
}

// loadCheckpoint loads the step from a checkpoint. From one of transformers it adds the position of
// the schedule to the loop's state.
func (r *runner) loadCheckpoint(from string, loop *loopState) error {
	step, ok := r.step.given.(TransformersStep)
	if !ok || loop.OnlyModel || !fromTransformers(from) {
		return r.loadStep(from, *loop)
	}
	s, err := step.LoadTransformers(from)
	loop.ScheduleStep, loop.PeakRate, loop.NextRate = s.Moves, s.Peak, s.Next
	return err
}

// loadWhole loads the whole step from a checkpoint of this run, which may be the one it was resumed
// from.
func (r *runner) loadWhole(path string) error {
	if step, ok := r.step.given.(TransformersStep); ok && fromTransformers(path) {
		_, err := step.LoadTransformers(path) // the schedule continues
		return err
	}
	return r.step.Load(path, LoadOptions{KeepOrder: true})
}

// saveTransformers adds the files of transformers to a checkpoint, if the options want them.
func (s *saver) saveTransformers(dir string, loop loopState, o SaveOptions) error {
	if !s.o.TransformersFiles {
		return nil
	}
	// checked by New
	return s.step.given.(TransformersStep).SaveTransformers(dir, SchedulePosition{Moves: loop.ScheduleStep,
		Peak: loop.PeakRate, Next: loop.NextRate}, o)
}

// checkTransformers refuses TransformersFiles if the files would not be what transformers writes.
func (o *Options) checkTransformers(step any) error {
	refuse := func(want string) error { return &OptionError{"TransformersFiles", "true", want} }
	switch {
	case !o.TransformersFiles:
		return nil
	case o.OutputDir == "" || o.Saver != nil || o.Save.kind == never:
		return refuse("false, since no checkpoint is written to OutputDir")
	case o.SaveOnlyModel:
		return refuse("false, since SaveOnlyModel leaves the state out")
	case o.Adaptive != nil:
		return refuse("false, since Adaptive is set: the state of such a schedule is another file in Python")
	case o.Process.World > 1:
		return refuse("false, since the run has several processes: each would have random states of its own")
	case !has[TransformersStep](step):
		return fmt.Errorf("trainer: Options.TransformersFiles is set, but %T is not a trainer.TransformersStep: %s",
			step,
			passOn("SaveTransformers and LoadTransformers"))
	}
	return nil
}
