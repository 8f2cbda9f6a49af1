package pytorchaccelerated

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/sharedorder"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// This file has what several processes ask for beyond one: their parts of the loaders, and what
// they tell each other.

// group is the processes that train together, those of the Accelerator.
func (r *Run) group() *dist.Group {
	if r.accelerator == nil {
		return nil
	}
	return r.accelerator.Group()
}

// several reports whether there is more than one.
func (r *Run) several() bool { return r.group().World() > 1 }

// printsHere reports whether this process prints and draws: one on each machine.
func (r *Run) printsHere() bool { return r.group().LocalRank() == 0 }

// sharer is a loader of which each process can have its part.
type sharer interface {
	share(g *dist.Group, uneven bool) (*sharedorder.Order, error)
}

// shareLoaders gives this process its part of the batches: accelerator.prepare of the two loaders.
// Epochs of training are filled up with their first samples, evaluations are not.
func (t *Trainer[S, B]) shareLoaders() (err error) {
	if t.order = nil; !t.several() {
		return nil
	}
	for _, l := range []struct {
		loader Loader[B]
		method string
	}{{t.train, "CreateTrainDataloader"}, {t.eval, "CreateEvalDataloader"}} {
		if l.loader == nil {
			continue
		}
		s, ok := l.loader.(sharer)
		if !ok {
			return fmt.Errorf("pytorchaccelerated: Methods.%s has made a %T, which would give all %d processes the same "+
				"batches; make it with NewLoader", l.method, l.loader, t.group().World())
		}
		order, err := s.share(t.group(), l.loader == t.eval)
		if err != nil {
			return fmt.Errorf("pytorchaccelerated: %w", err)
		}
		if l.loader == t.train {
			t.order = order
		}
	}
	return nil
}

// share implements sharer. The order of a loader that shuffles is that of the main process.
func (l *loader[S, B]) share(g *dist.Group, uneven bool) (order *sharedorder.Order, err error) {
	o := l.options
	o.Shard = data.Shard{Rank: g.Rank(), WorldSize: g.World(), Uneven: uneven}
	if l.shuffles {
		if order, err = sharedorder.New(); err != nil {
			return nil, err
		}
		o.Order = data.OrderFunc(order.Indices)
	}
	l.group, l.order = g, order
	l.Loader, err = data.NewLoader(l.set, l.collate, o)
	return order, err
}

// together has all processes return an error where one of them has one.
func (r *Run) together(err error, interrupted bool) error {
	err = loops.Together(context.Background(), r.group(), err, interrupted)
	var stop trainer.StopError
	if _, own := errors.AsType[*StopTrainingError](err); !own && errors.As(err, &stop) {
		return StopTraining(stop.Error()) // of another process
	}
	return err
}

// anywhere reports on all processes whether something is so on any of them.
func (r *Run) anywhere(here bool) (bool, error) {
	if !r.several() {
		return here, nil
	}
	n := []int64{0}
	if here {
		n[0] = 1
	}
	err := dist.AllReduce(context.Background(), r.group(), n, dist.Max)
	return n[0] > 0, err
}

// evalRounds is how many batches of an evaluation the process with the most of them has.
func (r *Run) evalRounds(limit int) (int, error) {
	n := []int64{int64(limit)}
	if !r.several() {
		return limit, nil
	}
	err := dist.AllReduce(context.Background(), r.group(), n, dist.Max)
	return int(n[0]), err
}

// averageLoss is the mean of the losses that all processes have seen in an epoch.
func (r *Run) averageLoss() (average float64) {
	total, count := r.tracker.TotalLoss, float64(r.tracker.RunningCount)
	if !r.several() {
		if r.rules.Float32EpochLoss {
			return float64(float32(total) / float32(count)) // as PyTorch does
		}
		return total / count
	}
	dtype := torch.Float64
	if r.rules.Float32EpochLoss {
		dtype = torch.Float32
	}
	torch.Scope(func() {
		all := r.accelerator.Gather(torch.From([]float64{total}, 1).ToDType(dtype).ToDevice(r.Device()),
			torch.From([]int64{int64(count)}, 1).ToDevice(r.Device()))
		average = all[0].Sum(torch.DefaultDType).Div(all[1].Sum(torch.DefaultDType)).Item()
	})
	return average
}

// mayEvaluate refuses an evaluation set that leaves processes without a batch:
// _check_eval_batch_size.
func (t *Trainer[S, B]) mayEvaluate() error {
	if t.sets.eval == nil || !t.config.IsDistributed {
		return nil
	}
	return refuse(t.config.EvalTotalBatchSize > t.sets.eval.Len(), "EvalDataset",
		fmt.Sprintf("of %d samples", t.sets.eval.Len()), fmt.Sprintf("at least the %d that a batch of all %d processes "+
			"has, or smaller batches", t.config.EvalTotalBatchSize, t.config.NumProcesses))
}

// written returns on all processes the error of those that have written a file, when it is there.
func (r *Run) written(err error) error {
	return loops.Together(context.Background(), r.group(), err, false)
}
