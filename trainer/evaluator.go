package trainer

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// evalPrefix is put before the names of a run's evaluation metrics in logs and files.
const evalPrefix = "eval_"

var errEmptyValidation = errors.New("trainer: the validation set is empty; to train without one, give nil to Fit")

// evaluator evaluates the validation sets and remembers the best result.
type evaluator struct {
	*session
	bestMetric bestMetric
	sets       []evaluation // empty if there is no validation set
	evaluated  Logs         // metrics of the current evaluation, from the sets evaluated so far, by their logged names
	quiet      bool         // evaluations must not draw random numbers
	aside      bool         // the current evaluation was requested by a hook
	// training leaves the model in its current mode: see semantics.Rules.StayInEvalMode
	keepMode bool
}

// evaluateNow evaluates all validation sets. If track is set, the result is compared with the best
// one and passed to the learning rate controller.
func (r *runner) evaluateNow(track bool) error {
	if len(r.eval.sets) == 0 {
		return errors.New("trainer: a hook asked for an evaluation, but Fit was given no validation set")
	}
	if r.eval.evalContext().Err() != nil {
		return errInterrupted
	}
	_, err := r.eval.evaluate(track)
	if errors.Is(err, errInterrupted) { // the checkpoint keeps the results of the sets that are complete
		return err
	}
	row := r.eval.evaluated
	r.eval.evaluated, r.loop.EvalSet = nil, 0
	if err != nil || !track {
		return err
	}
	if err := r.rates.observe(r.eval.bestMetric, row); err != nil {
		return err
	}
	best, err := r.eval.consider(row, r.saver.current())
	if err != nil {
		return err
	}
	r.loop.evaluated(best)
	return nil
}

// evaluate evaluates the validation sets, starting with the loop's current one, and logs each
// result. ev.evaluated collects the metrics under their logged names. The returned metrics have
// their bare names, prefixed with the name of their set if there are several.
func (ev *evaluator) evaluate(track bool) (Metrics, error) {
	all := Metrics{}
	if ev.loop.EvalSet == 0 {
		ev.evaluated = Logs{}
	}
	for ev.loop.EvalSet < len(ev.sets) {
		e := &ev.sets[ev.loop.EvalSet]
		m, row, err := ev.evaluateSet(e, false)
		if err != nil {
			return nil, err
		}
		if loss, ok := row[e.name+"_loss"]; ok {
			ev.warnNonFinite(e.name+"_loss", loss)
		}
		if err := ev.log(row); err != nil {
			return nil, err
		}
		ev.loop.Control.ShouldEvaluate = false
		err = fireWith(ev.session, "AfterEval", afterEvalHook.AfterEval, m)
		ev.run.Evaluation = ""
		if err != nil {
			return nil, err
		}
		maps.Copy(ev.evaluated, row)
		delete(ev.evaluated, "epoch")
		delete(ev.evaluated, "step")
		all.add(e.key, m)
		// After an interruption in a later set, the run continues with that set.
		ev.loop.EvalSet++
		ev.loop.before.EvalSet, ev.loop.before.EvalLoaderStarted = ev.loop.EvalSet, false
		ev.loop.before.Control = ev.loop.Control
		ev.loop.before.Control.ShouldEvaluate = track
	}
	return all, nil
}

// evaluateAside is Run.Evaluate.
func (ev *evaluator) evaluateAside(name string) (Metrics, error) {
	switch {
	case len(ev.sets) == 0:
		return nil, errors.New("trainer: Run.Evaluate: Fit was given no validation set")
	case name == "":
		return nil, errors.New("trainer: Run.Evaluate: the evaluation has no name")
	}
	outer, position, control, batch, ctx, asked := *ev.run, ev.loop.position, ev.run.Control, ev.batch, ev.ctx, ev.asked
	ev.aside, ev.batch, ev.ctx = true, nil, ev.stepCtx
	if ev.several() {
		ev.asked = ev.ctx
	}
	defer func() {
		ev.aside, ev.batch, ev.ctx, ev.asked = outer.Aside, batch, ctx, asked
		ev.loop.position = position
		control.ShouldTrainingStop = control.ShouldTrainingStop || ev.run.Control.ShouldTrainingStop
		control.ShouldEpochStop = control.ShouldEpochStop || ev.run.Control.ShouldEpochStop
		ev.run.Evaluation, ev.run.evalBatches, ev.run.Aside, ev.run.Control = outer.Evaluation, outer.evalBatches,
			outer.Aside, control
	}()
	all := Metrics{}
	for i, e := range ev.sets {
		e.name = name + strings.TrimPrefix(e.name, strings.TrimSuffix(evalPrefix, "_"))
		ev.loop.EvalSet, ev.loop.EvalLoaderStarted = i, false
		m, _, err := ev.evaluateSet(&e, false)
		if err != nil {
			return nil, err
		}
		all.add(e.key, m)
	}
	return all, nil
}

