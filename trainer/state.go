package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// A checkpoint's two state files. The first has exactly the keys of transformers.TrainerState,
// whose reader refuses any other key; everything else is in the second.
const (
	stateFile = "trainer_state.json"
	loopFile  = "gotrainer_state.json"
)

// savedState is trainer_state.json. Its fields are sorted by name, as transformers writes them.
type savedState struct {
	BestGlobalStep      *int                       `json:"best_global_step"`
	BestMetric          *jsonFloat                 `json:"best_metric"`
	BestModelCheckpoint *string                    `json:"best_model_checkpoint"`
	Epoch               jsonFloat                  `json:"epoch"`
	EvalSteps           int                        `json:"eval_steps"`
	GlobalStep          int                        `json:"global_step"`
	IsHyperParamSearch  bool                       `json:"is_hyper_param_search"`
	IsLocalProcessZero  bool                       `json:"is_local_process_zero"`
	IsWorldProcessZero  bool                       `json:"is_world_process_zero"`
	LogHistory          []Logs                     `json:"log_history"`
	LoggingSteps        int                        `json:"logging_steps"`
	MaxSteps            int                        `json:"max_steps"`
	NumInputTokensSeen  int64                      `json:"num_input_tokens_seen"`
	NumTrainEpochs      int                        `json:"num_train_epochs"`
	SaveSteps           int                        `json:"save_steps"`
	StatefulCallbacks   map[string]json.RawMessage `json:"stateful_callbacks"`
	TotalFlos           jsonFloat                  `json:"total_flos"`
	TrainBatchSize      int                        `json:"train_batch_size"`
	TrialName           *string                    `json:"trial_name"`
	TrialParams         *struct{}                  `json:"trial_params"`
}

// loopState is gotrainer_state.json: all that the loop needs to continue as if the run had not been
// interrupted.
type loopState struct {
	Format   int      `json:"format"`
	Position position `json:"position"`
	Sizes    sizes    `json:"sizes"`
	// see runner.configuration; missing in checkpoints of earlier versions
	Configuration map[string]string `json:"configuration,omitempty"`
	Parts         int64             `json:"micro_batch_parts,omitempty"` // see Options.DivideOnOutOfMemory
	ScheduleStep  int               `json:"schedule_step"`               // updates that moved the learning rate
	PeakRate      float64           `json:"peak_rate"`
	NextRate      float64           `json:"next_rate"`
	LastRate      *float64          `json:"last_rate"`                // of the last update
	Applied       bool              `json:"update_applied,omitempty"` // the last update was not skipped
	LossSum       jsonFloat         `json:"loss_sum"`                 // since the last log
	LossTotal     jsonFloat         `json:"loss_total"`
	LeftOut       leftOut           `json:"updates_left_out,omitzero"`
	// other values since the last log: sum and count of each
	Logged      map[string][2]jsonFloat `json:"logged,omitempty"`
	GradNorm    *jsonFloat              `json:"grad_norm"` // of the last update
	BestMetric  string                  `json:"best_metric"`
	BestMetrics Logs                    `json:"best_metrics"`
	Controller  json.RawMessage         `json:"controller,omitempty"` // state of an adaptive schedule
	Losses      *lossState              `json:"losses,omitempty"`
	OnlyModel   bool                    `json:"only_model,omitempty"` // made with SaveOnlyModel
	NonFinite   bool                    `json:"non_finite,omitempty"` // the weights are not finite
	// metrics of an interrupted evaluation, from the validation sets that were complete
	Evaluated Logs `json:"evaluated,omitempty"`
}

const loopFormat = 2

// bothStates is the state that is passed to a [Saver].
type bothStates struct {
	Trainer savedState `json:"trainer_state"`
	Loop    loopState  `json:"gotrainer_state"`
}

// sizes are the units in which the position of a run is counted. A run resumed with other sizes
// would train on some samples twice and on others never.
type sizes struct {
	TrainSamples int    `json:"train_samples"` // 0: a stream
	BatchSize    int    `json:"batch_size"`
	Accumulate   int    `json:"accumulate"`
	GlobalBatch  int    `json:"global_batch,omitempty"`
	DropLast     bool   `json:"drop_last"`
	DataSeed     uint64 `json:"data_seed"`
}

// differs returns the first size in which s, from a checkpoint, differs from the current sizes;
// empty if there is none.
func (s sizes) differs(now sizes) string {
	for _, d := range []struct {
		what      string
		then, now any
	}{
		{"samples in the training set", s.TrainSamples, now.TrainSamples}, {"BatchSize", s.BatchSize, now.BatchSize},
		{"Accumulate", s.Accumulate, now.Accumulate}, {"GlobalBatch", s.GlobalBatch, now.GlobalBatch},
		{"DropLast", s.DropLast, now.DropLast}, {"DataSeed", s.DataSeed, now.DataSeed},
	} {
		if d.then != d.now {
			return fmt.Sprintf("%s was %v and is %v", d.what, d.then, d.now)
		}
	}
	return ""
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o666)
}

