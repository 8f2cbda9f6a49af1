package pytorchaccelerated

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// WSDCheckpoint saves the states that a [WSD] schedule is meant for. Before each decay it saves
// the whole training state, from which training can continue at the full rate (WSD). After the
// decay it saves the model for use, from which training can continue as well (WSD-S).
type WSDCheckpoint struct {
	SaveDir     string // empty: "checkpoints"
	NoOptimizer bool   // omit the optimizer from the files after a decay
	NoScheduler bool   // omit the schedule from them
	// what to load at the start: the folder of a training state or the file of a checkpoint;
	// nothing if it is empty or does not exist. A run that TrainOptions.ResumeFrom continues has
	// already loaded it
	InitialCheckpoint string

	phases []Phase
	ratio  float64
	last   *int   // updates at the last checkpoint; nil: none yet
	asked  string // the training state that is not written yet
}

const (
	preDecay  = "wsd_pre_decay"
	postDecay = "wsd_post_decay"
)

func (w *WSDCheckpoint) OnTrainingRunStart(r *Run) error {
	phases, ok := WSDPhases(r.Schedule())
	if !ok {
		return errors.New("the schedule of the run has no phases; want TrainOptions.CreateSchedulerFn to be " +
			"WSD{...}.Create")
	}
	w.phases, w.ratio = phases, wsdRatio(r.Schedule())
	w.asked = ""
	if r.resumed { // the resumed state is newer than the initial checkpoint
		return nil
	}
	if !r.rules.WSDKeepsLastStep {
		w.last = nil
	}
	switch info, err := os.Stat(w.InitialCheckpoint); {
	case errors.Is(err, os.ErrNotExist): // also if the name is empty
		return nil
	case err != nil:
		return err
	default:
		return w.load(r, info.IsDir())
	}
}

func (w *WSDCheckpoint) load(r *Run, folder bool) error {
	r.Print("\nLoading checkpoint from " + w.InitialCheckpoint)
	kind, what := postDecay, "checkpoint"
	var extra map[string]any
	if folder {
		kind, what = preDecay, "training state"
		m, err := r.LoadTrainingState(w.InitialCheckpoint)
		if err != nil {
			return err
		}
		extra = m.Extra
	} else {
		c, err := r.LoadCheckpoint(w.InitialCheckpoint, LoadOptions{})
		if err != nil {
			return err
		}
		extra = c.Extra
	}
	step := "None"
	w.last = nil
	if n, ok := extra["step"].(float64); ok {
		w.last, step = new(int(n)), fmt.Sprint(int(n))
	}
	if k, ok := extra["checkpoint_type"].(string); ok {
		kind = k
	}
	r.Print(fmt.Sprintf("Loaded %s %s from step %s", kind, what, step))
	if s, ok := r.Schedule().(lr.PytorchAcceleratedWSD); !ok || !s.Continuation {
		return nil
	}
	r.schedule.moves = 0 // the weights come from another run with a schedule of its own
	return r.schedule.apply(0)
}

// OnTrainStepEnd saves where Python does: after the updates before this step, before its backward.
func (w *WSDCheckpoint) OnTrainStepEnd(r *Run, _ TrainStepEnd) error {
	return w.saveIf(r, r.rules.SaveInsideStep)
}

// OnUpdateEnd saves when the update is complete.
func (w *WSDCheckpoint) OnUpdateEnd(r *Run) error {
	return w.saveIf(r, !r.rules.SaveInsideStep)
}

func (w *WSDCheckpoint) savedAt(updates int) bool { return w.last != nil && *w.last == updates }

func (w *WSDCheckpoint) saveIf(r *Run, due bool) error {
	updates := r.ScheduleSteps()
	if !due || w.savedAt(updates) {
		return nil
	}
	phase := phaseAt(w.phases, updates)
	switch updates {
	case phase.PreDecayStep:
		r.Print(fmt.Sprintf("\nWSD Lr Scheduler entering decay phase at step %d", updates))
		w.last, w.asked = new(updates), filepath.Join(w.dir(), fmt.Sprintf("checkpoint_%d_%s", updates, preDecay))
		return r.SaveTrainingState(w.asked, w.extra(r, updates, preDecay))
	case phase.PeriodEnd:
		return w.savePostDecay(r, updates)
	}
	return nil
}

// OnTrainingStateSaved reports a state once it exists.
func (w *WSDCheckpoint) OnTrainingStateSaved(r *Run, dir string, _ Metadata) error {
	if dir == w.asked {
		w.asked = ""
		r.Print(fmt.Sprintf("\nSaved wsd_pre_decay training state at step %d", *w.last))
	}
	return nil
}

// OnTrainingRunEnd saves the last checkpoint if that has not been done.
func (w *WSDCheckpoint) OnTrainingRunEnd(r *Run) error {
	updates := r.ScheduleSteps()
	if w.savedAt(updates) || updates != phaseAt(w.phases, updates).PeriodEnd {
		return nil
	}
	return w.savePostDecay(r, updates)
}

func (w *WSDCheckpoint) savePostDecay(r *Run, updates int) error {
	path := filepath.Join(w.dir(), fmt.Sprintf("checkpoint_%d_%s.pt", updates, postDecay))
	if err := os.MkdirAll(w.dir(), 0o777); err != nil {
		return err
	}
	w.last = new(updates)
	if err := r.SaveCheckpoint(path, CheckpointOptions{NoOptimizer: w.NoOptimizer, NoScheduler: w.NoScheduler,
		Extra: w.extra(r, updates, postDecay)}); err != nil {
		return err
	}
	r.Print(fmt.Sprintf("\nSaved wsd_post_decay checkpoint at step %d", updates))
	return nil
}

func (w *WSDCheckpoint) dir() string { return cmp.Or(w.SaveDir, "checkpoints") }

func (w *WSDCheckpoint) extra(r *Run, updates int, kind string) map[string]any {
	return map[string]any{"step": updates, "checkpoint_type": kind, "total_steps": r.Config().MaxNumTrainSteps,
		"decay_fraction": w.ratio, "timestamp": time.Now().Format("2006-01-02T15:04:05.000000")}
}

func (w *WSDCheckpoint) MarshalState() ([]byte, error) { return json.Marshal(w.last) }

func (w *WSDCheckpoint) UnmarshalState(text []byte) error {
	w.last = nil
	return json.Unmarshal(text, &w.last)
}
