package replay

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

// hfEvents calls see for every event of a run, with Hugging Face's name for it.
type hfEvents struct {
	see func(event string, r *trainer.Run) error
}

func (e hfEvents) InitEnd(r *trainer.Run) error                      { return e.see("on_init_end", r) }
func (e hfEvents) TrainBegin(r *trainer.Run) error                   { return e.see("on_train_begin", r) }
func (e hfEvents) TrainEnd(r *trainer.Run) error                     { return e.see("on_train_end", r) }
func (e hfEvents) EpochBegin(r *trainer.Run) error                   { return e.see("on_epoch_begin", r) }
func (e hfEvents) EpochEnd(r *trainer.Run) error                     { return e.see("on_epoch_end", r) }
func (e hfEvents) StepBegin(r *trainer.Run) error                    { return e.see("on_step_begin", r) }
func (e hfEvents) SubstepEnd(r *trainer.Run) error                   { return e.see("on_substep_end", r) }
func (e hfEvents) BeforeUpdate(r *trainer.Run) error                 { return e.see("on_pre_optimizer_step", r) }
func (e hfEvents) AfterUpdate(r *trainer.Run) error                  { return e.see("on_optimizer_step", r) }
func (e hfEvents) StepEnd(r *trainer.Run) error                      { return e.see("on_step_end", r) }
func (e hfEvents) EvalStep(r *trainer.Run) error                     { return e.see("on_prediction_step", r) }
func (e hfEvents) AfterSave(r *trainer.Run, _ string) error          { return e.see("on_save", r) }
func (e hfEvents) AfterLog(r *trainer.Run, _ trainer.Logs) error     { return e.see("on_log", r) }
func (e hfEvents) AfterEval(r *trainer.Run, _ trainer.Metrics) error { return e.see("on_evaluate", r) }
func (e hfEvents) AfterPredict(r *trainer.Run, _ trainer.Metrics) error {
	return e.see("on_predict", r)
}

// watch is the first callback of a run: it records every event under Hugging Face's name, and ends
// the run where the recorded process was killed.
type watch struct {
	hfEvents

	run       *hfRun
	stopAfter *int // number of updates; nil: not killed

	step  int // position at the last event
	epoch float64
	best  trainer.Best
}

func newWatch(run *hfRun, stopAfter *int) *watch {
	w := &watch{run: run, stopAfter: stopAfter}
	w.see = func(event string, r *trainer.Run) error {
		if run.kept && event == "on_init_end" {
			return nil
		}
		w.step, w.epoch = r.GlobalStep, r.Epoch
		w.best, _ = r.Best()
		run.add("events", []any{event, r.GlobalStep, r.Epoch})
		return nil
	}
	return w
}

func (w *watch) StepBegin(r *trainer.Run) error {
	_ = w.see("on_step_begin", r)
	if w.stopAfter != nil && r.GlobalStep >= *w.stopAfter {
		return errKilled
	}
	return nil
}

func (w *watch) StepEnd(r *trainer.Run) error {
	_ = w.see("on_step_end", r)
	return w.run.recordUpdate(r)
}

func (w *watch) AfterSave(r *trainer.Run, checkpoint string) error {
	w.run.written = append(w.run.written, filepath.Base(checkpoint))
	return w.see("on_save", r)
}

// newControl is the recordings' own callback: it sets flags at one event of one step.
func newControl(at string, step int, flags []string, to bool) hfEvents {
	return hfEvents{func(event string, r *trainer.Run) error {
		if event != at || r.GlobalStep != step {
			return nil
		}
		for _, name := range flags {
			*controlFlags(r)[name] = to
		}
		return nil
	}}
}

func controlFlags(r *trainer.Run) map[string]*bool {
	c := &r.Control
	return map[string]*bool{"should_log": &c.ShouldLog, "should_evaluate": &c.ShouldEvaluate,
		"should_save": &c.ShouldSave, "should_epoch_stop": &c.ShouldEpochStop,
		"should_training_stop": &c.ShouldTrainingStop}
}

// hfCallbacks makes the callbacks of a case. saves reports whether one of them may request a
// checkpoint.
func hfCallbacks(s *spec.Spec) (list []any, saves bool) {
	for _, c := range s.Callbacks {
		o := c.Options
		switch c.Kind {
		case "early_stopping":
			list = append(list, &callback.EarlyStopping{Patience: o.Int("patience", 1), Threshold: o.Float("threshold",
				0)})
		case "control":
			flags, to := o.Strings("set"), o.Bool("to", true)
			for _, f := range flags {
				if controlFlags(&trainer.Run{})[f] == nil {
					spec.Refusef("the flag %q of a control callback", f)
				}
			}
			saves = saves || to && slices.Contains(flags, "should_save")
			list = append(list, newControl(o.String("at", ""), o.Int("step", 0), flags, to))
		default:
			spec.Refusef("the callback %q", c.Kind)
		}
		spec.Check(o.Done())
	}
	return list, saves
}

func logRows(rows []trainer.Logs) []any {
	list := []any{}
	for _, row := range rows {
		list = append(list, logRow(row))
	}
	return list
}

// logRow returns a row of the log without timings.
func logRow(row trainer.Logs, without ...string) trace.Object {
	o := trace.Object{}
	for _, key := range row.Keys() {
		clock := func(suffix string) bool { return strings.HasSuffix(key, suffix) }
		if slices.Contains(without, key) ||
			slices.ContainsFunc([]string{"_runtime", "_per_second", "_preparation_time"}, clock) {
			continue
		}
		value := any(row[key])
		if v := row[key]; (key == "step" || key == "num_input_tokens_seen") && v == float64(int(v)) {
			value = int(v)
		}
		o[key] = value
	}
	return o
}
