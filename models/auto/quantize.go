package auto

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/torch"
)

// quantizationKey is the key of the quantization settings in config.json.
const quantizationKey = "quantization_config"

// takeQuantization removes the quantization settings from a config.json and returns them, or nil if
// there are none.
func takeQuantization(d pretrained.Document) (*quantized.Config, error) {
	raw, found := d[quantizationKey]
	delete(d, quantizationKey)
	if !found || string(raw) == "null" {
		return nil, nil
	}
	c := &quantized.Config{}
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("%s: %w", quantizationKey, err)
	}
	return c, nil
}

// quantizable is a layer that can be quantized.
type quantizable interface {
	Quantized() nn.QuantizedWeight
	SetQuantized(w nn.QuantizedWeight)
	FloatWeight() torch.Tensor // [out, in]
}

// quantizables returns the layers of a model that can be quantized, by the names of their weights.
func (m *Model) quantizables() map[string]quantizable {
	layers := map[string]quantizable{}
	for _, n := range nn.Modules(m) {
		if l, ok := n.Module.(quantizable); ok {
			layers[n.Name+".weight"] = l
		}
	}
	return layers
}

// quantizes reports whether the layer with the given weight is quantized. All linear layers are,
// except the head, which is trained or computes logits, and a layer of T5 that transformers does
// not quantize.
func (m *Model) quantizes(weight string) bool {
	name := strings.TrimSuffix(weight, ".weight")
	for _, c := range nn.Children(m.head) {
		if name == c.Name || strings.HasPrefix(name, c.Name+".") {
			return false
		}
	}
	return !m.quantization.Skips(name) && !(m.blueprint.Pair && strings.HasSuffix(name, ".wo"))
}

// quantize quantizes the weight of a layer.
func (m *Model) quantize(l quantizable) error {
	w, err := quantized.New(l.FloatWeight(), *m.quantization)
	if err == nil {
		l.SetQuantized(w)
	}
	return err
}

// weightOf returns the address of a layer's weight.
func weightOf(l quantizable) *torch.Tensor {
	if c, ok := l.(*transformer.Conv1D); ok {
		return &c.Weight
	}
	return &l.(*nn.Linear).Weight
}

// forgetNumbers frees the memory of those weights that will be read from the files, which is still
// unused, so that takeNumbers has only one of them in memory at a time.
func (m *Model) forgetNumbers(w *pretrained.Weights, rename func(string) string) error {
	layers := m.quantizables()
	for _, t := range w.Contents() {
		name := rename(t.Name)
		l, ok := layers[name]
		if !ok || !m.quantizes(name) || !slices.Equal(t.Shape, weightOf(l).Shape()) {
			continue
		}
		weight := weightOf(l)
		meta := nn.Parameter(torch.TensorOptions{DType: weight.DType(), Device: torch.Meta}.Empty(t.Shape...))
		weight.Free()
		*weight = meta
	}
	return nil
}

// takeNumbers returns a function that reads weights and quantizes each of them at once.
func (m *Model) takeNumbers() func(name string, read func() (torch.Tensor, error)) (taken bool, err error) {
	layers := m.quantizables()
	return func(name string, read func() (torch.Tensor, error)) (taken bool, err error) {
		l, ok := layers[name]
		if !ok || weightOf(l).Device() != torch.Meta {
			return false, nil
		}
		weight := weightOf(l)
		failed := torch.Try(func() {
			torch.Scope(func() {
				var numbers torch.Tensor
				if numbers, err = read(); err == nil {
					dtype := weight.DType()
					weight.Free()
					*weight = numbers.ToDType(dtype).Keep()
					err = m.quantize(l)
				}
			})
		})
		return true, cmp.Or(err, failed)
	}
}

// quantizeRest quantizes the remaining weights, such as those that were drawn, and freezes the
// model, since quantized weights are not trained.
func (m *Model) quantizeRest() error {
	if m.quantization == nil {
		return nil
	}
	layers := m.quantizables()
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		l := layers[name]
		if l.Quantized() != nil || !m.quantizes(name) {
			continue
		}
		if err := m.quantize(l); err != nil {
			return fmt.Errorf("auto: %s: %w", name, err)
		}
	}
	if len(nn.QuantizedLayers(m)) == 0 {
		return errors.New("auto: no layer of the model is left to quantize (Config.SkipModules)")
	}
	return nn.Freeze(m)
}

// prepareQuantized allocates quantized weights for those in the files.
func (m *Model) prepareQuantized(w *pretrained.Weights, rename func(string) string) error {
	layers := m.quantizables()
	found := false
	for _, t := range w.Contents() {
		in := strings.Index(t.Name, ".quant_state.bitsandbytes__")
		if in < 0 {
			continue
		}
		found = true
		weight := rename(t.Name[:in])
		l, ok := layers[weight]
		if !ok {
			return fmt.Errorf("%s is quantized, but the model has no linear layer of that name", weight)
		}
		text, err := w.Read(t.Name)
		if err != nil {
			return err
		}
		size := l.FloatWeight().Shape()
		made, err := quantized.FromFile(torch.Values[uint8](text), size[0], size[1], m.quantization.ComputeDType)
		text.Free()
		if err != nil {
			return fmt.Errorf("%s: %w", weight, err)
		}
		l.SetQuantized(made)
	}
	if !found {
		return fmt.Errorf("%s of %s says that weights are quantized, and none is", quantizationKey, pretrained.ConfigName)
	}
	return nil
}
