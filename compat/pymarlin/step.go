package pymarlin

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
)

// step is the arithmetic of a run as the loop wants it, that of the backend, and the loader of the
// current epoch. The loop knows no samples and no validation: the module makes the loaders of both.
type step[B any] struct {
	trainer.BaseStep[struct{}, B]
	p *pass[B]
}

func (s step[B]) About() trainer.About {
	return trainer.About{Text: fmt.Sprintf("%T on %s", modelOf(s.p.t.module), s.p.t.device)}
}

// Loader makes the loader of all epochs.
func (s step[B]) Loader(data.Dataset[struct{}], trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	return s.p, nil
}

func (s step[B]) Train(_ context.Context, b B, _ trainer.Window) error {
	return s.p.t.backend.TrainBatch(b)
}

func (s step[B]) Update(context.Context, float64) (applied bool, err error) {
	return true, s.p.t.backend.ProcessGlobalStep()
}

// Report has nothing to add: the backend hands the loss to the stats.
func (s step[B]) Report(context.Context) (trainer.Report, error) {
	return trainer.Report{GradNorm: -1}, nil
}

var errNotAsked = errors.New("pymarlin: the loop has no data set: the module's loaders make and validate the batches")

func (s step[B]) Collate([]struct{}) (b B, err error)                    { return b, errNotAsked }
func (s step[B]) Eval(context.Context, B) error                          { return errNotAsked }
func (s step[B]) Metrics(context.Context) (m trainer.Metrics, err error) { return nil, errNotAsked }

// pass is around the training on an epoch and hands out its batches.
type pass[B any] struct {
	t       *Trainer[B]
	ctx     context.Context
	batches int    // of an epoch, by which the run was planned
	from    *place // inside an epoch, from which the run has not gone any further; nil: it has

	loader  Dataloader[B] // of the current epoch
	random  random        // as it was before that loader was made
	outputs Collected     // of the epoch
}

// AroundEpoch has the module make the loader of an epoch and the backend train on it.
func (p *pass[B]) AroundEpoch(_ *trainer.Run, train func() error) (err error) {
	t := p.t
	if p.from != nil { // the loader is to draw what it has drawn
		if err := setRandom(p.from.pass); err != nil {
			return err
		}
	}
	p.random = currentRandom(t.device)
	loader, err := t.module.TrainDataloader(t.backend.TrainSampler(), t.TrainStepBatchSize())
	if err != nil {
		return err
	}
	if loader == nil {
		return errNoLoader
	}
	defer t.progress.end()
	calls := 0
	p.outputs, err = t.backend.TrainDL(p.ctx, loader, func(l Dataloader[B]) error {
		if calls++; calls > 1 {
			return errNotOnce
		}
		p.loader = l
		return train()
	})
	if err == nil && calls == 0 {
		err = errNotOnce
	}
	return err
}

var errNotOnce = errors.New("the backend's TrainDL must call train, by which the epoch is trained on, once")

// AfterBackward counts a batch on the terminal.
func (p *pass[B]) AfterBackward(r *trainer.Run) error {
	p.t.progress.show("training", r.Batches+1, p.batches)
	return nil
}

// Len is the number of batches of an epoch.
func (p *pass[B]) Len() int { return p.batches }

// Epoch hands out the batches of the loader. A run that continues inside an epoch passes by those
// that were trained on, and then draws from where it was.
func (p *pass[B]) Epoch(ctx context.Context, _, skip int) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		var none B
		if n := p.loader.Len(); n != p.batches {
			yield(none, fmt.Errorf("the loader has %d batches; want the %d of the loader that TrainDataloader made "+
				"first, by which the run was planned", n, p.batches))
			return
		}
		passed := 0
		for b, err := range p.loader.Batches(ctx) {
			if err == nil && passed < skip {
				if passed++; passed == skip && p.from != nil {
					err = setRandom(p.from.random)
					p.from = nil
				}
				if err == nil {
					continue
				}
			}
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}
