package trainer

import (
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/data"
)

// EvalSet is a validation set with a name, such as "matched".
type EvalSet[S any] struct {
	Name string
	Set  data.Dataset[S]
}

// EvalSets are several validation sets. Fit and Evaluate accept them in place of a validation set.
// The sets are evaluated one by one, in this order, and the numbers of each are logged under its
// name: "eval_matched_loss".
//
//	result, err := t.Fit(ctx, train, trainer.EvalSets[Sample]{{"matched", a}, {"mismatched", b}})
//
// Options.MetricForBest includes the name of the set: "matched_accuracy". If it is empty, the loss
// of the first set decides.
type EvalSets[S any] []EvalSet[S]

// Len returns the number of samples in all sets together, not counting streams.
func (e EvalSets[S]) Len() int {
	n := 0
	for _, s := range e {
		if s.Set != nil {
			n += max(0, s.Set.Len()) // a stream has no length
		}
	}
	return n
}

// At returns sample i of the sets joined in order.
func (e EvalSets[S]) At(i int) (S, error) {
	rest := i
	for _, s := range e {
		if n := max(0, s.Set.Len()); rest >= n {
			rest -= n
			continue
		}
		return s.Set.At(rest)
	}
	var none S
	return none, fmt.Errorf("trainer: the validation sets have %d samples, so none has index %d", e.Len(), i)
}

// check refuses sets that are empty or cannot be told apart by their names.
func (v *validation) check() error {
	if v == nil || len(v.sets) == 0 || !v.several && v.sets[0].empty() {
		return errEmptyValidation
	}
	if !v.several {
		return nil
	}
	seen := map[string]bool{}
	for i, s := range v.sets {
		switch {
		case s.name == "":
			return fmt.Errorf("trainer: validation set %d of %d has no name; its numbers are logged under it", i+1,
				len(v.sets))
		case seen[s.name]:
			return fmt.Errorf("trainer: two validation sets have the name %q; give each its own", s.name)
		case s.empty():
			return fmt.Errorf("trainer: the validation set %q is empty", s.name)
		}
		seen[s.name] = true
	}
	return nil
}

// evaluation is a validation set and the state of its evaluation.
type evaluation struct {
	name   string // "eval", "eval_matched", "test": its metrics are logged under this name
	key    string // "matched_": prefix of its bare metrics if there are several sets
	rows   int    // samples; for a stream those seen, once it has been evaluated
	limit  int    // maximum number of batches; 0: all
	length int    // batches of this process; -1: a stream
	pass   passes
	shared bool // it is divided among the processes

	done, seen int // batches so far and their samples; if shared, the samples of all processes
}

// batches returns the number of batches of the evaluation; 0: unknown.
func (e *evaluation) batches() int {
	if e.limit > 0 && e.length >= 0 {
		return min(e.limit, e.length)
	}
	return max(0, e.length)
}

// op describes the evaluation for an error message.
func (e *evaluation) op() string {
	if e.key == "" {
		return "evaluate"
	}
	return "evaluate on " + strings.TrimSuffix(e.key, "_")
}

// open makes the loaders of a validation set.
func (ev *evaluator) open(valid *validation, prefix string, predict bool) ([]evaluation, error) {
	if err := valid.check(); err != nil {
		return nil, err
	}
	var list []evaluation
	for _, s := range valid.sets {
		e := evaluation{name: prefix, rows: max(0, s.Len()), limit: ev.o.LimitEvalBatches}
		if e.limit > 0 {
			e.rows = min(e.rows, e.limit*ev.o.EvalBatchSize)
		}
		if s.name != "" {
			e.name, e.key = prefix+"_"+s.name, s.name+"_"
		}
		if err := ev.openSet(&e, s, predict); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (ev *evaluator) openSet(e *evaluation, set evalSet, predict bool) (err error) {
	about := ev.describe(e, predict)
	if set.streams {
		e.shared, e.length = ev.sharesEval(about), -1
		e.pass, err = ev.streamPasses(set.stream, ev.evalShard(e.shared))
		return err
	}
	loader, err := set.ownLoader(ev.evalLoaderOptions(&about))
	if err == nil && loader == nil {
		e.shared = ev.sharesEval(about)
		o := ev.evalLoaderOptions(nil).LoaderOptions
		o.Shard = ev.evalShard(e.shared)
		loader, err = set.newLoader(o, nil)
	}
	if err != nil {
		return err
	}
	if err := ev.checkEvalLoader(e, loader.Len()); err != nil {
		return err
	}
	e.length, e.pass = loader.Len(), setPasses(loader, set.Len(), ev.o.EvalBatchSize, ev.evalShard(e.shared))
	return nil
}

// describe returns what the step needs to know about an evaluation.
func (ev *evaluator) describe(e *evaluation, predict bool) Evaluation {
	a := Evaluation{Name: e.name, Rows: e.rows, BatchSize: ev.o.EvalBatchSize, Loss: ev.o.Semantics.EvalLoss,
		Predict: predict, Shared: e.shared}
	a.Even = a.Shared && ev.o.Semantics.EvenEvalBatches
	if e.length < 0 {
		a.Rows = 0
	}
	return a
}
