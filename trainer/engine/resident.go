package engine

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
)

// Options.DatasetOnDevice: the slices of numbers that a batch of all samples would have lie on the
// device, one row for each sample. A batch is the rows of its samples: their indices are sent, and
// an index_select of each slice stands where its copy would. Batches are made on the host as ever,
// since tasks look into them; they are not sent.

// resident is a data set on the device. A nil one is none.
type resident struct {
	device  torch.Device
	limit   int64
	columns []column
	batches []*selection // that were handed out and are not used up
	used    bool
	warned  bool
}

// column is a slice of numbers of all samples.
type column struct {
	name    string
	element reflect.Type
	width   int          // numbers of a sample
	all     torch.Tensor // [samples, width]
}

func (c column) bytes() int64 { return int64(c.width) * int64(c.element.Size()) }

// selection is a batch by the indices of its samples.
type selection struct {
	slices []slice
	rows   []int64
	index  torch.Tensor // on the device; undefined: not sent yet
}

func newResident(o Options) *resident {
	if o.DatasetOnDevice == 0 {
		return nil
	}
	return &resident{device: o.Device, limit: o.DatasetOnDevice}
}

// take selects the rows of a slice, if it is one of a batch of the set.
func (r *resident) take(s slice) (t torch.Tensor, ok bool) {
	if r == nil {
		return t, false
	}
	for _, b := range slices.Backward(r.batches) { // a slice may be used again for a later batch
		if k := slices.Index(b.slices, s); k >= 0 {
			if !b.index.Defined() {
				b.index = r.send(torch.FromPinned(b.rows)).Keep()
			}
			return r.columns[k].all.IndexSelect(0, b.index), true
		}
	}
	return t, false
}

func (r *resident) send(t torch.Tensor) torch.Tensor {
	if !isRemote(r.device) {
		return t
	}
	return send(t, r.device)
}

// next is called before a pass: what the ones before have taken is used up.
func (r *resident) next(training bool, warn func(format string, args ...any)) {
	if r == nil {
		return
	}
	r.forget(func(b *selection) bool { return b.index.Defined() })
	if training && !r.used && !r.warned {
		r.warned = true
		warn("Options.DatasetOnDevice is set, but the batches of this run do not come from a loader over a data set (a " +
			"stream of data does not), so they are sent one by one")
	}
}

// forget drops some of the batches.
func (r *resident) forget(which func(*selection) bool) {
	r.batches = slices.DeleteFunc(r.batches, func(b *selection) bool {
		if which(b) {
			b.index.Free()
			return true
		}
		return false
	})
}

// free gives the set's memory back.
func (r *resident) free() {
	if r == nil {
		return
	}
	r.forget(func(*selection) bool { return true })
	for _, c := range r.columns {
		c.all.Free()
	}
	r.columns = nil
}

// hand notes a batch that is handed out.
func (r *resident) hand(batch any, rows []int64) error {
	found := numbers(reflect.ValueOf(batch), nil, maxDepth)
	if len(found) != len(r.columns) {
		return notStacked("a batch of %d samples has %d slices of numbers, and that of one sample has %d", len(rows),
			len(found), len(r.columns))
	}
	for k, c := range r.columns {
		if found[k].n != len(rows)*c.width || found[k].element != c.element {
			return notStacked("%s of a batch of %d samples has %d numbers, and that of one sample %d", c.name, len(rows),
				found[k].n, c.width)
		}
	}
	r.batches = append(r.batches, &selection{slices: found, rows: rows})
	return nil
}

// numbered is a batch, or the samples of the set from the first of its rows on, and their indices.
type numbered[B any] struct {
	batch B
	rows  []int64
}

// collate makes batches that know the indices of their samples.
func collateNumbered[S, B any](task Task[S, B]) func([]data.Numbered[S]) (numbered[B], error) {
	return func(samples []data.Numbered[S]) (n numbered[B], err error) {
		plain := make([]S, len(samples))
		n.rows = make([]int64, len(samples))
		for i, s := range samples {
			plain[i], n.rows[i] = s.Sample, int64(s.Index)
		}
		n.batch, err = task.Collate(plain)
		return n, err
	}
}

// residentChunk is how many samples are collated and sent at once when a set goes to the device.
const residentChunk = 256

// residentLoader sends a training set to the device and returns the loader of its batches.
func residentLoader[S, B any](r *resident, set data.Dataset[S], task Task[S, B],
	o data.LoaderOptions) (*rowLoader[S, B], error) {
	r.free()
	r.used = true
	if data.Varies(set) {
		return nil, refused(fmt.Errorf("the samples of %T differ from epoch to epoch, as those of data.Augment do; want a "+
			"set whose samples stay, or 0", set))
	}
	indexed := data.Enumerate(set)
	collate := collateNumbered(task)
	reader, err := data.NewLoader(indexed, func(samples []data.Numbered[S]) (numbered[B], error) {
		n, err := collate(samples)
		if err == nil {
			err = checkStacked(set, task, n)
		}
		return n, err
	}, data.LoaderOptions{BatchSize: residentChunk, Workers: o.Workers, SampleTimeout: o.SampleTimeout})
	if err != nil {
		return nil, refused(err)
	}
	failed := torch.Try(func() { // of the device, which is nobody's mistake
		for n, e := range reader.Epoch(context.Background(), 0, 0) {
			if err = e; err == nil {
				err = r.add(n.batch, n.rows, set.Len())
			}
			if err != nil {
				return
			}
		}
	})
	if err != nil || failed != nil {
		r.free()
	}
	switch {
	case failed != nil:
		return nil, fmt.Errorf("engine: Options.DatasetOnDevice: %w", failed)
	case err != nil:
		return nil, refused(err)
	}
	o.ReuseSamples = true
	loader, err := data.NewLoader(indexed, collate, o)
	if err != nil {
		return nil, err
	}
	return &rowLoader[S, B]{loader, r}, nil
}

