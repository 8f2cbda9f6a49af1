package pytorchaccelerated

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/sharedorder"
	"github.com/gotrainer/gotrainer/torch"
)

// This file holds what several processes need: their parts of the loaders, and communication
// between them.

// group returns the group of processes that train together, from the Accelerator.
func (r *Run) group() *dist.Group {
	if r.accelerator == nil {
		return nil
	}
	return r.accelerator.Group()
}

// several reports whether the run has more than one process.
func (r *Run) several() bool { return r.group().World() > 1 }

// printsHere reports whether this process prints and draws the progress bar: one per machine does.
func (r *Run) printsHere() bool { return r.group().LocalRank() == 0 }

// shardable is a loader that can be divided among processes.
type shardable interface {
	share(g *dist.Group, uneven bool) (*sharedorder.Order, error)
}

// shareLoaders gives this process its part of the batches, like accelerator.prepare of the two
// loaders. Training epochs are padded with their first samples to divide evenly; evaluations are
// not.
func (t *Trainer[S, B]) shareLoaders() (err error) {
	if t.order, err = t.share(t.train, "CreateTrainDataloader", false); err == nil {
		_, err = t.share(t.eval, "CreateEvalDataloader", true)
	}
	return err
}

func (t *Trainer[S, B]) share(l Loader[B], method string, uneven bool) (*sharedorder.Order, error) {
	if l == nil || !t.several() {
		return nil, nil
	}
	s, ok := l.(shardable)
	if !ok {
		return nil, fmt.Errorf("pytorchaccelerated: Methods.%s has made a %T, which would give all %d processes the "+
			"same batches; make it with NewLoader", method, l, t.group().World())
	}
	order, err := s.share(t.group(), uneven)
	return order, prefixed(err)
}

// share implements shardable. If the loader shuffles, all processes use the main process's order.
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

// recordLoss records the mean loss of an epoch over all processes in the history.
func (r *Run) recordLoss(name string) {
	dtype := torch.Float64
	if r.rules.Float32EpochLoss {
		dtype = torch.Float32
	}
	torch.Scope(func() {
		all := r.accelerator.Gather(torch.From([]float64{r.tracker.TotalLoss}, 1).ToDType(dtype).ToDevice(r.Device()),
			torch.From([]int64{int64(r.tracker.RunningCount)}, 1).ToDevice(r.Device()))
		r.history.UpdateMetric(name, all[0].Sum(torch.DefaultDType).Div(all[1].Sum(torch.DefaultDType)).Item())
	})
}

// checkEvalBatchSize refuses a set that leaves processes without a batch: _check_eval_batch_size.
func (t *Trainer[S, B]) checkEvalBatchSize() error {
	set, c := t.args.EvalDataset, t.config
	if set == nil || !c.IsDistributed {
		return nil
	}
	return refuse(c.EvalTotalBatchSize > set.Len(), "EvalDataset", fmt.Sprintf("of %d samples", set.Len()),
		fmt.Sprintf("at least the %d that a batch of all %d processes has, or smaller batches", c.EvalTotalBatchSize,
			c.NumProcesses))
}
