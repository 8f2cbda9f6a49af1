package pytorchaccelerated

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"

	"github.com/gotrainer/gotrainer/torch"
)

// place is where a run stands. A training state keeps it.
type place struct {
	Epoch     int  `json:"epoch"`
	Batches   int  `json:"batches"`    // of that epoch that were trained on
	EpochDone bool `json:"epoch_done"` // evaluated, too
	Updates   int  `json:"updates"`
	// of the CPU, at the begin of the epoch, from which its order follows
	EpochGenerator []byte `json:"epoch_generator,omitempty"`
	Generator      []byte `json:"generator,omitempty"` // with which to go on, where it is not that of the moment

	training bool // a training epoch is being run
	inWindow bool // gradients have been gathered that no update has used
	resumed  bool
}

// pendingState is a training state that waits for the update at hand.
type pendingState struct {
	dir   string
	extra map[string]any
}

// Metadata is what a training state tells about itself: trainer_metadata.pt.
type Metadata struct {
	CurrentEpoch int
	Extra        map[string]any // checkpoint_kwargs; numbers are float64
}

// SaveTrainingState writes everything that is needed to go on into a folder: the model, the
// optimizer, the schedule, the generators, the scaler, the place of the run, the history and the
// state of callbacks, with extra. The folder is whole or not there at any instant; one of that name
// is replaced.
//
// Within a window, where gradients are under way that no file holds, the state is written when the
// update is complete, unless Rules.SaveInsideStep is set.
func (r *Run) SaveTrainingState(dir string, extra map[string]any) error {
	if r.accelerator == nil || !r.trains {
		return fmt.Errorf("pytorchaccelerated: SaveTrainingState(%q): there is no training run whose state could be "+
			"saved", dir)
	}
	if r.place.inWindow && !r.rules.SaveInsideStep {
		r.pending = append(r.pending, pendingState{dir, extra})
		return nil
	}
	return r.writeState(dir, extra)
}

func (r *Run) writeState(dir string, extra map[string]any) error {
	r.extra = extra
	defer func() { r.extra = nil }()
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
func (r *Run) writePending() error {
	for _, p := range r.pending {
		if err := r.writeState(p.dir, p.extra); err != nil {
			return err
		}
	}
	r.pending = nil
	return nil
}

// LoadTrainingState restores what [Run.SaveTrainingState] wrote, in a hook at the start of a run;
// TrainOptions.ResumeFrom does so before it, and lets the run go on from there. The folder is
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
	return r.loaded, nil
}

// resumeFrom loads a state and takes its place.
func (t *Trainer[S, B]) resumeFrom(dir string) error {
	s, err := t.loadState(dir)
	if err != nil {
		return err
	}
	t.Print(fmt.Sprintf("Resumed training state from %s (epoch %d)", dir, s.CurrentEpoch))
	t.place.resumed = true
	if t.rules.EpochsPerSession {
		t.history.SetEpoch(s.CurrentEpoch)
	} else if err := t.takePlace(s); err != nil {
		return fmt.Errorf("pytorchaccelerated: cannot go on from %s: %w", dir, err)
	}
	if t.rules.ForgetCallbacksAtResume {
		return nil
	}
	s.History.restore(t.history)
	return t.restoreCallbacks(s.Callbacks)
}

// takePlace puts the run behind the batch at which the state was saved.
func (t *Trainer[S, B]) takePlace(s savedState) error {
	n := t.plannedBatches(t.train.Len())
	if s.Place.Batches > n || s.BatchesPerEpoch != n || s.Accumulation != t.config.GradientAccumulationSteps {
		return fmt.Errorf("it was saved in a run of %d batches an epoch and %d behind an update, and this one has %d "+
			"and %d", s.BatchesPerEpoch, s.Accumulation, n, t.config.GradientAccumulationSteps)
	}
	t.place = s.Place
	t.place.resumed = true
	if s.Place.EpochDone {
		t.place.Epoch, t.place.Batches, t.place.EpochDone = s.Place.Epoch+1, 0, false
	}
	t.history.SetEpoch(t.place.Epoch)
	t.skip = t.place.Batches
	if t.skip > 0 {
		tracker := s.Tracker
		t.tracker = &LossTracker{float64(tracker.LossValue), float64(tracker.TotalLoss), tracker.RunningCount}
	}
	if g := t.place.Generator; g != nil {
		torch.DefaultGenerator(torch.CPU).SetState(g)
		t.place.Generator = nil
	}
	return nil
}

// savedState is the file that a training state has beside those of Accelerate.
type savedState struct {
	CurrentEpoch    int                        `json:"current_epoch"`
	Extra           map[string]any             `json:"extra,omitempty"`
	Place           place                      `json:"place"`
	BatchesPerEpoch int                        `json:"batches_per_epoch"`
	Accumulation    int                        `json:"gradient_accumulation_steps"`
	Tracker         trackerState               `json:"loss_tracker"`
	History         historyState               `json:"run_history"`
	Callbacks       map[string]json.RawMessage `json:"callbacks,omitempty"`
}

type trackerState struct {
	LossValue    number `json:"loss_value"`
	TotalLoss    number `json:"total_loss"`
	RunningCount int    `json:"running_count"`
}

// metadata is what Accelerate is told to save for the Trainer.
type metadata struct{ run *Run }

// MarshalState implements accelerate.Stateful.
func (m *metadata) MarshalState() ([]byte, error) {
	r := m.run
	s := savedState{CurrentEpoch: r.history.CurrentEpoch(), Extra: finite(r.extra), Place: r.place,
		BatchesPerEpoch: r.plannedEpoch, Accumulation: r.config.GradientAccumulationSteps,
		Tracker:   trackerState{number(r.tracker.LossValue), number(r.tracker.TotalLoss), r.tracker.RunningCount},
		Callbacks: map[string]json.RawMessage{}}
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
				return nil, fmt.Errorf("the state of callback %T: %w", c, err)
			}
			s.Callbacks[reflect.TypeOf(c).String()] = state
		}
	}
	return json.Marshal(s)
}

// UnmarshalState implements accelerate.Stateful.
func (m *metadata) UnmarshalState(text []byte) error {
	var s savedState
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if s.CurrentEpoch < 1 || s.Place.Batches < 0 || s.Place.Updates < 0 {
		return fmt.Errorf("epoch %d, batch %d and update %d are no place in a run", s.CurrentEpoch, s.Place.Batches,
			s.Place.Updates)
	}
	m.run.loaded = s
	return nil
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

// historyState are the metrics of a run in the order of their first values.
type historyState []metricState

type metricState struct {
	Name   string   `json:"name"`
	Values []number `json:"values"`
}

// restore records the metrics anew. What the history has already is dropped.
func (s historyState) restore(h RunHistory) {
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

// number is a float64 in JSON, which knows no nan and no infinities: those are strings.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return json.Marshal(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		v, err := strconv.ParseFloat(s, 64)
		*n = number(v)
		return err
	}
	return json.Unmarshal(text, (*float64)(n))
}

// finite makes the numbers of extra fit for JSON.
func finite(extra map[string]any) map[string]any {
	if extra == nil {
		return nil
	}
	out := map[string]any{}
	for name, v := range extra {
		if f, ok := v.(float64); ok {
			v = number(f)
		}
		out[name] = v
	}
	return out
}
