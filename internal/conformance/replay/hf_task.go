package replay

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hfTask is the model of a case as a task of package engine.
type hfTask struct {
	run   *hfRun
	model *model
	last  batch // the batch of the last Predict, for its loss
}

var (
	_ engine.Predictor[batch]    = (*hfTask)(nil)
	_ engine.LossObserver[batch] = (*hfTask)(nil)
	_ engine.ItemCounter[batch]  = (*hfTask)(nil)
	_ engine.TokenCounter[batch] = (*hfTask)(nil)
)

func (t *hfTask) Model() any                        { return t.model.module }
func (t *hfTask) Collate(rows []row) (batch, error) { return collate(rows) }

func (t *hfTask) Loss(p engine.ForwardPass, b batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

func (t *hfTask) Predict(p engine.ForwardPass, b batch) engine.Outputs {
	if !t.run.args.asked.RemoveUnusedColumns {
		takes(t.model, b)
	} else {
		b = b.keep(t.model.inputs)
	}
	b = b.on(p.Device)
	t.last = b
	o := engine.Outputs{Logits: []torch.Tensor{t.model.predict(b)}, Rows: len(b.index), Shifted: t.model.shiftsLabels}
	if s := t.run.step; s.evaluates {
		s.shapes = append(s.shapes, o.Logits[0].Shape())
	}
	if b.has("labels") && !(t.run.args.noLabels && t.run.step.evaluates) {
		o.Labels = []torch.Tensor{b.tensor("labels")}
	}
	return o
}

func (t *hfTask) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	if len(o.Labels) == 0 {
		return engine.Loss{Rows: o.Rows}
	}
	items := int64(0)
	if t.model.takesItems {
		items = p.Items
	}
	value := biased(t.model.loss(o.Logits[0], o.Labels[0], items), t.last)
	if items > 0 {
		return engine.PerItem(value, o.Rows)
	}
	return engine.Mean(value, o.Rows)
}

func (t *hfTask) ObserveLoss(b batch, loss torch.Tensor) { t.run.micro(b.index, loss.Item()) }

// CountItems counts the labels over which the loss is averaged, if the recorded trainer would: for
// a model that accepts the number, and for a custom loss.
func (t *hfTask) CountItems(b batch) int64 {
	if !b.has("labels") || !t.model.takesItems && t.run.spec.LossFunc == "" {
		return 0
	}
	labels := b.columns["labels"]
	values := integers(labels)
	if values == nil { // floats, none of which is -100
		return labels.Numel()
	}
	width := int64(1)
	if labels.Dim() > 1 {
		width = labels.Size(-1)
	}
	shifted := t.model.shiftsLabels && t.model.takesItems
	count := int64(0)
	for i, v := range values {
		if v != -100 && !(shifted && int64(i)%width == 0) {
			count++
		}
	}
	return count
}

// CountTokens counts the elements of input_ids, and those that the attention mask selects.
func (t *hfTask) CountTokens(b batch) (all, nonPadding int64) {
	if !b.has("input_ids") {
		return 0, 0
	}
	all = b.tensor("input_ids").Numel()
	if !b.has("attention_mask") {
		return all, all
	}
	for _, v := range integers(b.tensor("attention_mask")) {
		nonPadding += v
	}
	return all, nonPadding
}

// perItem is the loss ce_per_item: the sum of cross-entropies over the batch, divided by the number
// of labels in the accumulation window.
func perItem(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	if len(o.Labels) == 0 {
		return engine.Loss{Rows: o.Rows}
	}
	logits, labels := o.Logits[0], o.Labels[0]
	if p.Items == 0 {
		return engine.Mean(logits.CrossEntropyLoss(labels, torch.Tensor{}, torch.ReductionMean, -100, 0), o.Rows)
	}
	sum := logits.CrossEntropyLoss(labels, torch.Tensor{}, torch.ReductionSum, -100, 0)
	return engine.PerItem(sum.DivScalar(float64(p.Items)), o.Rows)
}

// hfStep wraps the engine's step, as a user would to observe a run: it records the arguments and
// results of methods.
type hfStep struct {
	*engine.Step[row, batch]
	run     *hfRun
	current *hfTask // replaced when the model is made again
	items   int64   // in the current window
	tokens  int64   // since the start of the run
	rates   []float64
	skipped bool
	eval    trainer.Evaluation

	started   struct{ train, eval int } // number of loaders started
	evaluates bool                      // the current batch belongs to an evaluation
	shapes    [][]int64                 // shapes of the predictions for each batch of an evaluation
}

