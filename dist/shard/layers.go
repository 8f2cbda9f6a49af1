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
// lets the caller run them, so that each can be a unit without changing the model's forward pass.
// The encoders in the packages of models are LayerRunners.
type LayerRunner interface {
	// RunLayers makes the module run its i-th layer by calling run(i, f, inputs...) instead of
	// f(inputs). f computes with the fields of the layer, may be called twice, and gets every
	// tensor with a history that it needs as an input: see torch.Checkpoint. It returns the
	// layers.
	RunLayers(run func(i int, f func(inputs []torch.Tensor) []torch.Tensor,
		inputs ...torch.Tensor) []torch.Tensor) (layers []any)
}

// NewLayered is [New] for a model whose layers are the units of [FullShard] and whose other
// parameters are in the root, as the options of trainers mean it. replicas is the number of
// replicas that the processes are divided into, each of which shards the model: 0 or 1 for one, or
// [OnePerMachine]. Only those options of d are used that [Options] has too; [CheckLayered] refuses
// the others. All processes must call it together.
func NewLayered(ctx context.Context, g *dist.Group, model any, s Strategy, replicas int, d ddp.Options) (m *Model,
	err error) {
	o := Options{Strategy: s, FindUnusedParameters: d.FindUnusedParameters, BucketCapMB: d.BucketCapMB,
		KeepBuffers: d.KeepBuffers}
	if o.Mesh, err = newMesh(ctx, g, replicas); err != nil {
		return nil, err
	}
	parts := g
	if o.Mesh != nil {
		parts = o.Mesh.Shard
		defer func() {
			if err != nil {
				_ = o.Mesh.Close() // no process is waiting in it
			}
		}()
	}
	if s == FullShard {
		if o.Units, err = Layers(ctx, parts, model); err != nil {
			return nil, err
		}
		o.Root = true
	}
	if m, err = New(ctx, g, model, o); err == nil {
		m.mesh = o.Mesh
	}
	return m, err
}

// DrawsLayers reports whether [NewLayered] draws a model made in [nn.Defer] layer by layer, while
// sharding it, so that it need not be drawn before. A model for a GPU is drawn whole, and then
// moved.
func DrawsLayers(s Strategy, d torch.Device) bool { return s == FullShard && d == torch.CPU }

// CheckLayered refuses options of a package that [NewLayered] does not support: an unknown
// strategy, an invalid number of replicas, and options of d, which the package calls Distributed,
// that concern PyTorch's reducer.
func CheckLayered(pkg string, s Strategy, replicas int, d ddp.Options) error {
	switch {
	case s > FullShard:
		return fmt.Errorf("%s: Options.Sharding is %s; want shard.ZeroRedundancyOptimizer, shard.ShardGradOp or "+
			"shard.FullShard", pkg, s)
	case replicas < OnePerMachine:
		return fmt.Errorf("%s: Options.ShardingReplicas is %d; want a number of replicas, 0 for one, or "+
			"shard.OnePerMachine", pkg, replicas)
	case s == 0 && replicas != 0:
		return fmt.Errorf("%s: Options.ShardingReplicas is %d, but Sharding is not set, so there is nothing to "+
			"replicate", pkg, replicas)
	case s == 0:
		return nil
	}
	for _, c := range []struct {
		set       bool
		name, why string
	}{
		{d.StaticGraph, "StaticGraph", "gradients are not averaged by PyTorch's reducer"},
		{d.GradientAsBucketView, "GradientAsBucketView", "gradients are parts already"},
		{d.Compress != 0, "Compress", "gradients are sent as they are"},
	} {
		if c.set {
			return fmt.Errorf("%s: Options.Distributed.%s is set, which cannot be combined with Options.Sharding %s: %s", pkg,
				c.name, s, c.why)
		}
	}
	return nil
}

// Layers makes a unit of each layer that a [LayerRunner] in the model runs. The remaining
// parameters are for [Options].Root.
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
