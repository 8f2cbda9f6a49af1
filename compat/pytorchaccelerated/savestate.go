package pytorchaccelerated

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// SaveTrainingState writes training states to resume from, into folders named epoch_N, step_N and
// final. The state of a run that was cancelled goes into interrupted.
type SaveTrainingState struct {
	SaveDir          string // empty: "training_states"
	SaveEveryNEpochs int    // zero: not by epochs
	SaveEveryNSteps  int    // batches; zero: not by steps
	NotAtEnd         bool   // save_at_end=False
	MaxCheckpoints   int    // how many to keep; the oldest of this run, resumed or not, are deleted. Zero: all

	globalStep int
	asked      []string // folders of states that are not written yet
	saved      []string
}

func (s *SaveTrainingState) OnTrainingRunStart(r *Run) error {
	if s.SaveEveryNEpochs < 0 || s.SaveEveryNSteps < 0 || s.MaxCheckpoints < 0 {
		return fmt.Errorf("its SaveEveryNEpochs is %d, its SaveEveryNSteps %d and its MaxCheckpoints %d: want "+
			"numbers that are not negative", s.SaveEveryNEpochs, s.SaveEveryNSteps, s.MaxCheckpoints)
	}
	s.asked = nil
	if !r.resumed {
		s.globalStep, s.saved = 0, nil
	}
	return os.MkdirAll(s.dir(), 0o777)
}

func (s *SaveTrainingState) dir() string { return cmp.Or(s.SaveDir, "training_states") }

// OnTrainStepEnd requests a state, which is written when the update of the step is complete.
func (s *SaveTrainingState) OnTrainStepEnd(r *Run, _ TrainStepEnd) error {
	s.globalStep++
	if s.SaveEveryNSteps == 0 || s.globalStep%s.SaveEveryNSteps != 0 {
		return nil
	}
	return s.save(r, fmt.Sprintf("step_%d", s.globalStep))
}

// OnTrainEpochEnd saves where Python does: before the evaluation.
func (s *SaveTrainingState) OnTrainEpochEnd(r *Run) error {
	return s.saveEpoch(r, r.rules.EpochsPerSession)
}

// OnTrainingRunEpochEnd saves when the epoch is complete, including its evaluation.
func (s *SaveTrainingState) OnTrainingRunEpochEnd(r *Run) error {
	return s.saveEpoch(r, !r.rules.EpochsPerSession)
}

func (s *SaveTrainingState) saveEpoch(r *Run, due bool) error {
	epoch := r.History().CurrentEpoch()
	if !due || s.SaveEveryNEpochs == 0 || epoch%s.SaveEveryNEpochs != 0 {
		return nil
	}
	return s.save(r, fmt.Sprintf("epoch_%d", epoch))
}

func (s *SaveTrainingState) OnTrainingRunEnd(r *Run) error {
	if s.NotAtEnd {
		return nil
	}
	return s.save(r, "final")
}

func (s *SaveTrainingState) extra() map[string]any {
	return map[string]any{"global_step": s.globalStep}
}

func (s *SaveTrainingState) save(r *Run, name string) error {
	dir := filepath.Join(s.dir(), name)
	s.asked = append(s.asked, dir)
	return r.SaveTrainingState(dir, s.extra())
}

// OnTrainingStateSaved deletes old states once the new one exists.
func (s *SaveTrainingState) OnTrainingStateSaved(r *Run, dir string, _ Metadata) error {
	i := slices.Index(s.asked, dir)
	if i < 0 {
		return nil
	}
	s.asked = slices.Delete(s.asked, i, i+1)
	s.saved = append(slices.DeleteFunc(s.saved, func(old string) bool { return old == dir }), dir)
	r.Print("\nSaved training state to " + dir)
	for s.MaxCheckpoints > 0 && len(s.saved) > s.MaxCheckpoints {
		old := s.saved[0]
		s.saved = s.saved[1:]
		if !r.group().Main() {
			continue
		}
		if _, err := os.Lstat(old); err != nil {
			continue
		}
		if err := os.RemoveAll(old); err != nil {
			return err
		}
		r.Print("Removed old training state: " + old)
	}
	return nil
}

// saveStateState is the callback's part of a training state. Older states hold only the number.
type saveStateState struct {
	GlobalStep int      `json:"global_step"`
	Saved      []string `json:"saved,omitempty"` // names of folders in SaveDir, oldest first
}

// MarshalState includes the state that is being written among the saved ones.
func (s *SaveTrainingState) MarshalState() ([]byte, error) {
	state := saveStateState{GlobalStep: s.globalStep}
	for _, dir := range slices.Concat(s.saved, s.asked) {
		name := filepath.Base(dir)
		state.Saved = append(slices.DeleteFunc(state.Saved, func(old string) bool { return old == name }), name)
	}
	return json.Marshal(state)
}

// UnmarshalState counts the states of earlier sessions that still exist.
func (s *SaveTrainingState) UnmarshalState(text []byte) error {
	if json.Unmarshal(text, &s.globalStep) == nil {
		return nil
	}
	var state saveStateState
	if err := json.Unmarshal(text, &state); err != nil {
		return err
	}
	s.globalStep, s.saved = state.GlobalStep, nil
	for _, name := range state.Saved {
		dir := filepath.Join(s.dir(), filepath.Base(name)) // never outside SaveDir, whatever the file says
		if _, err := os.Stat(dir); err == nil {
			s.saved = append(s.saved, dir)
		}
	}
	return nil
}
