package pytorchaccelerated

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/internal/pyfloat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// place says where a run stands, in a training state, in addition to the state of the loop.
type place struct {
	Trained bool `json:"trained"` // the training epoch has ended, and its loss is recorded
	// state of the CPU generator at the beginning of the epoch, which determines its order
	EpochGenerator []byte `json:"epoch_generator,omitempty"`
	Generator      []byte `json:"generator,omitempty"` // state to resume with, if not the one at the time of saving
	// state of the order shared by several processes: at the beginning of the epoch, and to resume
	// with
	EpochOrder []byte `json:"epoch_order,omitempty"`
	Order      []byte `json:"order,omitempty"`
}

// Metadata describes a training state: trainer_metadata.pt.
type Metadata struct {
	CurrentEpoch int
	Extra        map[string]any // checkpoint_kwargs; numbers are float64
}

// SaveTrainingState writes everything needed to continue, and extra, into a folder. The folder
// appears atomically and replaces one of the same name. Within a window, where gradients have been
// accumulated that no file holds, it is written when the update is complete. At the end of an
// update or an epoch, it is written when all callbacks have run. OnTrainingStateSaved is called
// afterwards. With Rules.SaveInsideStep it is written at once.
func (r *Run) SaveTrainingState(dir string, extra map[string]any) error {
	switch {
	case r.now == nil:
		return fmt.Errorf("pytorchaccelerated: SaveTrainingState(%q): there is no training run whose state could be "+
			"saved", dir)
	case (r.inWindow || r.inEvent) && !r.rules.SaveInsideStep:
		r.pending = append(r.pending, func() error { return r.SaveTrainingState(dir, extra) })
		return nil
	}
	loop, err := r.now.State(r.beforeEval == nil)
	if err != nil {
		return fmt.Errorf("pytorchaccelerated: SaveTrainingState(%q): %w", dir, err)
	}
	return r.writeState(dir, extra, loop)
}

// writeState writes a training state that includes the state of the loop.
func (r *Run) writeState(dir string, extra map[string]any, loop []byte) (err error) {
	if r.beforeEval != nil {
		r.saved = *r.beforeEval
	} else if r.saved, err = r.state(); err != nil {
		return prefixed(err)
	}
	r.saved.Extra, r.saved.Loop = finite(extra), loop
	if r.saved.Processes, err = loops.Shares(r.group(), r.saved); err != nil {
		return prefixed(err)
	}
	r.registerSchedule()
	if _, err := r.accelerator.SaveState(dir); err != nil {
		return prefixed(err)
	}
	m := Metadata{r.history.CurrentEpoch(), extra}
	return event(r, func(h TrainingStateSavedHook, r *Run) error { return h.OnTrainingStateSaved(r, dir, m) })
}

// loadAllButRegistered loads what Python has loaded when it finds more objects in a state than are
// registered: the schedule, once for each earlier state. Python fails there; errors of this call
// are ignored.
func (r *Run) loadAllButRegistered(dir string) {
	found, _ := fs.Glob(os.DirFS(dir), "custom_checkpoint_*.state") // the pattern is valid
	for range found {
		r.accelerator.RegisterForCheckpointing(r.schedule)
		if r.accelerator.LoadState(dir) == nil {
			return
		}
	}
}

// registerSchedule registers the schedule again, as Python does at each save and load of a state;
// the first registration is in makeSchedule.
func (r *Run) registerSchedule() {
	if r.schedule == nil || !r.rules.RegisterAtEverySave {
		return
	}
	if r.schedule.registered {
		r.accelerator.RegisterForCheckpointing(r.schedule)
	}
	r.schedule.registered = true
}

// duringEvent runs the callbacks of an event that a resumed run does not repeat. States requested
// meanwhile are written after the last callback, even if one has ended the run.
func (r *Run) duringEvent(event func() error) error {
	r.inEvent = true
	err := event()
	r.inEvent = false
	if unwritten := r.writePending(); unwritten != nil {
		return errors.Join(err, unwritten)
	}
	return err
}

// writePending writes the states that were requested within a window or an event, now that it has
// ended.
func (r *Run) writePending() (err error) {
	pending := r.pending
	r.pending = nil // a state that cannot be written yet is deferred again
	for _, write := range pending {
		err = errors.Join(err, write())
	}
	return err
}

// LoadTrainingState restores what [Run.SaveTrainingState] wrote, in a hook at the start of a run.
// TrainOptions.ResumeFrom does so before the hook, and makes the run continue from there. The
// folder is verified first: a damaged one is refused, and nothing has changed.
func (r *Run) LoadTrainingState(dir string) (Metadata, error) {
	if r.accelerator == nil || !r.trains {
		return Metadata{}, fmt.Errorf("pytorchaccelerated: LoadTrainingState(%q): there is no training run to load it "+
			"into", dir)
	}
	r.registerSchedule()
	if err := r.accelerator.LoadState(dir); err != nil {
		if r.rules.RegisterAtEverySave && r.schedule != nil {
			r.loadAllButRegistered(dir)
		}
		return Metadata{}, prefixed(err)
	}
	return Metadata{r.saved.CurrentEpoch, r.saved.Extra}, nil
}