func refused(err error) error {
	return run.Usage(fmt.Errorf("engine: Options.DatasetOnDevice: %w", err))
}

// add copies some samples of the set to their rows.
func (r *resident) add(batch any, rows []int64, samples int) error {
	found := numbers(reflect.ValueOf(batch), nil, maxDepth)
	if r.columns == nil {
		if err := r.room(batch, found, len(rows), samples); err != nil {
			return err
		}
	}
	if err := r.hand(batch, rows); err != nil { // only to be checked
		return err
	}
	r.batches = nil
	torch.Scope(func() {
		for k, c := range r.columns {
			to := c.all.Narrow(0, rows[0], int64(len(rows)))
			torch.Call("aten::copy_", to, found[k].pinned().View(to.Shape()...), true)
		}
	})
	return nil
}

// room makes room for the whole set on the device, if it is not more than the limit.
func (r *resident) room(batch any, found []slice, rows, samples int) error {
	if len(found) == 0 {
		return fmt.Errorf("a %T holds no slice of numbers in its fields, so there is nothing to keep on the device; want 0",
			batch)
	}
	var columns []column
	var each int64
	var texts []string
	for k, s := range found {
		c := column{name: nameOf(batch, k), element: s.element, width: s.n / rows}
		columns = append(columns, c)
		each += c.bytes()
		texts = append(texts, fmt.Sprintf("%s %d %v", c.name, c.width, c.element))
	}
	if total := each * int64(samples); total > r.limit {
		return fmt.Errorf("the set takes %d bytes (%d samples of %s), and the limit is %d; want as much, or 0, and "+
			"Options.Prefetch in its place", total, samples, strings.Join(texts, ", "), r.limit)
	}
	for k, c := range columns {
		options := torch.TensorOptions{Device: r.device, DType: dtypes[c.element]}
		columns[k].all = options.Zeros(int64(samples), int64(c.width)).Keep()
		r.columns = columns[:k+1]
	}
	return nil
}

// checkStacked compares a batch with its samples, which are read and collated once more, one by
// one.
func checkStacked[S, B any](set data.Dataset[S], task Task[S, B], n numbered[B]) error {
	whole := numbers(reflect.ValueOf(n.batch), nil, maxDepth)
	for k, row := range n.rows {
		sample, err := set.At(int(row))
		if err != nil {
			return err
		}
		single, err := task.Collate([]S{sample})
		if err != nil {
			return err
		}
		one := numbers(reflect.ValueOf(single), nil, maxDepth)
		if len(one) != len(whole) {
			return notStacked("a batch of %d samples has %d slices of numbers, and that of sample %d alone has %d",
				len(n.rows), len(whole), row, len(one))
		}
		for i, s := range one {
			switch w := whole[i]; {
			case w.element != s.element || w.n != s.n*len(n.rows):
				return notStacked("%s of a batch of %d samples has %d numbers, and that of sample %d alone %d",
					nameOf(n.batch, i), len(n.rows), w.n, row, s.n)
			case !bytes.Equal(s.bytes(), w.bytes()[k*len(s.bytes()):][:len(s.bytes())]):
				return fmt.Errorf("%s of sample %d is not the same when it is read once more, or made a batch of its own: "+
					"random changes by the data set or by Collate cannot be kept; want 0", nameOf(n.batch, i), row)
			}
		}
	}
	return nil
}

func notStacked(format string, args ...any) error {
	return fmt.Errorf(format+": Collate must put samples of one size one after the other (texts: data.Padding.Length, "+
		"and a mask in every batch); want that, or 0", args...)
}

// bytes are those of the slice's memory.
func (s slice) bytes() []byte { return unsafe.Slice((*byte)(s.at), s.n*int(s.element.Size())) }

// nameOf is where in a batch a slice of numbers is: "InputIDs.Values".
func nameOf(batch any, k int) string {
	want := numbers(reflect.ValueOf(batch), nil, maxDepth)[k]
	var path func(v reflect.Value, depth int) (string, bool)
	path = func(v reflect.Value, depth int) (string, bool) {
		if !slices.Contains(numbers(v, nil, depth), want) {
			return "", false
		}
		for v.Kind() == reflect.Pointer {
			v, depth = v.Elem(), depth-1
		}
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				if rest, ok := path(v.Field(i), depth-1); ok {
					return strings.TrimSuffix(v.Type().Field(i).Name+"."+rest, "."), true
				}
			}
		}
		return "", true
	}
	name, _ := path(reflect.ValueOf(batch), maxDepth)
	if name == "" {
		return fmt.Sprintf("%T", batch)
	}
	return name
}

// rowLoader notes the batches that it hands out.
type rowLoader[S, B any] struct {
	*data.Loader[data.Numbered[S], numbered[B]]
	set *resident
}

func (l *rowLoader[S, B]) Epoch(ctx context.Context, epoch, skip int) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		defer l.set.forget(func(*selection) bool { return true })
		for n, err := range l.Loader.Epoch(ctx, epoch, skip) {
			if err == nil {
				if err = l.set.hand(n.batch, n.rows); err != nil {
					err = refused(err)
				}
			}
			if !yield(n.batch, err) || err != nil {
				return
			}
		}
	}
}
