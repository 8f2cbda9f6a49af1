package engine

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
)

// Options.DatasetOnDevice: the device holds the slices of numbers that a batch of all samples would
// have, with a row for each sample. For a batch only the indices of its samples are sent, and an
// index_select of each slice replaces the copy. Batches are also made on the host, since tasks look
// at them, but they are not sent.

// resident is a data set on the device. A nil resident means that there is none.
type resident struct {
	device  torch.Device
	limit   int64
	row     []slice        // slices of one sample, without addresses
	columns []torch.Tensor // each slice, for all samples: [samples, row[k].n]
	handed  *arrivals
	used    bool
}

func (r *resident) free() {
	if r == nil {
		return
	}
	freeAll(r.columns)
	r.row, r.columns = nil, nil
}

// stacked returns the slices of a batch if each of them is rows times as long as that of one
// sample.
func stacked(batch any, rows int, one []slice, whose string) ([]slice, error) {
	found := slicesOf(batch)
	if len(found) != len(one) {
		return nil, notStacked("a batch of %d samples has %d slices of numbers, and that of %s has %d", rows, len(found),
			whose, len(one))
	}
	for k, s := range one {
		if found[k].n != rows*s.n || found[k].element != s.element {
			return nil, notStacked("%s of a batch of %d samples has %d numbers, and that of %s %d", nameOf(batch, k), rows,
				found[k].n, whose, s.n)
		}
	}
	return found, nil
}

// hand registers a batch that is about to be used.
func (r *resident) hand(batch any, rows []int64) error {
	found, err := stacked(batch, len(rows), r.row, "one sample")
	if err != nil {
		return refused(err)
	}
	a := &arrival{slices: found}
	var index torch.Tensor
	a.tensor = func(k int) torch.Tensor {
		if !a.used {
			index = toDevice(ForwardPass{Device: r.device}, torch.FromPinned(rows)).Keep()
		}
		return r.columns[k].IndexSelect(0, index)
	}
	a.free = func() { index.Free() }
	*r.handed = append(*r.handed, a)
	return nil
}

// numbered is a batch and the indices of its samples.
type numbered struct {
	batch any
	rows  []int64
}

// residentChunk is the number of samples that are collated and sent at a time when a set is sent to
// the device.
const residentChunk = 256

// loader sends a training set to the device and returns the loader of its batches.
func (r *resident) loader(set samples, o data.LoaderOptions) (*loader[any], error) {
	r.free()
	r.used = true
	if set.varies() {
		return nil, refused(fmt.Errorf("the samples of %T differ from epoch to epoch, as those of data.Augment do; want a "+
			"set whose samples do not change, or 0", set.dataset()))
	}
	reader, err := set.numberedLoader(func(n numbered) error { return checkStacked(set, n) },
		data.LoaderOptions{BatchSize: residentChunk, Workers: o.Workers, SampleTimeout: o.SampleTimeout})
	if err != nil {
		return nil, refused(err)
	}
	if failed := torch.Try(func() {
		for n, e := range reader.Epoch(context.Background(), 0, 0) {
			if err = e; err == nil {
				err = r.add(n.batch, n.rows, set.count())
			}
			if err != nil {
				return
			}
		}
	}); failed != nil { // an error of the device, not a misuse of the option
		r.free()
		return nil, fmt.Errorf("engine: Options.DatasetOnDevice: %w", failed)
	}
	if err != nil {
		r.free()
		return nil, refused(err)
	}
	o.ReuseSamples = true
	batches, err := set.numberedLoader(func(numbered) error { return nil }, o)
	if err != nil {
		return nil, err
	}
	return &loader[any]{batches, notingRows(r, batches.Epoch)}, nil
}

func notingRows(r *resident, batches pass[numbered]) pass[any] {
	return func(ctx context.Context, epoch, skip int) iter.Seq2[any, error] {
		return func(yield func(any, error) bool) {
			defer r.handed.forget(func(*arrival) bool { return true })
			for n, err := range batches(ctx, epoch, skip) {
				if err == nil {
					err = r.hand(n.batch, n.rows)
				}
				if !yield(n.batch, err) || err != nil {
					return
				}
			}
		}
	}
}

func refused(err error) error {
	return run.Usage(fmt.Errorf("engine: Options.DatasetOnDevice: %w", err))
}

// add copies samples of the set to their rows on the device.
func (r *resident) add(batch any, rows []int64, samples int) error {
	if r.columns == nil {
		if err := r.room(batch, len(rows), samples); err != nil {
			return err
		}
	}
	found, err := stacked(batch, len(rows), r.row, "one sample")
	if err != nil {
		return err
	}
	torch.Scope(func() {
		for k, all := range r.columns {
			to := all.Narrow(0, rows[0], int64(len(rows)))
			torch.Call("aten::copy_", to, found[k].pinned().View(to.Shape()...), true)
		}
	})
	return nil
}

// room allocates memory on the device for the whole set, unless that exceeds the limit.
func (r *resident) room(batch any, rows, samples int) error {
	found := slicesOf(batch)
	if len(found) == 0 {
		return fmt.Errorf("a %T holds no slice of numbers in its fields, so there is nothing to keep on the device; want 0",
			batch)
	}
	total := 0
	var texts []string
	for k, s := range found {
		total += s.n / rows * int(s.element.Size()) * samples
		texts = append(texts, fmt.Sprintf("%s %d %v", nameOf(batch, k), s.n/rows, s.element))
	}
	if int64(total) > r.limit {
		return fmt.Errorf("the set takes %d bytes (%d samples of %s), and the limit is %d; raise it, or set it to 0 "+
			"and use Options.Prefetch instead", total, samples, strings.Join(texts, ", "), r.limit)
	}
	for _, s := range found {
		s = slice{n: s.n / rows, element: s.element}
		all := torch.TensorOptions{Device: r.device, DType: sendable[s.element].dtype}.Zeros(int64(samples), int64(s.n))
		r.row, r.columns = append(r.row, s), append(r.columns, all.Keep())
	}
	return nil
}

// checkStacked compares a batch with its samples, which are read and collated again one by one.
func checkStacked(set samples, n numbered) error {
	for k, row := range n.rows {
		single, err := set.batchOf(int(row))
		if err != nil {
			return err
		}
		one := slicesOf(single)
		whole, err := stacked(n.batch, len(n.rows), one, fmt.Sprintf("sample %d alone", row))
		if err != nil {
			return err
		}
		for i, s := range one {
			if size := len(s.bytes()); !bytes.Equal(s.bytes(), whole[i].bytes()[k*size:][:size]) {
				return fmt.Errorf("%s of sample %d is not the same when it is read again, or made a batch of its own: "+
					"random changes by the data set or by Collate cannot be kept; want 0", nameOf(n.batch, i), row)
			}
		}
	}
	return nil
}

func notStacked(format string, args ...any) error {
	return fmt.Errorf(format+": Collate must place samples of equal size one after the other (for texts: "+
		"data.Padding.Length, and a mask in every batch); want that, or 0", args...)
}
