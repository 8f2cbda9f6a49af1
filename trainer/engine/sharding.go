package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
)

// Models of which each process has a part (Options.Sharding). With FullShard, the fields of the
// model hold no parameters between two passes; evaluations and the end of a run restore all of
// them.

// validateSharding refuses options that need the whole state on one process.
func (o *Options) validateSharding(r *refusals) {
	err := shard.CheckLayered("engine", o.Sharding, o.ShardingReplicas, *cmp.Or(o.Distributed, &ddp.Options{}))
	if r.first == nil {
		r.first = err
	}
	const apart = " is set, which cannot be combined with Options.Sharding %s: "
	on := o.Sharding != 0
	r.when(on && o.EMA.Decay != 0, "EMA"+apart+"the average would be whole on each process; average the checkpoints "+
		"instead", o.Sharding)
	r.when(on && o.FullEval != amp.FP32, "FullEval"+apart+"the parts of the weights are views of float32; evaluate under "+
		"Precision", o.Sharding)
	r.when(on && o.lowRank(), "LowRankTargets"+apart+"such an optimizer needs whole matrices", o.Sharding)
}

// share gives each process its part of the model and of the optimizer.
func (s *core) share(ctx context.Context, g *dist.Group) error {
	if s.sharded != nil {
		if g != s.group {
			return errors.New("engine: the model is divided among the processes of another trainer.Options.Group; " +
				"make a new Step of a new model")
		}
		return nil
	}
	if s.dense == 0 {
		s.dense = denseParams(s.task.Model()) // while there are parameters to count
	}
	groups := s.optimizer.Groups()
	if err := shard.CheckOptimizer(s.builder, groups); err != nil { // before the model is divided
		return run.Usage(fmt.Errorf("engine: Options.Sharding: %w", err))
	}
	m, err := shard.NewLayered(ctx, g, s.task.Model(), s.options.Sharding, s.options.ShardingReplicas, s.distributed())
	if err != nil {
		err = fmt.Errorf("engine: Options.Sharding: %w", err)
		if errors.Is(err, torch.ErrNotSupported) { // this model cannot be divided so
			err = run.Usage(err)
		}
		return err
	}
	s.group, s.parallel, s.sharded = g, m, m
	if err := s.makeOptimizer(s.builder, groups); err != nil {
		return fmt.Errorf("engine: Options.Sharding: %w", err)
	}
	var pieces []torch.Tensor
	for _, p := range m.Pieces() {
		pieces = append(pieces, p.Tensor)
	}
	s.params = torch.NewList(pieces...)
	return nil
}

// drawsByLayer reports whether the initial weights of a model made in nn.Defer are drawn only when
// its layers are divided among the processes.
func (s *core) drawsByLayer() bool {
	o := s.options
	return shard.DrawsLayers(o.Sharding, o.Device) && o.InitWeightsFrom == "" &&
		o.MemoryFormat == torch.ContiguousFormat && o.NEFTuneAlpha == 0
}

// summon gives the model all its parameters until the next training batch. All processes must call
// it.
func (s *core) summon() error {
	if s.sharded == nil || s.sharded.Summoned() {
		return nil
	}
	return s.sharded.Summon(context.Background())
}

// norm returns the norm of all gradients. If limit is positive, it clips the gradients to that
// norm.
func (s *core) norm(ctx context.Context, limit float64) (norm torch.Tensor) {
	var err error
	switch {
	case s.sharded != nil && limit > 0:
		norm, err = s.sharded.ClipGradNorm(ctx, limit)
	case s.sharded != nil:
		norm, err = s.sharded.GradNorm(ctx)
	case limit > 0:
		return s.params.ClipGradNorm(limit, 2)
	default:
		return s.params.GradNorm(2)
	}
	s.must("Clip", err)
	return norm
}

// agreeOnInf makes all processes skip an update if one of them has a gradient that is not finite.
func (s *core) agreeOnInf(ctx context.Context) {
	if s.sharded == nil || s.group.World() == 1 {
		return
	}
	s.must("Clip", ddp.AllReduce(ctx, s.group, dist.Max, s.scaler.FoundInf(s.optimizer)...))
}

func (s *core) zeroGrad() {
	if s.sharded != nil {
		s.sharded.ZeroGrad()
		return
	}
	s.optimizer.ZeroGrad()
	s.graphs.gradients(false)
}
