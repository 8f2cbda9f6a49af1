package replay

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// column is one column of a data set, or of a batch: a tensor as bytes, so that loaders need no
// libtorch.
type column struct {
	dtype safetensors.DType
	shape []int64 // the first dimension counts rows
	raw   []byte
}

// row is one sample: a value for each column, and where it lies in its set.
type row struct {
	index  int
	values map[string]column // without the dimension of rows
}

// batch is a batch of rows.
type batch struct {
	index   []int
	columns map[string]column
}

func (b batch) has(name string) bool { _, ok := b.columns[name]; return ok }

// tensor makes a tensor of a column on the device of libtorch's CPU.
func (b batch) tensor(name string) torch.Tensor {
	c, ok := b.columns[name]
	if !ok {
		panic(&torch.Error{Op: "forward", Code: torch.ErrValue, Msg: fmt.Sprintf("the batch has no column %q", name)})
	}
	return torch.FromBytes(c.raw, dtypes[c.dtype], c.shape...)
}

// dtypes are the element types that columns may have.
var dtypes = map[safetensors.DType]torch.DType{
	safetensors.F32: torch.Float32, safetensors.F64: torch.Float64, safetensors.F16: torch.Float16,
	safetensors.BF16: torch.BFloat16,
	safetensors.I64:  torch.Int64, safetensors.I32: torch.Int32, safetensors.I16: torch.Int16,
	safetensors.I8: torch.Int8,
	safetensors.U8: torch.Uint8, safetensors.Bool: torch.Bool,
}

// rows is a split of data.safetensors: row i of every column is sample i.
type rows struct {
	columns map[string]column
	n       int
	trim    bool // rows are cut to the sum of their attention_mask
}

var _ data.Dataset[row] = (*rows)(nil)

// readRows reads the splits of a case.
func readRows(s *spec.Spec) (map[string]*rows, error) {
	path := filepath.Join(s.Dir, "data.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	splits := map[string]*rows{}
	for _, t := range f.Tensors() {
		split, name, ok := strings.Cut(t.Name, ".")
		if !ok || len(t.Shape) == 0 {
			return nil, fmt.Errorf("%s: tensor %q: want a name of the form split.column and at least one dimension",
				path, t.Name)
		}
		if _, ok := dtypes[t.DType]; !ok {
			return nil, spec.Unsupportedf("%s: tensor %q has dtype %s", path, t.Name, t.DType)
		}
		raw, err := f.Read(t.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r := splits[split]
		if r == nil {
			r = &rows{columns: map[string]column{}, n: int(t.Shape[0]), trim: s.Data.Trim}
			splits[split] = r
		}
		if int(t.Shape[0]) != r.n {
			return nil, fmt.Errorf("%s: tensor %q has %d rows, another column of the split has %d", path, t.Name,
				t.Shape[0], r.n)
		}
		r.columns[name] = column{t.DType, t.Shape, raw}
	}
	return splits, nil
}

// Len returns the number of rows.
func (r *rows) Len() int { return r.n }

// At returns row i, cut to its attention_mask where the set is trimmed.
func (r *rows) At(i int) (row, error) {
	length := int64(-1)
	if r.trim {
		mask, ok := r.columns["attention_mask"]
		if !ok {
			return row{}, fmt.Errorf("data.trim is set, but there is no column attention_mask")
		}
		length = 0
		for _, v := range integers(mask.at(i)) {
			length += v
		}
	}
	out := row{index: i, values: map[string]column{}}
	for name, c := range r.columns {
		v := c.at(i)
		if length >= 0 && len(v.shape) > 0 && length < v.shape[0] {
			v.raw = v.raw[:int64(len(v.raw))/v.shape[0]*length]
			v.shape = append([]int64{length}, v.shape[1:]...)
		}
		out.values[name] = v
	}
	return out, nil
}

// at is row i of a column.
func (c column) at(i int) column {
	size := 0
	if c.shape[0] > 0 {
		size = len(c.raw) / int(c.shape[0])
	}
	return column{c.dtype, slices.Clone(c.shape[1:]), c.raw[i*size : (i+1)*size]}
}

// collate stacks rows. One-dimensional values of unequal length are padded on the right to the
// longest: labels with -100, everything else with 0.
func collate(list []row) (batch, error) {
	b := batch{columns: map[string]column{}}
	for _, r := range list {
		b.index = append(b.index, r.index)
	}
	for name, first := range list[0].values {
		longest, uneven := int64(0), false
		for _, r := range list {
			v := r.values[name]
			if len(first.shape) == 1 {
				uneven = uneven || v.shape[0] != first.shape[0]
				longest = max(longest, v.shape[0])
			} else if !slices.Equal(v.shape, first.shape) {
				return batch{}, fmt.Errorf("column %s: sample %d has shape %v, sample %d has %v", name, list[0].index,
					first.shape, r.index, v.shape)
			}
		}
		c := column{dtype: first.dtype, shape: append([]int64{int64(len(list))}, first.shape...)}
		if uneven {
			c.shape[1] = longest
		}
		for _, r := range list {
			v := r.values[name]
			c.raw = append(c.raw, v.raw...)
			if uneven {
				padding, err := pad(name, first.dtype)
				if err != nil {
					return batch{}, err
				}
				for range longest - v.shape[0] {
					c.raw = append(c.raw, padding...)
				}
			}
		}
		b.columns[name] = c
	}
	return b, nil
}

// pad is the element that a column is padded with.
func pad(name string, d safetensors.DType) ([]byte, error) {
	zero := make([]byte, d.Bits()/8)
	if name != "labels" {
		return zero, nil
	}
	switch d {
	case safetensors.I64:
		binary.LittleEndian.PutUint64(zero, ^uint64(99)) // -100
	case safetensors.I32:
		binary.LittleEndian.PutUint32(zero, ^uint32(99))
	case safetensors.F32:
		binary.LittleEndian.PutUint32(zero, 0xc2c80000)
	default:
		return nil, spec.Unsupportedf("labels of dtype %s are padded", d)
	}
	return zero, nil
}

// integers reads the elements of a column of whole numbers; nil if it is of another type.
func integers(c column) []int64 {
	size := c.dtype.Bits() / 8
	var out []int64
	for at := 0; at+size <= len(c.raw); at += size {
		switch c.dtype {
		case safetensors.I64:
			out = append(out, int64(binary.LittleEndian.Uint64(c.raw[at:])))
		case safetensors.I32:
			out = append(out, int64(int32(binary.LittleEndian.Uint32(c.raw[at:]))))
		case safetensors.U8, safetensors.Bool:
			out = append(out, int64(c.raw[at]))
		case safetensors.I8:
			out = append(out, int64(int8(c.raw[at])))
		default:
			return nil
		}
	}
	return out
}

// keep returns the batch with the columns that a model takes: what remove_unused_columns of Hugging
// Face does.
func (b batch) keep(names []string) batch {
	kept := batch{index: b.index, columns: map[string]column{}}
	for name, c := range b.columns {
		if slices.Contains(names, name) {
			kept.columns[name] = c
		}
	}
	return kept
}
