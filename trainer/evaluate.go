package trainer

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gotrainer/gotrainer/data"
)

// evalPrefix stands before the names of an evaluation in logs and files.
const evalPrefix = "eval_"

func (f *fit[S, B]) evalLoader(valid data.Dataset[S]) (*data.Loader[S, B], error) {
	if valid == nil || valid.Len() == 0 {
		return nil, errors.New("trainer: the validation set is empty; to train without one, give nil to Fit")
	}
	l, err := data.NewLoader(valid, f.t.step.Collate, data.LoaderOptions{
		BatchSize: f.o.EvalBatchSize, Order: data.Sequential{}, Workers: f.o.Workers, BadSample: f.o.BadSample,
		DropLast: f.o.DropLast && f.o.Semantics.DropLastInEvaluation,
	})
	if err != nil {
		return nil, err
	}
	if l.Len() == 0 {
		return nil, &OptionError{"DropLast", "true", fmt.Sprintf("false, since the %d rows of the validation set are less than one batch of EvalBatchSize %d", valid.Len(), f.o.EvalBatchSize)}
	}
	return l, nil
}

// evaluateNow carries out doEvaluate and doEvalOnStart.
func (f *fit[S, B]) evaluateNow(judge bool) error {
	if f.valid == nil {
		return errors.New("trainer: a hook asked for an evaluation, but Fit was given no validation set")
	}
	if f.ctx.Err() != nil {
		return f.interrupt()
	}
	m, row, err := f.evaluate()
	if err != nil || !judge {
		return err
	}
	best, err := f.consider(m, row)
	if err != nil {
		return err
	}
	f.m.evaluated(best)
	return nil
}

// evaluate runs over the validation set and logs the outcome.
func (f *fit[S, B]) evaluate() (Metrics, Logs, error) {
	start := time.Now()
	if !f.m.EvalLoaderStarted {
		if err := f.startLoader(false); err != nil {
			return nil, nil, err
		}
	}
	f.m.EvalLoaderStarted = false
	for batch, err := range f.valid.Epoch(f.ctx, 0, 0) {
		op := "load an evaluation batch"
		if err == nil {
			op = "evaluate"
			err = f.t.step.Eval(f.ctx, batch)
		}
		if err != nil && f.ctx.Err() != nil {
			return nil, nil, f.interruptEvaluation()
		}
		if err != nil {
			return nil, nil, f.stepError(op, err)
		}
		if err := fire(f, f.hooks.evalStep, "EvalStep", EvalStepHook.EvalStep); err != nil {
			return nil, nil, err
		}
	}
	m, err := f.t.step.Metrics(f.stepContext())
	if err != nil {
		return nil, nil, f.stepError("evaluate", err)
	}
	row := Logs{}
	for name, v := range m {
		row[evalPrefix+name] = v
	}
	samples := f.run.Info.EvalSamples
	row.speed("eval", start, float64(samples), float64((samples+f.o.EvalBatchSize-1)/f.o.EvalBatchSize))
	if err := f.log(row); err != nil {
		return nil, nil, err
	}
	f.m.Control.ShouldEvaluate = false
	return m, row, fire(f, f.hooks.eval, "AfterEval", func(h EvalHook, r *Run) error { return h.AfterEval(r, m) })
}

// interruptEvaluation leaves an evaluation in the middle; the resumed run makes it from its beginning.
func (f *fit[S, B]) interruptEvaluation() error {
	_, _ = f.t.step.Metrics(f.stepContext()) // only to end it: numbers of a part are nobody's business
	f.before.EvalLoaderStarted = true        // the generator has been drawn from for it
	return f.interrupt()
}

// speed adds the run time and speeds of transformers.trainer_utils.speed_metrics, with its decimals.
func (l Logs) speed(split string, start time.Time, samples, steps float64) {
	seconds := time.Since(start).Seconds()
	l[split+"_runtime"] = decimals(seconds, 4)
	if seconds == 0 {
		return
	}
	l[split+"_samples_per_second"] = decimals(samples/seconds, 3)
	l[split+"_steps_per_second"] = decimals(steps/seconds, 3)
}

// decimals rounds as Python's round(v, n) does.
func decimals(v float64, n int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', n, 64), 64)
	if err != nil {
		return v // unreachable: FormatFloat writes what ParseFloat reads
	}
	return r
}
