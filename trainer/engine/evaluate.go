package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// evaluation is the state of the running evaluation.
type evaluation struct {
	trainer.Evaluation
	losses  evalLosses
	outputs collected
	batches int
	added   bool         // BatchMetrics has been given batches
	rows    int          // samples evaluated so far, by all processes
	order   []int        // indices of the samples in the order of the batches; nil: the order of the set
	own     torch.Tensor // loss of this process's last batch in a shared evaluation
}

// StartEval says which evaluation the following calls of Eval belong to. If it is not called, they
// belong to an evaluation of unknown length, whose loss is the mean over samples.
func (s *core) StartEval(e trainer.Evaluation) error {
	if s.eval.batches > 0 { // discard what is left of a failed or abandoned evaluation
		s.forgetMetrics()
	}
	s.eval.drop()
	s.eval.Evaluation = e
	if s.options.SortEvalByLength && e.Rows == 0 && e.BatchSize > 0 {
		return errors.New("engine: Options.SortEvalByLength is set, but the samples of a stream cannot be sorted; want a " +
			"set with a length")
	}
	if err := s.summon(); err != nil {
		return err
	}
	if e.Predict && !s.task.isPredictor {
		return fmt.Errorf("engine: %T does not expose its predictions: it must implement engine.Predictor", s.task.given)
	}
	return nil
}

// weighsRows reports whether the losses of batches are weighted by their samples.
func (e *evaluation) weighsRows() bool {
	return e.Loss == semantics.MeanOfRows || e.Loss == semantics.RowsInFloat32
}

func (e *evaluation) drop() {
	e.losses.drop()
	e.outputs.drop()
	e.own.Free()
	*e = evaluation{}
}

// evaluate is [Step.Eval].
func (s *core) evaluate(b any) error {
	if err := s.summon(); err != nil {
		return err
	}
	return scoped(func() error { return s.evalBatch(b) })
}

func (s *core) evalBatch(b any) error {
	s.mode(false, false)
	s.eval.batches++
	loss, o := s.evalForward(b, s.items(b))
	if loss.Rows == 0 && loss.Value.Defined() && s.eval.weighsRows() {
		return fmt.Errorf("engine: %T returned the loss of a batch with Rows 0, by which the evaluation weighs it; want the "+
			"number of its samples, in Loss.Rows (engine.Mean) or in Outputs.Rows", s.task.given)
	}
	if s.keepsOutputs() {
		if err := s.keep(s.preprocess(o)); err != nil {
			return err
		}
	}
	if loss.Value.Defined() {
		s.eval.losses.add(loss)
	}
	s.eval.rows += loss.Rows
	return nil
}

// evalForward runs the model on a batch and passes its outputs to the task if that is an Observer.
// o is empty if the task does not expose its outputs.
func (s *core) evalForward(b any, items int64) (loss Loss, o Outputs) {
	p := s.pass(items)
	p.full = s.options.FullEval
	switch {
	case s.task.isEvaluator && !s.eval.Predict:
		p.Autocast(func() { loss = s.task.Evaluate(p, b) })
	case s.task.isPredictor:
		p.Autocast(func() { o = s.task.Predict(p, b) })
		loss, o = s.lossOf(p, o)
		if s.task.isObserver {
			s.task.Observe(b, o)
		}
	default:
		p.Autocast(func() { loss = s.task.Loss(p, b) })
	}
	return loss, o
}

// keepsOutputs reports whether the outputs of the running evaluation are needed, for metrics or as
// predictions.
func (s *core) keepsOutputs() bool {
	return s.task.isPredictor &&
		(s.eval.Predict || s.options.ComputeMetrics != nil || s.options.BatchMetrics != nil)
}

func (s *core) preprocess(o Outputs) Outputs {
	if s.options.PreprocessLogits != nil {
		o.Logits = s.options.PreprocessLogits(o.Logits, o.Labels)
	}
	return o
}

