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
// keeps its state: optimizer.pt, scheduler.pt, rng_state.pth and, of fp16, scaler.pt. Package
// engine's steps are. With it a run continues from a checkpoint of transformers, and writes such
// checkpoints with Options.TransformersFiles.
type TransformersStep interface {
	// SaveTransformers writes these files into dir, beside what Save has written just before with
	// the same options. What it leaves to SaveOptions.Later is written of the copy that Save has
	// made, behind what Save has left to it.
	SaveTransformers(dir string, s SchedulePosition, o SaveOptions) error
	// LoadTransformers puts the step where the files of dir say, the weights too, and changes
	// nothing if any of them does not fit.
	LoadTransformers(dir string) (SchedulePosition, error)
}

// SchedulePosition is where the learning rate stands: scheduler.pt.
type SchedulePosition struct {
	Moves int     // how often the rate has moved
	Peak  float64 // the rate that the schedule was planned from
	Next  float64 // of the next update
}

// optimizerFile is what transformers leaves out with save_only_model.
const optimizerFile = "optimizer.pt"

// fromTransformers reports whether a folder is a checkpoint that transformers alone has written: it
// has its state, and neither ours nor our manifest.
func fromTransformers(dir string) bool {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return has(stateFile) && !has(loopFile) && !has(checkpoint.ManifestName)
}

// verifyCheckpoint is checkpoint.Verify, and for a folder of transformers, which has no sums, that
// its state can be read.
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

// readCheckpoint is readStates, of a checkpoint of transformers too.
func (r *runner[S, B]) readCheckpoint(from string) (savedState, loopState, error) {
	if !fromTransformers(from) {
		return readStates(from)
	}
	state, err := readTransformersState(from)
	if err != nil {
		return state, loopState{}, cannotResume(from, "%w", err)
	}
	if _, ok := r.step.(TransformersStep); !ok {
		return state, loopState{}, cannotResume(from, "transformers has written it, and %T is not a "+
			"trainer.TransformersStep: %s", r.step, passOn("SaveTransformers and LoadTransformers"))
	}
	if r.o.Adaptive != nil {
		return state, loopState{}, cannotResume(from, "transformers has written it, and the state of a schedule "+
			"that follows the evaluations is not read from its files; use Options.Schedule")
	}
	return state, r.transformersLoop(from, state), nil
}

// transformersLoop works out from the count of updates where the loop of a checkpoint stood: the
// rest is as it is where this trainer has saved after an update, or after an epoch if the options
// save then.
func (r *runner[S, B]) transformersLoop(from string, state savedState) loopState {
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

// loadCheckpoint puts the step where a checkpoint was made. What transformers keeps of the schedule
// in a file of its own is added to the loop's state.
func (r *runner[S, B]) loadCheckpoint(from string, loop *loopState) error {
	step, ok := r.step.(TransformersStep)
	if !ok || loop.OnlyModel || !fromTransformers(from) {
		return r.loadStep(from, *loop)
	}
	s, err := step.LoadTransformers(from)
	loop.ScheduleStep, loop.PeakRate, loop.NextRate = s.Moves, s.Peak, s.Next
	return err
}

// loadWhole puts the step back to a checkpoint of this run, which it may have been resumed from.
func (r *runner[S, B]) loadWhole(path string) error {
	if step, ok := r.step.(TransformersStep); ok && fromTransformers(path) {
		_, err := step.LoadTransformers(path) // the schedule continues
		return err
	}
	return r.step.Load(path, LoadOptions{KeepOrder: true})
}

// saveTransformers writes the files of transformers into a checkpoint, where the options want them.
func (s *saver[S, B]) saveTransformers(dir string, loop loopState, o SaveOptions) error {
	if !s.o.TransformersFiles {
		return nil
	}
	// New has checked that it is one
	return s.step.(TransformersStep).SaveTransformers(dir, SchedulePosition{Moves: loop.ScheduleStep,
		Peak: loop.PeakRate, Next: loop.NextRate}, o)
}

// checkTransformers refuses the option where its files would not be what transformers writes.
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
