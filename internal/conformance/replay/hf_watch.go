package replay

import (
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

// watch is the first callback of a run: it records every event under the name that Hugging Face
// gives it, and dies where the recorded process did.
type watch struct {
	run       *hfRun
	kept      bool // the trainer that is being made stands for the one before
	stopAfter *int // updates; nil: the run goes on to its end

	step  int // where the run stands, as of the last event
	epoch float64
	best  trainer.Best
}

func (w *watch) see(event string, r *trainer.Run) error {
	w.step, w.epoch = r.GlobalStep, r.Epoch
	w.best, _ = r.Best()
	w.run.rec.add("events", []any{event, r.GlobalStep, r.Epoch})
	return nil
}

func (w *watch) InitEnd(r *trainer.Run) error {
	if w.kept {
		return nil
	}
	return w.see("on_init_end", r)
}

func (w *watch) TrainBegin(r *trainer.Run) error { return w.see("on_train_begin", r) }
func (w *watch) TrainEnd(r *trainer.Run) error   { return w.see("on_train_end", r) }
func (w *watch) EpochBegin(r *trainer.Run) error { return w.see("on_epoch_begin", r) }
func (w *watch) EpochEnd(r *trainer.Run) error   { return w.see("on_epoch_end", r) }

func (w *watch) StepBegin(r *trainer.Run) error {
	_ = w.see("on_step_begin", r)
	if w.stopAfter != nil && r.GlobalStep >= *w.stopAfter {
		return errKilled
	}
	return nil
}

func (w *watch) SubstepEnd(r *trainer.Run) error   { return w.see("on_substep_end", r) }
func (w *watch) BeforeUpdate(r *trainer.Run) error { return w.see("on_pre_optimizer_step", r) }
func (w *watch) AfterUpdate(r *trainer.Run) error  { return w.see("on_optimizer_step", r) }
func (w *watch) EvalStep(r *trainer.Run) error     { return w.see("on_prediction_step", r) }

func (w *watch) StepEnd(r *trainer.Run) error {
	_ = w.see("on_step_end", r)
	return w.run.recordUpdate(r)
}

func (w *watch) AfterLog(r *trainer.Run, _ trainer.Logs) error        { return w.see("on_log", r) }
func (w *watch) AfterEval(r *trainer.Run, _ trainer.Metrics) error    { return w.see("on_evaluate", r) }
func (w *watch) AfterPredict(r *trainer.Run, _ trainer.Metrics) error { return w.see("on_predict", r) }

func (w *watch) AfterSave(r *trainer.Run, checkpoint string) error {
	w.run.rec.written = append(w.run.rec.written, filepath.Base(checkpoint))
	return w.see("on_save", r)
}

// control is the recordings' own callback: it sets flags at one event of one step.
type control struct {
	at    string
	step  int
	flags []string
	to    bool
}

func (c control) act(event string, r *trainer.Run) error {
	if event != c.at || r.GlobalStep != c.step {
		return nil
	}
	flags := map[string]*bool{"should_log": &r.Control.ShouldLog, "should_evaluate": &r.Control.ShouldEvaluate,
		"should_save":       &r.Control.ShouldSave,
		"should_epoch_stop": &r.Control.ShouldEpochStop, "should_training_stop": &r.Control.ShouldTrainingStop}
	for _, name := range c.flags {
		*flags[name] = c.to
	}
	return nil
}

func (c control) InitEnd(r *trainer.Run) error      { return c.act("on_init_end", r) }
func (c control) TrainBegin(r *trainer.Run) error   { return c.act("on_train_begin", r) }
func (c control) TrainEnd(r *trainer.Run) error     { return c.act("on_train_end", r) }
func (c control) EpochBegin(r *trainer.Run) error   { return c.act("on_epoch_begin", r) }
func (c control) EpochEnd(r *trainer.Run) error     { return c.act("on_epoch_end", r) }
func (c control) StepBegin(r *trainer.Run) error    { return c.act("on_step_begin", r) }
func (c control) SubstepEnd(r *trainer.Run) error   { return c.act("on_substep_end", r) }
func (c control) BeforeUpdate(r *trainer.Run) error { return c.act("on_pre_optimizer_step", r) }
func (c control) AfterUpdate(r *trainer.Run) error  { return c.act("on_optimizer_step", r) }
func (c control) StepEnd(r *trainer.Run) error      { return c.act("on_step_end", r) }
func (c control) EvalStep(r *trainer.Run) error     { return c.act("on_prediction_step", r) }

func (c control) AfterLog(r *trainer.Run, _ trainer.Logs) error        { return c.act("on_log", r) }
func (c control) AfterEval(r *trainer.Run, _ trainer.Metrics) error    { return c.act("on_evaluate", r) }
func (c control) AfterPredict(r *trainer.Run, _ trainer.Metrics) error { return c.act("on_predict", r) }
func (c control) AfterSave(r *trainer.Run, _ string) error             { return c.act("on_save", r) }

// hfCallbacks makes the callbacks that a case lists. saves tells whether one of them may ask for a
// checkpoint.
func hfCallbacks(s *spec.Spec) (list []any, saves bool, err error) {
	for _, c := range s.Callbacks {
		o := c.Options.Merge()
		o.Any("kind")
		switch c.Kind {
		case "early_stopping":
			list = append(list, &callback.EarlyStopping{Patience: o.Int("patience", 1), Threshold: o.Float("threshold",
				0)})
		case "control":
			made := control{at: o.String("at", ""), step: o.Int("step", 0), flags: o.Strings("set"),
				to: o.Bool("to", true)}
			for _, f := range made.flags {
				if !slices.Contains([]string{"should_log", "should_evaluate", "should_save", "should_epoch_stop",
					"should_training_stop"}, f) {
					return nil, false, spec.Unsupportedf("the flag %q of a control callback", f)
				}
			}
			saves = saves || made.to && slices.Contains(made.flags, "should_save")
			list = append(list, made)
		default:
			return nil, false, spec.Unsupportedf("the callback %q", c.Kind)
		}
		if err := o.Done(); err != nil {
			return nil, false, err
		}
	}
	return list, saves, nil
}

// logRow is a row of the log without what the clock says.
func logRow(row trainer.Logs, without ...string) trace.Object {
	o := trace.Object{}
	for _, key := range row.Keys() {
		if clock(key) || slices.Contains(without, key) {
			continue
		}
		value := any(row[key])
		if v := row[key]; (key == "step" || key == "num_input_tokens_seen") && v == float64(int(v)) {
			value = int(v)
		}
		o = o.With(key, value)
	}
	return o
}
