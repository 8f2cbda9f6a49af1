package auto

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// dtypes maps the names of dtypes in config.json to the dtypes that weights can have.
var dtypes = map[string]torch.DType{"float32": torch.Float32, "bfloat16": torch.BFloat16, "float16": torch.Float16,
	"float64": torch.Float64}

// dtype returns the dtype for the weights of the model in dir. named is the dtype in its
// config.json, or empty if there is none.
func (o Options) dtype(dir, named string, p transformer.Blueprint) (d torch.DType, err error) {
	d = cmp.Or(o.DType, torch.Float32)
	if o.KeepDType {
		if o.DType != torch.DefaultDType {
			return d, errors.New("Options.DType and KeepDType are both set; want one")
		}
		if d, err = dtypeOf(dir, named); err != nil {
			return d, err
		}
	}
	if dtypes[d.String()] != d {
		return d, fmt.Errorf("the weights are to be %s; want one of %q", d, slices.Sorted(maps.Keys(dtypes)))
	}
	if d == torch.Float16 && p.NoFloat16 {
		return d, fmt.Errorf("a %s overflows in float16; load it in bfloat16 or float32 (Options.DType)", p.Class)
	}
	return d, nil
}

// namedDType returns the dtype in a config.json, called torch_dtype in older files.
func namedDType(d pretrained.Document) (string, error) {
	var older, name string
	err := maps.Clone(d).Decode([]pretrained.Field{{Key: "torch_dtype", Value: &older}, {Key: "dtype", Value: &name}})
	return cmp.Or(name, older), err
}

// dtypeOf returns the dtype with the given name or, if that is empty, the dtype of the weights in
// dir.
func dtypeOf(dir, name string) (torch.DType, error) {
	if name != "" {
		d, ok := dtypes[name]
		if !ok {
			return d, fmt.Errorf("dtype of %s is %q; want one of %q, or Options.DType", pretrained.ConfigName, name,
				slices.Sorted(maps.Keys(dtypes)))
		}
		return d, nil
	}
	w, err := pretrained.Open(dir)
	if err != nil {
		return 0, err
	}
	defer w.Close() //nolint:errcheck // it was only read
	found := torch.Float32
	for _, t := range w.Contents() {
		var is torch.DType
		torch.Scope(func() {
			var tensor torch.Tensor
			if tensor, err = w.Read(t.Name); err == nil {
				is = tensor.DType()
			}
		})
		if err != nil || is.IsFloatingPoint() {
			found = is
			break
		}
	}
	return found, err
}

// dtype returns the dtype of the weights, taken from one of them. While the model has none, because
// they are divided among processes (shard.FullShard), it is the one that was seen last.
func (m *Model) dtype() torch.DType {
	if w := m.weight(); w.Defined() {
		m.dtypeSeen = w.DType()
	}
	return m.dtypeSeen
}

// weight returns one of the weights, never a quantized one.
func (m *Model) weight() torch.Tensor {
	if e := m.backbone.InputEmbeddings; e != nil {
		return e.Weight
	}
	return nn.Params(m.backbone.Module)[0].Tensor
}