// keep passes the outputs of a batch to BatchMetrics, and keeps them if they are needed all
// together.
func (s *core) keep(o Outputs) error {
	if s.options.BatchMetrics != nil && len(o.Labels) > 0 {
		batch := &Predictions{Logits: o.Logits, Labels: o.Labels, Inputs: o.Inputs, Rows: o.Rows}
		s.eval.added = true
		if err := s.options.BatchMetrics.Add(batch); err != nil {
			return fmt.Errorf("engine: Options.BatchMetrics: %w", err)
		}
	}
	if s.eval.Predict || s.options.ComputeMetrics != nil {
		n := s.options.EvalAccumulation
		s.eval.outputs.add(o, n > 0 && (s.eval.outputs.batches+1)%n == 0)
	}
	return nil
}

// Metrics ends the running evaluation. "loss" is included if there were labels; how it is computed
// from the losses of the batches depends on the evaluation's semantics. The other numbers come from
// the task and the options. If ctx is done, neither is asked for numbers, since they would be of
// only a part of the set, and Metrics returns the error of ctx.
func (s *core) Metrics(ctx context.Context) (m trainer.Metrics, err error) {
	err = scoped(func() (err error) {
		m, err = s.endEval(ctx)
		return err
	})
	return m, err
}

func (s *core) endEval(ctx context.Context) (trainer.Metrics, error) {
	s.endsEval()
	if err := ctx.Err(); err != nil {
		batches, added := s.eval.batches, s.eval.added
		s.eval.drop()
		s.eval.batches, s.eval.added = batches, added // for the next StartEval
		return nil, err
	}
	defer s.eval.drop()
	m := trainer.Metrics{}
	losses, rows, dtype := s.eval.losses.take()
	if len(losses) > 0 {
		if s.eval.Rows == 0 {
			s.eval.Rows = s.eval.rows // a stream
		}
		m["loss"] = evalLoss(s.eval.Evaluation, losses, rows, dtype)
	}
	if err := s.sortObserved(); err != nil {
		s.forgetMetrics()
		return nil, err
	}
	maps.Copy(m, s.taskMetrics())
	if s.eval.batches == 0 {
		return m, nil
	}
	if s.options.BatchMetrics != nil && !s.eval.added {
		s.warnOfNoLabels("BatchMetrics")
	}
	if s.eval.added {
		numbers, err := s.options.BatchMetrics.Result()
		if err != nil {
			return nil, fmt.Errorf("engine: Options.BatchMetrics: %w", err)
		}
		maps.Copy(m, numbers)
	}
	if s.eval.outputs.batches == 0 {
		return m, nil
	}
	p := s.eval.outputs.take()
	p.Losses = losses
	if err := p.inOrder(s.eval.order); err != nil {
		p.Free()
		return nil, err
	}
	compute := s.options.ComputeMetrics
	if compute != nil && len(p.Labels) == 0 {
		s.warnOfNoLabels("ComputeMetrics")
	}
	if compute != nil && len(p.Labels) > 0 {
		numbers, err := compute(p)
		if err != nil {
			p.Free()
			return nil, fmt.Errorf("engine: Options.ComputeMetrics: %w", err)
		}
		maps.Copy(m, numbers)
	}
	if s.eval.Predict {
		s.predictions = p
	} else {
		p.Free()
	}
	return m, nil
}

// warnOfNoLabels warns that an evaluation has no metrics. A prediction need not have any.
func (s *core) warnOfNoLabels(option string) {
	if !s.eval.Predict {
		s.once("Options."+option+" is set, but %T shows no labels (engine.Outputs.Labels), so it has no effect", s.task.given)
	}
}

// taskMetrics returns the metrics of a task that computes some. The task then starts over.
func (s *core) taskMetrics() map[string]float64 {
	if s.task.isEvaluator || s.task.isObserver {
		return s.task.Metrics()
	}
	return nil
}

// forgetMetrics makes the task and BatchMetrics start over.
func (s *core) forgetMetrics() {
	s.taskMetrics()
	if s.eval.added {
		_, _ = s.options.BatchMetrics.Result() // the result, or its error, is of no interest
	}
}

// Predictions returns the predictions of the last evaluation that kept them, as
// trainer.Trainer.Predict does; nil if there was none. They belong to the caller.
func (s *core) Predictions() *Predictions { return s.predictions }
