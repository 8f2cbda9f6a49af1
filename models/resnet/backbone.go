package resnet

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Backbone is ResNetBackbone: a ResNet whose last feature map another model takes. Its
// normalisations are frozen: they have no parameters, and their statistics do not change.
type Backbone struct {
	encoder
}

// NewBackbone makes the backbone that a resolved config describes.
func NewBackbone(c Config, b transformer.Builder) *Backbone {
	m := &Backbone{*newEncoder(c, b)}
	m.Pooler = nil
	for _, n := range nn.Modules(m) {
		if conv, ok := n.Module.(*convolution); ok {
			conv.Normalization = newFrozenBatchNorm2d(b, conv.Convolution.Weight.Size(0))
		}
	}
	return m
}

// Forward maps the pixels of images, [B, channels, height, width], to [B, hidden, height/32,
// width/32], rounded up. It panics with [*torch.Error] if the images have another number of
// channels.
func (m *Backbone) Forward(pixels torch.Tensor) torch.Tensor { return m.features(pixels) }

// Stages returns the first convolution and the stages, for freezing some of them.
func (m *Backbone) Stages() (stages []any) {
	stages = append(stages, m.Embedder.Embedder)
	for _, s := range m.Encoder.Stages {
		stages = append(stages, s)
	}
	return stages
}

// FrozenBatchNorm2d is DetrFrozenBatchNorm2d: a batch normalisation with fixed statistics, weight
// and bias.
type FrozenBatchNorm2d struct {
	Weight      torch.Tensor `buffer:"weight"`       // [channels]
	Bias        torch.Tensor `buffer:"bias"`         // [channels]
	RunningMean torch.Tensor `buffer:"running_mean"` // [channels]
	RunningVar  torch.Tensor `buffer:"running_var"`  // [channels]
}

func newFrozenBatchNorm2d(b transformer.Builder, channels int64) *FrozenBatchNorm2d {
	o := torch.TensorOptions{DType: b.DType}
	return &FrozenBatchNorm2d{nn.Buffer(o.Ones(channels)), nn.Buffer(o.Zeros(channels)), nn.Buffer(o.Zeros(channels)),
		nn.Buffer(o.Ones(channels))}
}

// Forward maps [B, channels, height, width] to the same shape.
func (f *FrozenBatchNorm2d) Forward(x torch.Tensor) torch.Tensor {
	const eps = 1e-5
	wide := func(t torch.Tensor) torch.Tensor { return t.Reshape(1, -1, 1, 1) }
	scale := wide(f.Weight).Mul(wide(f.RunningVar).AddScalar(eps).Rsqrt())
	return x.Mul(scale).Add(wide(f.Bias).Sub(wide(f.RunningMean).Mul(scale)))
}

// DecodeBackbone decodes the config.json of a backbone. Defaults are filled in. The model that it
// is for must take the last feature map.
func DecodeBackbone(d pretrained.Document) (c Config, err error) {
	d = maps.Clone(d)
	if err := d.Demand("model_type", `"resnet"`); err != nil {
		return c, err
	}
	delete(d, "model_type")
	if err := d.Decode(c.fields()); err != nil {
		return c, err
	}
	c.Extra = d
	if c, err = c.Resolved(); err != nil {
		return c, err
	}
	last := fmt.Sprintf("stage%d", len(c.Depths))
	var features []string
	if raw, found := d["out_features"]; found {
		if err := json.Unmarshal(raw, &features); err != nil {
			return c, fmt.Errorf("out_features is %s; want a list of names", raw)
		}
	}
	if n := len(features); n > 0 && features[n-1] != last {
		return c, fmt.Errorf("out_features is %q; want %q as the last", features, last)
	}
	return c, nil
}

// EncodeBackbone returns the config.json of a resolved config as that of a backbone.
func (c Config) EncodeBackbone() (pretrained.Document, error) {
	d := pretrained.Document{}
	maps.Copy(d, c.Extra)
	if d["out_features"] == nil {
		if err := d.Encode([]pretrained.Field{{Key: "out_features",
			Value: &[]string{fmt.Sprintf("stage%d", len(c.Depths))}}}); err != nil {
			return nil, err
		}
		delete(d, "out_indices")
	}
	return d, d.Encode(append(c.fields(), pretrained.Field{Key: "model_type", Value: new(modelType)}))
}

// Resolved fills in the defaults and checks the settings.
func (c Config) Resolved() (Config, error) { return c.resolved() }