// resumeFrom loads a state and continues from its position.
func (r *Run) resumeFrom(dir string) error {
	m, err := r.LoadTrainingState(dir)
	if err != nil {
		return err
	}
	r.Print(fmt.Sprintf("Resumed training state from %s (epoch %d)", dir, m.CurrentEpoch))
	if r.rules.EpochsPerSession {
		r.history.SetEpoch(m.CurrentEpoch)
	} else if err := r.restorePosition(); err != nil {
		return err
	}
	if r.resumed = !r.rules.ForgetCallbacksAtResume; !r.resumed {
		return nil
	}
	r.restoreHistory()
	return r.restoreCallbacks()
}

// restorePosition sets the run to the position at which the state was saved.
func (r *Run) restorePosition() error {
	s := r.saved
	r.place, r.start = s.Place, &trainer.StartPosition{State: s.Loop}
	r.history.SetEpoch(s.NextEpoch)
	r.tracker = &LossTracker{float64(s.Tracker.LossValue), float64(s.Tracker.TotalLoss), s.Tracker.RunningCount}
	if g := r.place.Generator; g != nil {
		torch.DefaultGenerator(torch.CPU).SetState(g)
		r.place.Generator = nil
	}
	if r.order != nil {
		return r.order.SetState(s.Place.Order)
	}
	return nil
}

// savedState is the content of the additional file in a training state of Accelerate.
type savedState struct {
	CurrentEpoch int                        `json:"current_epoch"`
	NextEpoch    int                        `json:"next_epoch"` // epoch in which a resumed run continues
	Extra        map[string]any             `json:"extra,omitempty"`
	Place        place                      `json:"place"`
	Loop         json.RawMessage            `json:"loop"` // of package trainer
	Tracker      trackerState               `json:"loss_tracker"`
	History      []metricState              `json:"run_history"`
	Callbacks    map[string]json.RawMessage `json:"callbacks,omitempty"`
	Processes    []json.RawMessage          `json:"processes,omitempty"` // the savedState of each of several processes
}

type trackerState struct {
	LossValue    number `json:"loss_value"`
	TotalLoss    number `json:"total_loss"`
	RunningCount int    `json:"running_count"`
}

// metadata is the object that Accelerate saves for the Trainer.
type metadata Run

func (m *metadata) MarshalState() ([]byte, error) { return json.Marshal(m.saved) }

func (m *metadata) UnmarshalState(text []byte) error {
	var s savedState
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if err := loops.Share((*Run)(m).group(), s.Processes, &s); err != nil {
		return err
	}
	if s.CurrentEpoch < 1 || s.NextEpoch < s.CurrentEpoch {
		return fmt.Errorf("epoch %d is no place in a run, or epoch %d not behind it", s.CurrentEpoch, s.NextEpoch)
	}
	m.saved = s
	return nil
}

// state returns the current state, except for the fields that belong to a single save.
func (r *Run) state() (s savedState, err error) {
	s = savedState{CurrentEpoch: r.history.CurrentEpoch(), NextEpoch: r.history.CurrentEpoch(), Place: r.place,
		Tracker:   trackerState{number(r.tracker.LossValue), number(r.tracker.TotalLoss), r.tracker.RunningCount},
		Callbacks: map[string]json.RawMessage{}}
	if r.evaluated {
		s.NextEpoch++
	}
	if r.order != nil {
		if s.Place.Order, err = r.order.State(); err != nil {
			return s, err
		}
	}
	if r.now.Batches == 0 { // a pass that has begun but yielded nothing will begin again
		if s.Place.Generator = s.Place.EpochGenerator; s.Place.EpochOrder != nil {
			s.Place.Order = s.Place.EpochOrder
		}
	}
	for _, name := range r.history.MetricNames() {
		metric := metricState{Name: name}
		for _, v := range r.history.MetricValues(name) {
			metric.Values = append(metric.Values, number(v))
		}
		s.History = append(s.History, metric)
	}
	for _, c := range r.callbacks {
		if saver, ok := c.(StateSaver); ok {
			if s.Callbacks[fmt.Sprintf("%T", c)], err = saver.MarshalState(); err != nil {
				return s, fmt.Errorf("the state of callback %T: %w", c, err)
			}
		}
	}
	return s, nil
}

func (r *Run) restoreCallbacks() error {
	for _, c := range r.callbacks {
		saver, ok := c.(StateSaver)
		if state := r.saved.Callbacks[fmt.Sprintf("%T", c)]; ok && state != nil {
			if err := saver.UnmarshalState(state); err != nil {
				return fmt.Errorf("pytorchaccelerated: the state of callback %T: %w", c, err)
			}
		}
	}
	return nil
}

// metricState is a metric of the run history; metrics are saved in the order of their first values.
type metricState struct {
	Name   string   `json:"name"`
	Values []number `json:"values"`
}

// restoreHistory restores the metrics, replacing what the history holds.
func (r *Run) restoreHistory() {
	h := r.history
	prefix := h.MetricNamePrefix()
	h.SetMetricNamePrefix("")
	for _, name := range h.MetricNames() {
		h.DeleteMetric(name)
	}
	for _, m := range r.saved.History {
		for _, v := range m.Values {
			h.UpdateMetric(m.Name, float64(v))
		}
	}
	h.SetMetricNamePrefix(prefix)
}

type number = pyfloat.JSON

// finite converts the numbers of extra so that JSON can represent them.
func finite(extra map[string]any) map[string]any {
	out := maps.Clone(extra)
	for name, v := range out {
		if f, ok := v.(float64); ok {
			out[name] = number(f)
		}
	}
	return out
}