// readStates reads both state files of a checkpoint.
func readStates(dir string) (s savedState, l loopState, err error) {
	for _, f := range []struct {
		name string
		into any
	}{{stateFile, &s}, {loopFile, &l}} {
		text, err := os.ReadFile(filepath.Join(dir, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			return s, l, cannotResume(dir, "it has no %s, so it was not written by this trainer", f.name)
		}
		if err != nil {
			return s, l, cannotResume(dir, "%w", err)
		}
		if err := json.Unmarshal(text, f.into); err != nil {
			return s, l, cannotResume(dir, "%s: %w", f.name, err)
		}
	}
	if err := l.validate(); err != nil {
		return s, l, cannotResume(dir, "%s: %w", loopFile, err)
	}
	return s, l, nil
}

// validate refuses a state that no run can have written, so that a file from elsewhere cannot lead
// the loop astray.
func (l loopState) validate() error {
	p := l.Position
	switch {
	case l.Format != loopFormat:
		return fmt.Errorf("its format is %d, but this version of the trainer reads %d", l.Format, loopFormat)
	case !p.possible() || p.Phase >= max(1, l.Sizes.Accumulate),
		min(l.ScheduleStep, l.LeftOut.SinceLog, l.LeftOut.Total) < 0:
		return fmt.Errorf("its position %+v is impossible", p)
	case l.Sizes.BatchSize < 1 || l.Sizes.Accumulate < 1 || l.Sizes.TrainSamples < 0:
		return fmt.Errorf("its sizes %+v are impossible", l.Sizes)
	}
	return nil
}

// stateSavers returns the callbacks that have a state, by the name of the state.
func stateSavers(callbacks []any) map[string][]StateSaver {
	byName := map[string][]StateSaver{}
	for _, c := range callbacks {
		if s, ok := c.(StateSaver); ok {
			byName[stateName(c)] = append(byName[stateName(c)], s)
		}
	}
	return byName
}

// hookStates collects the states of the hooks by name. Several hooks with the same name have a
// list.
func hookStates(callbacks []any) (map[string]json.RawMessage, error) {
	states := map[string]json.RawMessage{}
	for name, savers := range stateSavers(callbacks) {
		list := make([]json.RawMessage, len(savers))
		for i, s := range savers {
			state, err := s.MarshalState()
			if err != nil {
				return nil, fmt.Errorf("state of hook %T: %w", s, err)
			}
			if !json.Valid(state) {
				return nil, fmt.Errorf("state of hook %T is not JSON: %.40q", s, state)
			}
			list[i] = state
		}
		states[name] = list[0]
		if len(list) > 1 {
			text, err := json.Marshal(list)
			if err != nil {
				return nil, fmt.Errorf("state of the hooks %s: %w", name, err)
			}
			states[name] = text
		}
	}
	return states, nil
}

// restoreHooks restores the states of the hooks. The run may have more or fewer hooks of a name
// than the checkpoint: hooks without a state start over, surplus states are ignored, and notes tell
// the user so.
func restoreHooks(callbacks []any, states map[string]json.RawMessage) (notes []string, err error) {
	byName := stateSavers(callbacks)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		savers := byName[name]
		list, err := statesOf(savers, states[name])
		if err != nil {
			return nil, err
		}
		for i, s := range savers {
			if i >= len(list) {
				notes = append(notes, fmt.Sprintf("has no state of the hook %s, which starts over", name))
			} else if err := s.UnmarshalState(list[i]); err != nil {
				return nil, fmt.Errorf("trainer: state of hook %T in %s: %w", s, stateFile, err)
			}
		}
		if n := len(list) - len(savers); n > 0 {
			notes = append(notes, fmt.Sprintf("has the states of %d hooks %s, and the run has %d of them; the last %d "+
				"are left out", len(list), name, len(savers), n))
		}
	}
	return notes, nil
}

// statesOf splits a state from a checkpoint into those of the single hooks. A hook that is the only
// one of its name is stored by itself, several as a list; the run may have another number of them
// than the checkpoint.
func statesOf(savers []StateSaver, state json.RawMessage) (list []json.RawMessage, err error) {
	isList := json.Unmarshal(state, &list) == nil
	switch {
	case len(state) == 0:
		return nil, nil
	case len(savers) > 1 && isList:
		return list, nil
	case len(savers) == 1 && isList && savers[0].UnmarshalState(state) != nil: // the list is not the state of this hook
		return list, nil
	}
	return []json.RawMessage{state}, nil
}
