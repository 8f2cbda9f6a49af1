package hezar

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// step is the arithmetic of a Trainer as the loop wants it. Hezar's training_step is forward and
// backward in one, and its optimization_step is called for every batch.
type step[S, B any] struct {
	trainer.BaseStep[S, B]
	t *Trainer[S, B]

	loss float64 // of the last batch, not divided
	eval evaluation
	line *loops.Progress // of the running evaluation
	logs Logs            // of the last evaluation
}

var (
	_ trainer.SplitStep[int] = (*step[int, int])(nil)
	_ trainer.GroupStep[int] = (*step[int, int])(nil)
)

func (s *step[S, B]) About() trainer.About {
	return trainer.About{Text: fmt.Sprintf("%T on %s", s.t.model.Model(), s.t.device), JoinsGroup: true}
}

// JoinGroup makes the model the same on all processes: accelerator.prepare.
func (s *step[S, B]) JoinGroup(ctx context.Context, g *dist.Group) (err error) {
	if s.t.parallel != nil { // an evaluation within a run
		return nil
	}
	if _, ok := s.t.optimizer.(optim.BackwardUpdater); ok {
		return fmt.Errorf("hezar: %T updates each parameter during the backward pass, before its gradient is averaged "+
			"over %d processes: want another optimizer, or one process", s.t.optimizer, g.World())
	}
	s.t.parallel, err = ddp.New(ctx, g, s.t.model.Model(), ddp.Options{FindUnusedParameters: true, BucketCapMB: 25})
	return prefixed(err)
}

// RandomState is nothing: the state of the session has it.
func (s *step[S, B]) RandomState() ([]byte, error) { return nil, nil }

// SetRandomState has nothing to do.
func (s *step[S, B]) SetRandomState([]byte) error { return nil }

// SharesEval is false: every process evaluates the whole set.
func (s *step[S, B]) SharesEval(trainer.Evaluation) bool { return false }

// EvalRound is Eval of this process alone.
func (s *step[S, B]) EvalRound(ctx context.Context, r trainer.EvalRound[B]) error {
	return s.Eval(ctx, r.Batch)
}

func (s *step[S, B]) Collate(samples []S) (B, error) { return s.t.collate(samples) }

// Loader makes the loader of an evaluation; that of the training set is made for each epoch.
func (s *step[S, B]) Loader(set data.Dataset[S], o trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	if o.Evaluation == nil {
		return loader[B]{s.t.NumBatches, func() (*Dataloader[B], error) {
			return s.t.call.CreateTrainDataloader(s.t)
		}}, nil
	}
	d, err := s.t.call.CreateEvalDataloader(s.t, set)
	if err != nil {
		return nil, err
	}
	s.line = loops.NewProgress(s.t.options.Output, "Evaluating:     ", d.Len)
	return loader[B]{d.Len, func() (*Dataloader[B], error) { return d, nil }}, nil
}

// Seed begins the random numbers of a pass. New has begun those of the run.
func (s *step[S, B]) Seed(_ uint64, o trainer.SeedOptions) error {
	if o.KeepModel {
		torch.ManualSeed(s.t.seed())
	}
	return nil
}

// StartLoader draws what PyTorch's DataLoader draws as the seed of its workers.
func (s *step[S, B]) StartLoader(bool) error {
	if s.t.options.Rules.SeedEveryPass {
		loops.Draw()
	}
	return nil
}

func (s *step[S, B]) ZeroGrad() error {
	s.t.optimizer.ZeroGrad()
	return nil
}

func (s *step[S, B]) Train(ctx context.Context, b B, w trainer.Window) error {
	if err := s.Forward(ctx, b, w); err != nil {
		return err
	}
	return s.Backward(ctx)
}

// Forward is training_step, forward and backward.
func (s *step[S, B]) Forward(ctx context.Context, b B, w trainer.Window) error {
	t := s.t
	b, err := t.call.PrepareInputBatch(t, b)
	if err != nil {
		return err
	}
	t.window, t.averaged = w, false
	if t.parallel != nil {
		if err := t.parallel.BeforeForward(ctx, t.endsWindow()); err != nil {
			return prefixed(err)
		}
	}
	torch.Scope(func() {
		var loss torch.Tensor
		if loss, err = t.call.TrainingStep(t, b); err == nil {
			s.loss = loss.Item()
		}
	})
	if err == nil && t.parallel != nil && !t.averaged {
		err = errors.New("hezar: Overrides.TrainingStep has not called the Trainer's Backward, which averages the " +
			"gradients over the processes")
	}
	return err
}

// Backward is the optimization_step of a batch that does not end its window. Update is that of one
// that does.
func (s *step[S, B]) Backward(context.Context) error {
	if s.t.endsWindow() {
		return nil
	}
	return s.optimize()
}

func (s *step[S, B]) Update(context.Context, float64) (applied bool, err error) {
	return true, s.optimize()
}

func (s *step[S, B]) optimize() (err error) {
	torch.Scope(func() { err = s.t.call.OptimizationStep(s.t) })
	return err
}

func (s *step[S, B]) BatchLoss() (trainer.BatchLoss, error) {
	return trainer.BatchLoss{Loss: s.loss, Divided: s.loss / s.t.window.Divisor}, nil
}

// Report has nothing to add: what Hezar logs is the running loss.
func (s *step[S, B]) Report(context.Context) (trainer.Report, error) {
	return trainer.Report{GradNorm: -1}, nil
}

func (s *step[S, B]) StartEval(e trainer.Evaluation) error {
	h := s.t.handler
	s.eval = evaluation{handler: h, byBatch: e.Loss == semantics.MeanOfBatches,
		sums: map[string]float64{}}
	if p := s.t.parallel; p != nil {
		if err := p.BeforeForward(context.Background(), false); err != nil { // the buffers of the main process
			return prefixed(err)
		}
	}
	nn.SetTraining(s.t.model.Model(), false)
	_, err := h.Result() // what an evaluation that failed has left
	return err
}

func (s *step[S, B]) Eval(_ context.Context, b B) error {
	t := s.t
	b, err := t.call.PrepareInputBatch(t, b)
	if err != nil {
		return err
	}
	torch.InferenceMode(func() {
		torch.Scope(func() {
			var o EvalOutputs
			if o, err = t.call.EvaluationStep(t, b); err == nil {
				err = s.eval.add(o)
			}
		})
	})
	if err == nil {
		s.line.Add()
		t.call.AfterEvalBatch(t, s.eval.last)
	}
	return err
}

func (s *step[S, B]) Metrics(context.Context) (m trainer.Metrics, err error) {
	s.line.End()
	if s.logs, err = s.eval.result(); err != nil {
		return nil, err
	}
	m = trainer.Metrics{}
	for _, v := range s.logs {
		m[v.Name] = v.Value
	}
	return m, nil
}

// loader hands out the batches of the loaders that a Trainer makes for its passes.
type loader[B any] struct {
	len  int // of a whole pass
	open func() (*Dataloader[B], error)
}

func (l loader[B]) Len() int { return l.len }

func (l loader[B]) Epoch(ctx context.Context, _, skip int) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		var none B
		d, err := l.open()
		if err == nil && d.Len != l.len-skip {
			err = fmt.Errorf("hezar: the loader has %d batches; want the %d that are left of the %d by which the run "+
				"was "+
				"planned", d.Len, l.len-skip, l.len)
		}
		if err != nil {
			yield(none, err)
			return
		}
		for b, err := range d.Batches(ctx) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}
