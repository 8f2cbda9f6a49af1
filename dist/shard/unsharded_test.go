package shard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// A checkpoint of several processes is read into an unsharded model, saved as the Trainer does, and
// read by several processes again. The values must not change, including those of tied weights.
func TestACheckpointGoesFromShardsToOneProcessAndBack(t *testing.T) {
	folder := t.TempDir()
	path, file := filepath.Join(folder, "step-1"), filepath.Join(folder, "whole")
	adamw := optim.AdamW{LR: 0.01}
	build := func(ctx context.Context, g *dist.Group) (*shard.Model, optim.Optimizer, *net, error) {
		m := newNet(torch.Float64, true)
		p, err := shard.New(ctx, g, m, shard.Options{Strategy: shard.FullShard, Root: true, FindUnusedParameters: true})
		if err != nil {
			return nil, nil, nil, err
		}
		opt, err := p.Optimizer(adamw, nil)
		return p, opt, m, err
	}
	train := func(ctx context.Context, p *shard.Model, opt optim.Optimizer, m *net) error {
		if err := p.BeforeForward(ctx, true); err != nil {
			return err
		}
		loss := m.forward(input(0, opt.Updates(), torch.Float64), true)
		if err := p.Backward(ctx, loss.Backward, loss); err != nil {
			return err
		}
		err := p.Step(ctx, opt, 0.01)
		p.ZeroGrad()
		return err
	}
	want := result{}
	all(t, together(t, 3, func(ctx context.Context, g *dist.Group) error {
		p, opt, m, err := build(ctx, g)
		if err != nil {
			return err
		}
		if err := errors.Join(train(ctx, p, opt, m), p.Save(ctx, path, 1, opt, map[string]string{"by": "me"}),
			train(ctx, p, opt, m), p.Summon(ctx)); err != nil {
			return err
		}
		if g.Main() {
			for _, q := range nn.Params(m) {
				want[q.Name] = torch.Values[float64](q.Tensor.Detach())
			}
		}
		return nil
	}))

	whole, err := shard.ReadWhole(path)
	require.NoError(t, err)
	defer whole.Free()
	assert.Equal(t, 1, whole.Step)
	assert.Equal(t, "me", whole.Metadata["by"])
	m := newNet(torch.Float64, true)
	var trained []torch.Named
	for _, p := range nn.Params(m) {
		if p.Tensor.NeedsGrad() {
			trained = append(trained, p)
		}
	}
	opt, err := adamw.Build([]optim.Group{{Params: trained}})
	require.NoError(t, err)
	require.NoError(t, whole.LoadModel(m))
	require.NoError(t, opt.LoadState(whole.State, whole.Updates))
	weights, metadata, err := nn.Saved(m)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(file, 0o777))
	require.NoError(t, tensorio.Save(filepath.Join(file, "model.safetensors"), weights, metadata))
	require.NoError(t, tensorio.Save(filepath.Join(file, "optimizer.safetensors"), opt.State(),
		map[string]string{"updates": fmt.Sprint(opt.Updates())}))
	m.forward(input(0, opt.Updates(), torch.Float64), true).Backward()
	opt.Step(0.01)
	got := result{}
	for _, p := range nn.Params(m) {
		got[p.Name] = torch.Values[float64](p.Tensor.Detach())
	}
	require.NoError(t, compare(got, want, 1e-12), "an update without shards")

	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		p, opt, m, err := build(ctx, g)
		if err != nil {
			return err
		}
		if _, _, err := p.Load(ctx, file, opt); err != nil {
			return err
		}
		if err := errors.Join(train(ctx, p, opt, m), p.Summon(ctx)); err != nil {
			return err
		}
		got := result{}
		for _, q := range nn.Params(m) {
			got[q.Name] = torch.Values[float64](q.Tensor.Detach())
		}
		return compare(got, want, 1e-12)
	}))

	for want, other := range map[string]any{
		`the checkpoint has "embed.weight", which the model has not`: nn.NewLinear(5, 5, nil),
		"in the model it is a float32[5 5]":                          newNet(torch.Float32, true),
	} {
		assert.ErrorContains(t, whole.LoadModel(other), want)
	}
}

// mixture has two experts, whose matrices a file holds by themselves.
type mixture struct {
	Experts *struct {
		GateUp torch.Tensor `param:"gate_up_proj"`
	} `module:"experts"`
}

func (m *mixture) InFiles(state []torch.Named) (files []torch.Named) {
	for _, t := range state {
		for i := range t.Tensor.Size(0) {
			files = append(files, torch.Named{Name: fmt.Sprintf("experts.%d.up_proj", i), Tensor: t.Tensor.Select(0, i)})
		}
	}
	return files
}

// TestAnUnshardedMixtureOfExpertsIsNotDivided: the error says why, and what to do.
func TestAnUnshardedMixtureOfExpertsIsNotDivided(t *testing.T) {
	folder := t.TempDir()
	fresh := func() *mixture {
		m := &mixture{new(struct {
			GateUp torch.Tensor `param:"gate_up_proj"`
		})}
		m.Experts.GateUp = torch.Zeros(2, 3, 4).RequiresGrad()
		return m
	}
	require.NoError(t, nn.Save(filepath.Join(folder, "model.safetensors"), fresh(), nil))
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		p, err := shard.New(ctx, g, fresh(), shard.Options{Strategy: shard.FullShard, Root: true})
		if err != nil {
			return err
		}
		_, _, err = p.Load(ctx, folder, nil)
		assert.ErrorContains(t, err, "the checkpoint is of a run without sharding, whose file holds each expert of a "+
			`mixture by itself; it has no tensor "experts.gate_up_proj"`)
		return nil
	}))
}
