package trainer

import (
	"errors"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// evalPrefix stands before the names of the evaluations of a run in logs and files.
const evalPrefix = "eval_"

var errEmptyValidation = errors.New("trainer: the validation set is empty; to train without one, give nil to Fit")

// evaluateNow carries out evaluations. judge is whether the outcome is compared
// with the best one and told to the schedule.
func (f *fit[S, B]) evaluateNow(judge bool) error {
	if len(f.evals) == 0 {
		return errors.New("trainer: a hook asked for an evaluation, but Fit was given no validation set")
	}
	if f.ctx.Err() != nil {
		return f.interrupt()
	}
	_, err := f.evaluate(judge)
	row := f.evaluated
	f.evaluated, f.loop.EvalSet = nil, 0
	if err != nil || !judge {
		return err
	}
	if err := f.observe(row); err != nil {
		return err
	}
	best, err := f.consider(row)
	if err != nil {
		return err
	}
	f.loop.evaluated(best)
	return nil
}

// evaluate runs over the validation sets from that at which the loop stands, and logs each outcome.
// The numbers under their logged names gather in f.evaluated; those returned have their bare names,
// with the name of their set before it where there are several.
func (f *fit[S, B]) evaluate(judge bool) (Metrics, error) {
	all := Metrics{}
	if f.loop.EvalSet == 0 {
		f.evaluated = Logs{}
	}
	for f.loop.EvalSet < len(f.evals) {
		e := &f.evals[f.loop.EvalSet]
		m, row, err := f.evaluateSet(e, false)
		if err != nil {
			return nil, err
		}
		if loss, ok := row[e.name+"_loss"]; ok {
			f.warnNonFinite(e.name+"_loss", loss)
		}
		if err := f.log(row); err != nil {
			return nil, err
		}
		f.loop.Control.ShouldEvaluate = false
		if err := f.fireEval(func(h EvalHook, r *Run) error { return h.AfterEval(r, m) }); err != nil {
			return nil, err
		}
		for k, v := range row {
			if k != "epoch" && k != "step" {
				f.evaluated[k] = v
			}
		}
		for k, v := range m {
			all[e.key+k] = v
		}
		// An interruption in one of the further sets goes on with that set.
		f.loop.EvalSet++
		f.loop.before.EvalSet, f.loop.before.EvalLoaderStarted = f.loop.EvalSet, false
		f.loop.before.Control = f.loop.Control
		f.loop.before.Control.ShouldEvaluate = judge
	}
	return all, nil
}

func (f *fit[S, B]) fireEval(method func(EvalHook, *Run) error) error {
	err := fire(f, f.hooks.eval, "AfterEval", method)
	f.run.Evaluation = ""
	return err
}

// evaluateAside is Run.Evaluate.
func (f *fit[S, B]) evaluateAside(name string) (Metrics, error) {
	switch {
	case len(f.evals) == 0:
		return nil, errors.New("trainer: Run.Evaluate: Fit was given no validation set")
	case name == "":
		return nil, errors.New("trainer: Run.Evaluate: the evaluation has no name")
	}
	outer, position, control, batch, ctx, asked := *f.run, f.loop.position, f.run.Control, f.batch, f.ctx, f.asked
	f.aside, f.batch, f.ctx = true, nil, f.stepContext()
	if f.several() {
		f.asked = f.ctx
	}
	defer func() {
		f.aside, f.batch, f.ctx, f.asked = outer.Aside, batch, ctx, asked
		f.loop.position = position
		control.ShouldTrainingStop = control.ShouldTrainingStop || f.run.Control.ShouldTrainingStop
		control.ShouldEpochStop = control.ShouldEpochStop || f.run.Control.ShouldEpochStop
		f.run.Evaluation, f.run.evalBatches, f.run.Aside, f.run.Control = outer.Evaluation, outer.evalBatches,
			outer.Aside, control
		f.run.loop.batch = batch
	}()
	all := Metrics{}
	for i, e := range f.evals {
		e.name = name + strings.TrimPrefix(e.name, strings.TrimSuffix(evalPrefix, "_"))
		f.loop.EvalSet, f.loop.EvalLoaderStarted = i, false
		m, _, err := f.evaluateSet(&e, false)
		if err != nil {
			return nil, err
		}
		for k, v := range m {
			all[e.key+k] = v
		}
	}
	return all, nil
}

// evaluateSet runs over one set. The row has the numbers under their logged names, and the speeds.
func (f *fit[S, B]) evaluateSet(e *evaluation[B], predict bool) (Metrics, Logs, error) {
	start := time.Now()
	e.done, e.seen = 0, 0
	f.run.Evaluation, f.run.evalBatches, f.run.Aside = e.name, e.batches(), f.aside
	if err := fire(f, f.hooks.evalBegin, "EvalBegin", EvalBeginHook.EvalBegin); err != nil {
		return nil, nil, err
	}
	if !f.loop.EvalLoaderStarted && !f.quietEval {
		if err := f.startLoader(false); err != nil {
			return nil, nil, err
		}
	}
	f.loop.EvalLoaderStarted = false
	if err := f.t.step.StartEval(f.describe(e, predict)); err != nil {
		return nil, nil, f.stepError("begin to "+e.op(), err)
	}
	if err := f.evaluateAll(e); err != nil {
		return nil, nil, err
	}
	m, err := f.t.step.Metrics(f.stepContext())
	if err != nil {
		return nil, nil, f.stepError(e.op(), err)
	}
	f.keepMode = f.o.Semantics.StayInEvalMode // until the next epoch begins
	if err := fire(f, f.hooks.evalEnd, "EvalEnd",
		func(h EvalEndHook, r *Run) error { return h.EvalEnd(r, m) }); err != nil {
		return nil, nil, err
	}
	row := Logs{}
	for name, v := range m {
		row[e.name+"_"+name] = v
	}
	atOnce := f.o.EvalBatchSize // of all processes together
	if e.shared {
		atOnce *= f.o.Group.World()
	}
	row.speed(e.name, start, float64(e.rows), float64((e.rows+atOnce-1)/atOnce))
	return m, row, nil
}

// evaluateAll hands the batches of a set to the step, and counts those of a stream.
func (f *fit[S, B]) evaluateAll(e *evaluation[B]) error {
	evaluate := f.evaluateBatches
	if f.several() {
		evaluate = f.evaluateRounds
	}
	if err := evaluate(e); err != nil || e.length >= 0 {
		return err
	}
	if e.rows = e.seen; e.rows == 0 {
		return f.stepError(e.op(), errEmptyEvalStream)
	}
	return nil
}

// evaluateBatches hands the batches of a set to the step.
func (f *fit[S, B]) evaluateBatches(e *evaluation[B]) error {
	defer func() { f.batch = nil }()
	for b, err := range e.pass(f.ctx) {
		if err == nil {
			f.batch = b.Batch
			if err := fire(f, f.hooks.evalStepBegin, "EvalStepBegin", EvalStepBeginHook.EvalStepBegin); err != nil {
				return err
			}
		}
		op := "load a batch to " + e.op()
		if err == nil {
			op = e.op()
			err = f.t.step.Eval(f.ctx, b.Batch)
		}
		if err != nil && f.ctx.Err() != nil {
			return f.interruptEvaluation()
		}
		if err != nil {
			return f.stepError(op, err)
		}
		if err := fire(f, f.hooks.evalStep, "EvalStep", EvalStepHook.EvalStep); err != nil {
			return err
		}
		e.seen += b.Samples
		if e.done++; e.done == e.limit {
			break
		}
	}
	return nil
}

// interruptEvaluation leaves an evaluation in the middle; the resumed run makes it from its
// beginning.
func (f *fit[S, B]) interruptEvaluation() error {
	_, _ = f.t.step.Metrics(f.stepContext()) // only to end it: numbers of a part are nobody's business
	f.loop.before.EvalLoaderStarted = true   // the generator has been drawn from for it
	return f.interrupt()
}

// speed adds the run time and speeds of transformers.trainer_utils.speed_metrics, with its
// decimals.
func (l Logs) speed(split string, start time.Time, samples, steps float64) {
	seconds := time.Since(start).Seconds()
	l[split+"_runtime"] = pyfloat.Round(seconds, 4)
	if seconds == 0 {
		return
	}
	l[split+"_samples_per_second"] = pyfloat.Round(samples/seconds, 3)
	l[split+"_steps_per_second"] = pyfloat.Round(steps/seconds, 3)
}

// tokenSpeed adds the run time and the input tokens of this session per second.
func (l Logs) tokenSpeed(start time.Time, tokens int64) {
	seconds := time.Since(start).Seconds()
	l["train_runtime"] = pyfloat.Round(seconds, 4)
	if seconds > 0 {
		l["train_tokens_per_second"] = pyfloat.Round(float64(tokens)/seconds, 3)
	}
}
