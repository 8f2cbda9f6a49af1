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

// splitEvalSets returns the sets of a validation set: a single one without a name if it is not
// EvalSets.
func splitEvalSets[S any](valid data.Dataset[S]) ([]EvalSet[S], error) {
	sets, several := valid.(EvalSets[S])
	if !several && valid != nil && valid.Len() != 0 {
		return []EvalSet[S]{{Set: valid}}, nil
	}
	if len(sets) == 0 {
		return nil, errEmptyValidation
	}
	seen := map[string]bool{}
	for i, s := range sets {
		switch {
		case s.Name == "":
			return nil, fmt.Errorf("trainer: validation set %d of %d has no name; its numbers are logged under it", i+1,
				len(sets))
		case seen[s.Name]:
			return nil, fmt.Errorf("trainer: two validation sets have the name %q; give each its own", s.Name)
		case s.Set == nil || s.Set.Len() == 0:
			return nil, fmt.Errorf("trainer: the validation set %q is empty", s.Name)
		}
		seen[s.Name] = true
	}
	return sets, nil
}

// evaluation is a validation set and the state of its evaluation.
type evaluation[B any] struct {
	name   string // "eval", "eval_matched", "test": its metrics are logged under this name
	key    string // "matched_": prefix of its bare metrics if there are several sets
	rows   int    // samples; for a stream those seen, once it has been evaluated
	limit  int    // maximum number of batches; 0: all
	length int    // batches of this process; -1: a stream
	pass   passes[B]
	shared bool // it is divided among the processes

	done, seen int // batches so far and their samples; if shared, the samples of all processes
}

// batches returns the number of batches of the evaluation; 0: unknown.
func (e *evaluation[B]) batches() int {
	if e.limit > 0 && e.length >= 0 {
		return min(e.limit, e.length)
	}
	return max(0, e.length)
}

// op describes the evaluation for an error message.
func (e *evaluation[B]) op() string {
	if e.key == "" {
		return "evaluate"
	}
	return "evaluate on " + strings.TrimSuffix(e.key, "_")
}

// open makes the loaders of a validation set.
func (ev *evaluator[S, B]) open(valid data.Dataset[S], prefix string, predict bool) ([]evaluation[B], error) {
	sets, err := splitEvalSets(valid)
	if err != nil {
		return nil, err
	}
	var list []evaluation[B]
	for _, s := range sets {
		e := evaluation[B]{name: prefix, rows: max(0, s.Set.Len()), limit: ev.o.LimitEvalBatches}
		if e.limit > 0 {
			e.rows = min(e.rows, e.limit*ev.o.EvalBatchSize)
		}
		if s.Name != "" {
			e.name, e.key = prefix+"_"+s.Name, s.Name+"_"
		}
		if err := ev.openSet(&e, s.Set, predict); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (ev *evaluator[S, B]) openSet(e *evaluation[B], set data.Dataset[S], predict bool) (err error) {
	about := ev.describe(e, predict)
	if stream, ok := set.(EvalStream[S]); ok {
		e.shared, e.length = ev.sharesEval(about), -1
		e.pass, err = ev.streamPasses(stream, ev.evalShard(e.shared))
		return err
	}
	loader, err := ev.step.Loader(set, ev.evalLoaderOptions(&about))
	if err == nil && loader == nil {
		e.shared = ev.sharesEval(about)
		o := ev.evalLoaderOptions(nil).LoaderOptions
		o.Shard = ev.evalShard(e.shared)
		loader, err = data.NewLoader(set, ev.step.Collate, o)
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
func (ev *evaluator[S, B]) describe(e *evaluation[B], predict bool) Evaluation {
	a := Evaluation{Name: e.name, Rows: e.rows, BatchSize: ev.o.EvalBatchSize, Loss: ev.o.Semantics.EvalLoss,
		Predict: predict, Shared: e.shared}
	a.Even = a.Shared && ev.o.Semantics.EvenEvalBatches
	if e.length < 0 {
		a.Rows = 0
	}
	return a
}
