package shard

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// LayerRunner is a model, or a module in it, that runs layers of one kind one after the other and
// lets another hand run them, so that each can be a unit without a change of the model's forward
// pass. The encoders of package models are ones.
type LayerRunner interface {
	// RunLayers has the module run its i-th layer by run(i, f, inputs...) in place of f(inputs). f
	// computes with the fields of the layer, may be called twice, and has every tensor with a
	// history that it needs among its inputs: see torch.Checkpoint. It returns the layers.
	RunLayers(run func(i int, f func(inputs []torch.Tensor) []torch.Tensor,
		inputs ...torch.Tensor) []torch.Tensor) (layers []any)
}

// NewLayered is [New] of a model whose layers are the units of [FullShard], with its other
// parameters in the root: what the options of trainers mean. Of d the options count that [Options]
// has too. All processes call it together.
func NewLayered(ctx context.Context, g *dist.Group, model any, s Strategy, d ddp.Options) (m *Model, err error) {
	o := Options{Strategy: s, FindUnusedParameters: d.FindUnusedParameters, BucketCapMB: d.BucketCapMB,
		KeepBuffers: d.KeepBuffers}
	if s == FullShard {
		if o.Units, err = Layers(ctx, g, model); err != nil {
			return nil, err
		}
		o.Root = true
	}
	return New(ctx, g, model, o)
}

// Layers makes a unit of each layer that a [LayerRunner] in the model runs. The rest is for
// [Options].Root.
func Layers(ctx context.Context, g *dist.Group, model any) (units []*Unit, err error) {
	for _, m := range nn.Modules(model) {
		r, ok := m.Module.(LayerRunner)
		if !ok {
			continue
		}
		var own []*Unit
		for i, layer := range r.RunLayers(func(i int, f func([]torch.Tensor) []torch.Tensor,
			in ...torch.Tensor) []torch.Tensor {
			return own[i].Run(f, in...)
		}) {
			u, err := FullyShard(ctx, g, layer)
			if err != nil {
				return nil, fmt.Errorf("layer %d of %q: %w", i, m.Name, err)
			}
			own = append(own, u)
		}
		units = append(units, own...)
	}
	return units, nil
}