var _ trainer.Step[row, batch] = (*hfStep)(nil)

func (s *hfStep) Train(ctx context.Context, b batch, w trainer.Window) error {
	s.items = w.Items
	s.tokens += s.Count(b).Tokens
	return s.Step.Train(ctx, b, w)
}

func (s *hfStep) Update(ctx context.Context, rate float64) (applied bool, err error) {
	s.run.paramGroups(s.Optimizer())
	s.rates = nil
	for _, g := range s.Optimizer().Groups() {
		s.rates = append(s.rates, rate*g.LRScale)
	}
	if s.run.args.asked.Optim == "adafactor" {
		if err = recorded.Try(func() { s.run.rms = rootMeanSquares(s.Optimizer()) }); err != nil {
			return false, err
		}
	}
	applied, err = s.Step.Update(ctx, rate)
	s.skipped = !applied
	return applied, err
}

// Seed uses the seed of the case, which may be 0.
func (s *hfStep) Seed(_ uint64, o trainer.SeedOptions) error {
	if s.run.kept {
		return nil
	}
	return s.Step.Seed(uint64(s.run.args.asked.Seed), o)
}

// StartLoader does not draw a random number for a pass if the workers of an earlier one persist.
func (s *hfStep) StartLoader(train bool) error {
	loaders, started := 1, &s.started.train
	if !train {
		loaders, started = max(1, len(s.run.spec.Data.EvalSets)), &s.started.eval
	}
	if s.run.args.asked.DataloaderPersistentWorkers && *started >= loaders {
		return nil
	}
	*started++
	return s.Step.StartLoader(train)
}

func (s *hfStep) StartEval(e trainer.Evaluation) error {
	s.eval, s.shapes, s.run.order = e, nil, nil
	return s.Step.StartEval(e)
}

func (s *hfStep) Eval(ctx context.Context, b batch) error {
	s.run.order = append(s.run.order, b.index...)
	s.evaluates = true
	err := s.Step.Eval(ctx, b)
	s.evaluates = false
	if err == nil && s.run.args.inputs && !b.has("input_ids") {
		err = fmt.Errorf("include_for_metrics wants the column input_ids")
	}
	return err
}

// batchesMatch refuses predictions of different shapes if the metrics get them as a list, which
// numpy cannot convert to an array.
func (s *hfStep) batchesMatch() error {
	for _, shape := range s.shapes {
		if !s.run.args.asked.EvalDoConcatBatches && !slices.Equal(shape, s.shapes[0]) {
			return fmt.Errorf("eval_do_concat_batches is off, and the predictions of the batches have the shapes %v "+
				"and %v", s.shapes[0], shape)
		}
	}
	return nil
}

func (s *hfStep) Metrics(ctx context.Context) (trainer.Metrics, error) {
	m, err := s.Step.Metrics(ctx)
	if err == nil {
		s.run.recordEvaluation(s.eval, m)
	}
	return m, err
}

// Loader orders the evaluation set by length if the training set is.
func (s *hfStep) Loader(set data.Dataset[row], o trainer.LoaderOptions) (trainer.BatchLoader[batch], error) {
	if o.Evaluation == nil {
		return nil, nil
	}
	if s.run.args.asked.TrainSamplingStrategy == "group_by_length" {
		var list []int
		if err := recorded.Try(func() { list = lengths(set) }); err != nil {
			return brokenLoader{err}, nil
		}
		seed := s.run.args.trainer.DataSeed
		if seed == trainer.SeedZero {
			seed = 0
		}
		o.Order = data.GroupedByLength{Lengths: list, BatchSize: o.BatchSize,
			Random: data.OrderFunc(func(_, n int) []int { return data.Permutation(seed, n) })}
	}
	return data.NewLoader(set, s.Collate, o.LoaderOptions)
}

// brokenLoader fails when it is read, because the recorded trainer makes its loader when an
// evaluation begins.
type brokenLoader struct{ err error }

func (brokenLoader) Len() int { return 1 }
func (b brokenLoader) Epoch(context.Context, int, int) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) { yield(batch{}, b.err) }
}
