package trainer

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// evalPrefix stands before the names of the evaluations of a run in logs and files.
const evalPrefix = "eval_"

var errEmptyValidation = errors.New("trainer: the validation set is empty; to train without one, give nil to Fit")

// evaluator runs over the validation sets and remembers the best outcome.
type evaluator[S, B any] struct {
	*session[S, B]
	bestMetric bestMetric
	sets       []evaluation[B] // none without a validation set
	evaluated  Logs            // of the current evaluation, under their logged names, the sets that are done
	quiet      bool            // evaluations must not draw random numbers
	aside      bool            // a hook has asked for the current evaluation
	// the model stays in the mode in which it is: see semantics.Rules.StayInEvalMode
	keepMode bool
}

// evaluateNow carries out evaluations. track is whether the outcome is compared
// with the best one and told to the schedule.
func (r *runner[S, B]) evaluateNow(track bool) error {
	if len(r.eval.sets) == 0 {
		return errors.New("trainer: a hook asked for an evaluation, but Fit was given no validation set")
	}
	if r.eval.evalContext().Err() != nil {
		return errInterrupted
	}
	_, err := r.eval.evaluate(track)
	if errors.Is(err, errInterrupted) { // the checkpoint keeps the sets that are done
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

// evaluate runs over the validation sets from that at which the loop stands, and logs each outcome.
// The numbers under their logged names gather in r.eval.evaluated; those returned have their bare
// names, with the name of their set before it where there are several.
func (ev *evaluator[S, B]) evaluate(track bool) (Metrics, error) {
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
		// An interruption in one of the further sets continues with that set.
		ev.loop.EvalSet++
		ev.loop.before.EvalSet, ev.loop.before.EvalLoaderStarted = ev.loop.EvalSet, false
		ev.loop.before.Control = ev.loop.Control
		ev.loop.before.Control.ShouldEvaluate = track
	}
	return all, nil
}

// evaluateAside is Run.Evaluate.
func (ev *evaluator[S, B]) evaluateAside(name string) (Metrics, error) {
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

// add adds the numbers of a set, with the name of the set before theirs.
func (m Metrics) add(key string, set Metrics) {
	for name, v := range set {
		m[key+name] = v
	}
}

// evaluateSet runs over one set. The row has the numbers under their logged names, and the speeds.
func (ev *evaluator[S, B]) evaluateSet(e *evaluation[B], predict bool) (Metrics, Logs, error) {
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
	atOnce := ev.o.EvalBatchSize // of all processes together
	if e.shared {
		atOnce *= ev.o.Group.World()
	}
	row.perSecond(e.name, start, map[string]float64{"samples": float64(e.rows),
		"steps": float64((e.rows + atOnce - 1) / atOnce)})
	return m, row, nil
}

// evaluateAll hands the batches of a set to the step, and counts those of a stream.
func (ev *evaluator[S, B]) evaluateAll(e *evaluation[B]) error {
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

// evalContext ends an evaluation. One inside a window is not left in the middle: no checkpoint
// could be written there, since none keeps the gradients.
func (ev *evaluator[S, B]) evalContext() context.Context {
	if ev.loop.windowIsComplete() {
		return ev.ctx
	}
	return ev.stepCtx
}

func (ev *evaluator[S, B]) evaluateBatches(e *evaluation[B]) error {
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

// interruptEvaluation leaves an evaluation in the middle; the resumed run makes it from its
// beginning.
func (ev *evaluator[S, B]) interruptEvaluation() error {
	_, _ = ev.step.Metrics(ev.ctx)          // only to end it: numbers of a part are nobody's business
	ev.loop.before.EvalLoaderStarted = true // the generator has been drawn from for it
	return errInterrupted
}

// perSecond adds the run time, and how many of several things there were in a second of it:
// speed_metrics of transformers.trainer_utils, with its decimals.
func (l Logs) perSecond(split string, start time.Time, counts map[string]float64) {
	seconds := time.Since(start).Seconds()
	l[split+"_runtime"] = pyfloat.Round(seconds, 4)
	for thing, n := range counts {
		if seconds > 0 {
			l[split+"_"+thing+"_per_second"] = pyfloat.Round(n/seconds, 3)
		}
	}
}

// key is what the name of the current set puts before its numbers: "matched_".
func (ev *evaluator[S, B]) key() string {
	if ev.loop.EvalSet >= len(ev.sets) {
		return ""
	}
	return ev.sets[ev.loop.EvalSet].key
}
