package pytorchaccelerated

import (
	"cmp"
	"context"
	"iter"
	"reflect"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/sharedorder"
)

// LoaderOptions are the keyword arguments of a data loader: train_dataloader_kwargs and
// eval_dataloader_kwargs. The zero value means the Trainer's defaults.
type LoaderOptions struct {
	BatchSize int `json:"batch_size"` // takes precedence over PerDeviceBatchSize, which zero means
	// a new permutation in each pass; nil: yes for training, no for evaluation
	Shuffle    *bool      `json:"shuffle"`
	Sampler    data.Order `json:"-"`           // the order of samples, instead of Shuffle
	DropLast   bool       `json:"drop_last"`   // drop the last batch of a pass if it is smaller
	NumWorkers int        `json:"num_workers"` // goroutines that load and collate; zero: one per processor

	// called for a sample that cannot be loaded; see data.LoaderOptions
	BadSample func(index int, err error) error `json:"-"`
}

// over returns the options with defaults for the fields that are not set.
func (o LoaderOptions) over(defaults LoaderOptions) LoaderOptions {
	if o.Sampler != nil && o.Shuffle == nil {
		o.Shuffle = new(false) // a sampler and shuffling exclude each other
	}
	for field, v := range reflect.ValueOf(&o).Elem().Fields() {
		if v.IsZero() {
			v.Set(reflect.ValueOf(defaults).FieldByIndex(field.Index))
		}
	}
	return o
}

// Loader returns the batches of a pass, for any number of passes.
type Loader[B any] interface {
	// Len returns the number of batches in a pass.
	Len() int
	// Batches starts pass number epoch, counted from 0, after its first skip batches.
	Batches(ctx context.Context, epoch, skip int) iter.Seq2[B, error]
}

// NewLoader makes the loader of a data set, as CreateTrainDataloader and CreateEvalDataloader of
// the Trainer do. Starting a pass draws the same numbers from the default generator as PyTorch:
// one number, and with Shuffle a second one that seeds the permutation.
func NewLoader[S, B any](d data.Dataset[S], collate func([]S) (B, error), o LoaderOptions) (Loader[B], error) {
	return newLoader(d, collate, o, "LoaderOptions")
}

func newLoader[S, B any](d data.Dataset[S], collate func([]S) (B, error), o LoaderOptions, field string) (Loader[B],
	error) {
	shuffle := o.Shuffle != nil && *o.Shuffle
	if err := cmp.Or(
		refuse(o.BatchSize < 1, field+".BatchSize", o.BatchSize, "at least 1, or 0 for PerDeviceBatchSize"),
		refuse(o.NumWorkers < 0, field+".NumWorkers", o.NumWorkers,
			"a positive number, or 0 for one for each processor"),
		refuse(o.Sampler != nil && shuffle, field+".Shuffle", shuffle, "false, since there is a Sampler")); err != nil {
		return nil, err
	}
	order := cmp.Or[data.Order](o.Sampler, data.Sequential{})
	if shuffle {
		order = data.OrderFunc(func(_, n int) []int { return data.Permutation(uint64(sharedorder.Draw()), n) })
	}
	options := data.LoaderOptions{BatchSize: o.BatchSize, Order: order, DropLast: o.DropLast, Workers: o.NumWorkers,
		BadSample: o.BadSample}
	l, err := data.NewLoader(d, collate, options)
	if err != nil {
		return nil, prefixed(err)
	}
	return &loader[S, B]{Loader: l, set: d, collate: collate, options: options, shuffles: shuffle}, nil
}

type loader[S, B any] struct {
	*data.Loader[S, B]

	// what the loader was made from, to make the loader for one process's part
	set      data.Dataset[S]
	collate  func([]S) (B, error)
	options  data.LoaderOptions
	shuffles bool

	group *dist.Group
	order *sharedorder.Order // shared by several processes; nil: none
}

func (l *loader[S, B]) Batches(ctx context.Context, epoch, skip int) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		if l.order != nil {
			if err := l.order.Agree(ctx, l.group); err != nil {
				yield(*new(B), err)
				return
			}
		}
		sharedorder.Draw() // a DataLoader draws this when an iterator is created, as the base seed of its workers
		i := min(skip, l.Len())
		for b, err := range l.Epoch(ctx, epoch, i) {
			if i++; i == l.Len() && l.order != nil { // Accelerate's loader looks one batch ahead
				l.order.End(l.set.Len())
			}
			if !yield(b, err) {
				return
			}
		}
	}
}