// add adds the metrics of a set, with key before their names.
func (m Metrics) add(key string, set Metrics) {
	for name, v := range set {
		m[key+name] = v
	}
}

// evaluateSet evaluates one set. The returned row has the metrics under their logged names, and the
// speeds.
func (ev *evaluator) evaluateSet(e *evaluation, predict bool) (Metrics, Logs, error) {
	start := time.Now()
	e.done, e.seen = 0, 0
	ev.run.Evaluation, ev.run.evalBatches, ev.run.Aside = e.name, e.batches(), ev.aside
	if err := fire(ev.session, "EvalBegin", evalBeginHook.EvalBegin); err != nil {
		return nil, nil, err
	}
	if !ev.loop.EvalLoaderStarted && !ev.quiet {
		if err := ev.startLoader(false); err != nil {
			return nil, nil, err
		}
	}
	ev.loop.EvalLoaderStarted = false
	if err := ev.step.StartEval(ev.describe(e, predict)); err != nil {
		return nil, nil, ev.stepError("begin to "+e.op(), err)
	}
	if err := ev.evaluateAll(e); err != nil {
		return nil, nil, err
	}
	m, err := ev.step.Metrics(ev.stepCtx)
	if err != nil {
		return nil, nil, ev.stepError(e.op(), err)
	}
	ev.keepMode = ev.o.Semantics.StayInEvalMode // until the next epoch begins
	if err := fireWith(ev.session, "EvalEnd", evalEndHook.EvalEnd, m); err != nil {
		return nil, nil, err
	}
	row := Logs{}
	Metrics(row).add(e.name+"_", m)
	atOnce := ev.o.EvalBatchSize // samples per step, over all processes
	if e.shared {
		atOnce *= ev.o.Group.World()
	}
	row.perSecond(e.name, start, map[string]float64{"samples": float64(e.rows),
		"steps": float64((e.rows + atOnce - 1) / atOnce)})
	return m, row, nil
}

// evaluateAll passes the batches of a set to the step, and counts the samples of a stream.
func (ev *evaluator) evaluateAll(e *evaluation) error {
	evaluate := ev.evaluateBatches
	if ev.several() {
		evaluate = ev.evaluateRounds
	}
	if err := evaluate(e); err != nil || e.length >= 0 {
		return err
	}
	if e.rows = e.seen; e.rows == 0 {
		return ev.stepError(e.op(), errEmptyEvalStream)
	}
	return nil
}

// evalContext returns the context whose cancellation interrupts an evaluation. Inside a window an
// evaluation is not interrupted, since no checkpoint could be written there: a checkpoint does not
// have the gradients of an unfinished window.
func (ev *evaluator) evalContext() context.Context {
	if ev.loop.windowIsComplete() {
		return ev.ctx
	}
	return ev.stepCtx
}

func (ev *evaluator) evaluateBatches(e *evaluation) error {
	defer func() { ev.batch = nil }()
	ctx := ev.evalContext()
	for b, err := range e.pass(ctx, 0, 0) {
		op := "load a batch to " + e.op()
		if err == nil {
			op, ev.batch = e.op(), &b.Batch
			if err := fire(ev.session, "EvalStepBegin", evalStepBeginHook.EvalStepBegin); err != nil {
				return err
			}
			err = ev.step.Eval(ctx, b.Batch)
		}
		if err != nil && ctx.Err() != nil {
			return ev.interruptEvaluation()
		}
		if err != nil {
			return ev.stepError(op, err)
		}
		if err := fire(ev.session, "EvalStep", evalStepHook.EvalStep); err != nil {
			return err
		}
		e.seen += b.Samples
		if e.done++; e.done == e.limit {
			break
		}
	}
	return nil
}

// interruptEvaluation abandons the current evaluation. The resumed run evaluates the set from its
// beginning.
func (ev *evaluator) interruptEvaluation() error {
	_, _ = ev.step.Metrics(ev.ctx)          // only to end the evaluation: metrics of a part of the set are of no use
	ev.loop.before.EvalLoaderStarted = true // its loader has already drawn from the generator
	return errInterrupted
}

// perSecond adds the runtime and, for each count, how many there were per second: speed_metrics of
// transformers.trainer_utils, with its rounding.
func (l Logs) perSecond(split string, start time.Time, counts map[string]float64) {
	seconds := time.Since(start).Seconds()
	l[split+"_runtime"] = pyfloat.Round(seconds, 4)
	for thing, n := range counts {
		if seconds > 0 {
			l[split+"_"+thing+"_per_second"] = pyfloat.Round(n/seconds, 3)
		}
	}
}

// key returns the prefix for the bare metrics of the current set: "matched_".
func (ev *evaluator) key() string {
	if ev.loop.EvalSet >= len(ev.sets) {
		return ""
	}
	return ev.sets[ev.loop.EvalSet].key
}
