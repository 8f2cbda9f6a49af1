package pytorchaccelerated

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/internal/pyfloat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// place is what a training state keeps of where a run stands, beside the state of the loop.
type place struct {
	Trained bool `json:"trained"` // the training epoch has ended, and its loss is recorded
	// of the CPU, at the begin of the epoch, from which its order follows
	EpochGenerator []byte `json:"epoch_generator,omitempty"`
	Generator      []byte `json:"generator,omitempty"` // with which to continue, where it is not that of the moment
	// of the order that several processes share: at the begin of the epoch, and to continue with
	EpochOrder []byte `json:"epoch_order,omitempty"`
	Order      []byte `json:"order,omitempty"`
}

// Metadata is what a training state tells about itself: trainer_metadata.pt.
type Metadata struct {
	CurrentEpoch int
	Extra        map[string]any // checkpoint_kwargs; numbers are float64
}

// SaveTrainingState writes everything that is needed to continue into a folder, with extra. The
// folder is whole or not there at any instant; one of that name is replaced. Within a window, where
// gradients have been gathered that no file holds, it is written when the update is complete,
// unless Rules.SaveInsideStep is set.
func (r *Run) SaveTrainingState(dir string, extra map[string]any) error {
	switch {
	case r.now == nil:
		return fmt.Errorf("pytorchaccelerated: SaveTrainingState(%q): there is no training run whose state could be "+
			"saved", dir)
	case r.inWindow && !r.rules.SaveInsideStep:
		r.pending = append(r.pending, func() error { return r.writeState(dir, extra) })
		return nil
	}
	return r.writeState(dir, extra)
}

func (r *Run) writeState(dir string, extra map[string]any) error {
	loop, err := r.now.State(r.beforeEval == nil)
	if err != nil {
		return fmt.Errorf("pytorchaccelerated: SaveTrainingState(%q): %w", dir, err)
	}
	return r.writeWith(dir, extra, loop)
}

// writeWith writes a training state with the state of the loop.
func (r *Run) writeWith(dir string, extra map[string]any, loop []byte) (err error) {
	if r.saved, err = r.state(); err != nil {
		return fmt.Errorf("pytorchaccelerated: %w", err)
	}
	if r.beforeEval != nil {
		r.saved = *r.beforeEval
	}
	r.saved.Extra, r.saved.Loop = finite(extra), loop
	if r.saved.Processes, err = loops.Shares(r.group(), r.saved); err != nil {
		return fmt.Errorf("pytorchaccelerated: %w", err)
	}
	r.registerSchedule()
	if _, err := r.accelerator.SaveState(dir); err != nil {
		return fmt.Errorf("pytorchaccelerated: %w", err)
	}
	m := Metadata{r.history.CurrentEpoch(), extra}
	return CallEvent(r, "OnTrainingStateSaved", func(h TrainingStateSavedHook) error {
		return h.OnTrainingStateSaved(r, dir, m)
	})
}

// loadAllButRegistered is what Python has loaded when it finds more objects in a state than are
// registered. That is the error of the run; this one has none of its own.
func (r *Run) loadAllButRegistered(dir string) {
	found, _ := filepath.Glob(filepath.Join(dir, "custom_checkpoint_*.state")) // the pattern is a good one
	for range found {
		r.accelerator.RegisterForCheckpointing(ignored{})
		if r.accelerator.LoadState(dir) == nil {
			return
		}
	}
}

// ignored takes the place of an object of a training state.
type ignored struct{}

// MarshalState implements accelerate.Stateful.
func (ignored) MarshalState() ([]byte, error) { return nil, nil }

// UnmarshalState implements accelerate.Stateful.
func (ignored) UnmarshalState([]byte) error { return nil }

// registerSchedule is what Python does at every state that it saves or loads. The first time is
// that of makeSchedule.
func (r *Run) registerSchedule() {
	if r.schedule == nil || !r.rules.RegisterAtEverySave {
		return
	}
	if r.schedule.registered {
		r.accelerator.RegisterForCheckpointing(r.schedule)
	}
	r.schedule.registered = true
}

// writePending writes the states that were asked for within the window that has ended.
func (r *Run) writePending() (err error) {
	for _, write := range r.pending {
		err = errors.Join(err, write())
	}
	r.pending = nil
	return err
}

// LoadTrainingState restores what [Run.SaveTrainingState] wrote, in a hook at the start of a run;
// TrainOptions.ResumeFrom does so before it, and lets the run continue from there. The folder is
// verified first: a damaged one is refused, and nothing has changed.
func (r *Run) LoadTrainingState(dir string) (Metadata, error) {
	s, err := r.loadState(dir)
	if err != nil {
		return Metadata{}, err
	}
	return Metadata{s.CurrentEpoch, s.Extra}, nil
}

func (r *Run) loadState(dir string) (savedState, error) {
	if r.accelerator == nil || !r.trains {
		return savedState{}, fmt.Errorf("pytorchaccelerated: LoadTrainingState(%q): there is no training run to load "+
			"it into", dir)
	}
	r.registerSchedule()
	if err := r.accelerator.LoadState(dir); err != nil {
		if r.rules.RegisterAtEverySave {
			r.loadAllButRegistered(dir)
		}
		return savedState{}, fmt.Errorf("pytorchaccelerated: %w", err)
	}
	return r.saved, nil
}

