package pymarlin

import (
	"context"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/sharedorder"
	"github.com/gotrainer/gotrainer/torch"
)

// Sampler says in which order a loader visits its samples: the class that PyMarlin passes to
// get_train_dataloader.
type Sampler interface {
	// Name returns the name of the class in torch.utils.data.
	Name() string
	// Order is called by each loader.
	Order() data.Order
}

// RandomSampler visits the samples in an order drawn from the default generator at each pass.
type RandomSampler struct{}

// Name returns "RandomSampler".
func (RandomSampler) Name() string { return "RandomSampler" }

// Order draws the seed of a permutation, as torch.utils.data.RandomSampler does.
func (RandomSampler) Order() data.Order {
	return data.OrderFunc(func(_, n int) []int { return data.Permutation(uint64(sharedorder.Draw()), n) })
}

// SequentialSampler visits the samples in their own order.
type SequentialSampler struct{}

// Name returns "SequentialSampler".
func (SequentialSampler) Name() string { return "SequentialSampler" }

// Order returns the order of the data set.
func (SequentialSampler) Order() data.Order { return data.Sequential{} }

// DistributedSampler visits the samples of one of several processes, in an order shared by all:
// torch.utils.data.DistributedSampler. It is padded with the first samples of the order, so that
// all processes have the same number.
type DistributedSampler struct {
	Rank, WorldSize int // this process, and how many there are; WorldSize zero: 1
	Epoch           int // each epoch has its own order: set_epoch
	Seed            uint64
}

// Name returns "DistributedSampler".
func (DistributedSampler) Name() string { return "DistributedSampler" }

// Order returns every WorldSize-th sample of a permutation seeded with Seed+Epoch, independent of
// the default generator.
func (s DistributedSampler) Order() data.Order {
	return share{s.Rank, max(1, s.WorldSize), true, data.Shuffled{Seed: s.Seed + uint64(s.Epoch)}}
}

// SequentialDistributedSampler visits every WorldSize-th sample, starting with Rank.
type SequentialDistributedSampler struct {
	Rank, WorldSize int // this process, and how many there are; WorldSize zero: 1

	// Padded pads with the first samples, so that all processes have the same number, and some
	// samples are visited twice.
	Padded bool
}

// Name returns "SequentialDistributedSampler".
func (SequentialDistributedSampler) Name() string { return "SequentialDistributedSampler" }

// Order returns the order of the data set.
func (s SequentialDistributedSampler) Order() data.Order {
	return share{s.Rank, max(1, s.WorldSize), s.Padded, data.Sequential{}}
}

// share is the part of an order that one process gets: every world-th index, starting from rank.
type share struct {
	rank, world int
	padded      bool
	order       data.Order
}

func (s share) Count(n int) int {
	if s.padded {
		return (n + s.world - 1) / s.world
	}
	return (n - s.rank + s.world - 1) / s.world
}

func (s share) Indices(_, n int) []int {
	all, own := s.order.Indices(0, n), make([]int, s.Count(n))
	for i := range own {
		own[i] = all[(s.rank+i*s.world)%n] // wraps around only if the order is padded
	}
	return own
}

// Dataloader returns the batches of one pass: one made by [NewDataloader], or a custom one.
type Dataloader[B any] interface {
	// Len returns the number of batches in a pass.
	Len() int
	// Batches starts a pass. An error ends it.
	Batches(ctx context.Context) iter.Seq2[B, error]
}

// Keyed is a loader with the name under which its outputs are reported.
type Keyed[B any] struct {
	Key    string
	Loader Dataloader[B]
}

// Dataloaders are the sets of a validation, in the order in which they are run: a dict in Python.
type Dataloaders[B any] []Keyed[B]

// Single returns a validation over one set, with the key "default".
func Single[B any](l Dataloader[B]) Dataloaders[B] { return Dataloaders[B]{{"default", l}} }

// DataloaderOptions configures [NewDataloader].
type DataloaderOptions struct {
	BatchSize int     // required
	Sampler   Sampler // nil: SequentialSampler
	DropLast  bool    // drop the last batch of a pass if it is smaller
	Workers   int     // goroutines that load and collate; zero: one per processor
}

// NewDataloader makes a loader for a data set: torch.utils.data.DataLoader. collate makes a batch
// from samples; it is called by several goroutines.
//
// Starting a pass draws two numbers from the default generator, in addition to what the sampler
// draws. In Python they seed worker processes: one for the pass, and one because PyMarlin's
// progress bar requests a second iterator.
func NewDataloader[S, B any](d data.Dataset[S], collate func([]S) (B, error), o DataloaderOptions) (Dataloader[B],
	error) {
	if o.Sampler == nil {
		o.Sampler = SequentialSampler{}
	}
	l, err := data.NewLoader(d, collate, data.LoaderOptions{BatchSize: o.BatchSize, Order: o.Sampler.Order(),
		DropLast: o.DropLast, Workers: o.Workers})
	if err != nil {
		return nil, fmt.Errorf("pymarlin: NewDataloader: %w", err)
	}
	return &dataloader[S, B]{loader: l}, nil
}

type dataloader[S, B any] struct {
	loader *data.Loader[S, B]
	passes int
}

func (l *dataloader[S, B]) Len() int { return l.loader.Len() }

func (l *dataloader[S, B]) Batches(ctx context.Context) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		if err := torch.Try(func() { sharedorder.Draw(); sharedorder.Draw() }); err != nil {
			yield(*new(B), err)
			return
		}
		l.passes++
		l.loader.Epoch(ctx, l.passes-1, 0)(yield)
	}
}
