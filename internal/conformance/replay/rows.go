package replay

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// row is one sample: a value for each column, and its index in the set.
type row struct {
	index  int
	values map[string]torch.Tensor // without the batch dimension
}

// batch is a batch of rows.
type batch struct {
	index   []int
	columns map[string]torch.Tensor
}

func (b batch) has(name string) bool { return b.columns[name].Defined() }

// on returns the batch on a device.
func (b batch) on(d torch.Device) batch {
	if d == torch.CPU {
		return b
	}
	b.columns = maps.Clone(b.columns)
	for name, t := range b.columns {
		b.columns[name] = t.ToDevice(d)
	}
	return b
}

// tensor returns a column that the batch must have.
func (b batch) tensor(name string) torch.Tensor {
	if !b.has(name) {
		panic(&torch.Error{Op: "forward", Code: torch.ErrValue, Msg: fmt.Sprintf("the batch has no column %q", name)})
	}
	return b.columns[name]
}

// rows is a split of data.safetensors: row i of each column belongs to sample i.
type rows struct {
	columns map[string]torch.Tensor
	n       int
	trim    bool // cut rows to the sum of their attention_mask
}

var _ data.Dataset[row] = (*rows)(nil)

// readRows reads the splits of a case.
func readRows(s *spec.Spec) map[string]*rows {
	path := filepath.Join(s.Dir, "data.safetensors")
	list, _ := spec.Must2(tensorio.Load(path))
	splits := map[string]*rows{}
	for _, t := range list {
		split, name, ok := strings.Cut(t.Name, ".")
		if !ok || t.Tensor.Dim() == 0 {
			spec.Failf("%s: tensor %q: want a name of the form split.column and at least one dimension", path, t.Name)
		}
		n := int(t.Tensor.Size(0))
		r := splits[split]
		if r == nil {
			r = &rows{columns: map[string]torch.Tensor{}, n: n, trim: s.Data.Trim}
			splits[split] = r
		}
		if n != r.n {
			spec.Failf("%s: tensor %q has %d rows, another column of the split has %d", path, t.Name, n, r.n)
		}
		r.columns[name] = t.Tensor
	}
	return splits
}

func (r *rows) Len() int { return r.n }

// At returns row i, cut to its attention_mask if the set is trimmed.
func (r *rows) At(i int) (out row, err error) {
	err = recorded.Try(func() {
		length := int64(-1)
		if r.trim {
			mask, ok := r.columns["attention_mask"]
			if !ok {
				spec.Failf("data.trim is set, but there is no column attention_mask")
			}
			length = int64(mask.Select(0, int64(i)).Sum(torch.DefaultDType).Item())
		}
		out = row{index: i, values: map[string]torch.Tensor{}}
		for name, c := range r.columns {
			v := c.Select(0, int64(i))
			if length >= 0 && v.Dim() > 0 && length < v.Size(0) {
				v = v.Narrow(0, 0, length)
			}
			out.values[name] = v
		}
	})
	return out, err
}

// collate stacks rows. One-dimensional values of different lengths are padded on the right: labels
// with -100, everything else with 0.
func collate(list []row) (b batch, err error) {
	b.columns = map[string]torch.Tensor{}
	for _, r := range list {
		b.index = append(b.index, r.index)
	}
	err = recorded.Try(func() {
		for name := range list[0].values {
			b.columns[name] = stack(name, list)
		}
	})
	return b, err
}

func stack(name string, list []row) torch.Tensor {
	padding, longest := 0.0, int64(0)
	if name == "labels" {
		padding = -100
	}
	var values []torch.Tensor
	for _, r := range list {
		values = append(values, r.values[name])
		if r.values[name].Dim() == 1 {
			longest = max(longest, r.values[name].Size(0))
		}
	}
	for i, v := range values {
		if first := values[0]; v.Dim() == 1 && first.Dim() == 1 {
			values[i] = functional.Pad(v, []int64{0, longest - v.Size(0)}, functional.PadConstant, padding)
		} else if !slices.Equal(v.Shape(), first.Shape()) {
			spec.Failf("column %s: sample %d has shape %v, sample %d has %v", name, list[0].index, first.Shape(),
				list[i].index, v.Shape())
		}
	}
	return torch.Stack(values, 0)
}

// integers returns the elements of an integer column; nil if it has another dtype.
func integers(t torch.Tensor) []int64 {
	switch t.DType() {
	case torch.Int64, torch.Int32, torch.Int16, torch.Int8, torch.Uint8, torch.Bool:
		return torch.Values[int64](t.ToDType(torch.Int64))
	}
	return nil
}

// keep returns the batch with only the columns that a model accepts, like Hugging Face's
// remove_unused_columns.
func (b batch) keep(names []string) batch {
	b.columns = maps.Clone(b.columns)
	maps.DeleteFunc(b.columns, func(name string, _ torch.Tensor) bool { return !slices.Contains(names, name) })
	return b
}