// resumeFrom loads a state and takes its place.
func (t *Trainer[S, B]) resumeFrom(dir string) error {
	s, err := t.loadState(dir)
	if err != nil {
		return err
	}
	t.Print(fmt.Sprintf("Resumed training state from %s (epoch %d)", dir, s.CurrentEpoch))
	t.resumed = true
	if t.rules.EpochsPerSession {
		t.history.SetEpoch(s.CurrentEpoch)
	} else {
		if err := t.takePlace(s); err != nil {
			return err
		}
	}
	if t.rules.ForgetCallbacksAtResume {
		return nil
	}
	restoreHistory(t.history, s.History)
	return t.restoreCallbacks(s.Callbacks)
}

// takePlace puts the run behind the batch at which the state was saved.
func (t *Trainer[S, B]) takePlace(s savedState) error {
	t.place, t.start = s.Place, &trainer.StartPosition{State: s.Loop}
	t.history.SetEpoch(s.NextEpoch)
	t.tracker = &LossTracker{float64(s.Tracker.LossValue), float64(s.Tracker.TotalLoss), s.Tracker.RunningCount}
	if g := t.place.Generator; g != nil {
		torch.DefaultGenerator(torch.CPU).SetState(g)
		t.place.Generator = nil
	}
	if t.order != nil {
		return t.order.SetState(s.Place.Order)
	}
	return nil
}

// savedState is the file that a training state has beside those of Accelerate.
type savedState struct {
	CurrentEpoch int                        `json:"current_epoch"`
	NextEpoch    int                        `json:"next_epoch"` // in which a resumed run continues
	Extra        map[string]any             `json:"extra,omitempty"`
	Place        place                      `json:"place"`
	Loop         json.RawMessage            `json:"loop"` // of package trainer
	Tracker      trackerState               `json:"loss_tracker"`
	History      []metricState              `json:"run_history"`
	Callbacks    map[string]json.RawMessage `json:"callbacks,omitempty"`
	Processes    []json.RawMessage          `json:"processes,omitempty"` // the same of each of several processes
}

type trackerState struct {
	LossValue    number `json:"loss_value"`
	TotalLoss    number `json:"total_loss"`
	RunningCount int    `json:"running_count"`
}

// metadata is what Accelerate is told to save for the Trainer.
type metadata Run

// MarshalState implements accelerate.Stateful.
func (m *metadata) MarshalState() ([]byte, error) { return json.Marshal(m.saved) }

// UnmarshalState implements accelerate.Stateful.
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

// state is what there is to save now, but for what belongs to one save alone.
func (r *Run) state() (savedState, error) {
	s := savedState{CurrentEpoch: r.history.CurrentEpoch(), NextEpoch: r.history.CurrentEpoch(),
		Place:     r.place,
		Tracker:   trackerState{number(r.tracker.LossValue), number(r.tracker.TotalLoss), r.tracker.RunningCount},
		Callbacks: map[string]json.RawMessage{}}
	if r.evaluated {
		s.NextEpoch++
	}
	if r.order != nil {
		var err error
		if s.Place.Order, err = r.order.State(); err != nil {
			return s, err
		}
	}
	if r.now.Batches == 0 { // a pass that has begun will begin once more
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
			state, err := saver.MarshalState()
			if err != nil {
				return s, fmt.Errorf("the state of callback %T: %w", c, err)
			}
			s.Callbacks[reflect.TypeOf(c).String()] = state
		}
	}
	return s, nil
}

func (r *Run) restoreCallbacks(states map[string]json.RawMessage) error {
	for _, c := range r.callbacks {
		saver, ok := c.(StateSaver)
		state := states[reflect.TypeOf(c).String()]
		if !ok || state == nil {
			continue
		}
		if err := saver.UnmarshalState(state); err != nil {
			return fmt.Errorf("pytorchaccelerated: the state of callback %T: %w", c, err)
		}
	}
	return nil
}

// metricState is a metric of a run; they are saved in the order of their first values.
type metricState struct {
	Name   string   `json:"name"`
	Values []number `json:"values"`
}

// restoreHistory records the metrics again. What the history has already is dropped.
func restoreHistory(h RunHistory, s []metricState) {
	prefix := h.MetricNamePrefix()
	h.SetMetricNamePrefix("")
	for _, name := range h.MetricNames() {
		h.DeleteMetric(name)
	}
	for _, m := range s {
		for _, v := range m.Values {
			h.UpdateMetric(m.Name, float64(v))
		}
	}
	h.SetMetricNamePrefix(prefix)
}

type number = pyfloat.JSON

// finite makes the numbers of extra fit for JSON.
func finite(extra map[string]any) map[string]any {
	out := maps.Clone(extra)
	for name, v := range out {
		if f, ok := v.(float64); ok {
			out[name] = number(f)
		}
	}
	return out
}
