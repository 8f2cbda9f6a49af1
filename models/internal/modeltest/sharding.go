package modeltest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// LayersAreUnits shards a model over two processes with each layer as a unit, and checks that it
// computes the same as before.
func LayersAreUnits(t *testing.T, layers int, build func() (inputs.Model, error)) {
	t.Helper()
	testenv.RequireTorch(t)
	var drawing sync.Mutex
	drawn := func() (inputs.Model, error) {
		drawing.Lock()
		defer drawing.Unlock()
		torch.ManualSeed(1)
		return build()
	}
	for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		want, norm, err := sharded(ctx, g, drawn, 0)
		if err != nil {
			return err
		}
		got, gotNorm, err := sharded(ctx, g, drawn, layers)
		if err != nil {
			return err
		}
		if d := gotNorm/norm - 1; d > 1e-12 || d < -1e-12 || !got.Equal(want) {
			return fmt.Errorf("logits %v and norm %g, unsharded %v and %g", got, gotNorm, want, norm)
		}
		return nil
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
}

// sharded computes logits and the gradient norm. The parameters of the given number of layers and
// the remaining ones are sharded; 0 means that none are.
func sharded(ctx context.Context, g *dist.Group, build func() (inputs.Model, error), layers int) (logits torch.Tensor,
	norm float64, err error) {
	m, err := build()
	if err != nil {
		return logits, 0, err
	}
	nn.To(m, torch.TensorOptions{DType: torch.Float64})
	nn.SetTraining(m, false)
	o := shard.Options{Strategy: shard.ShardGradOp, FindUnusedParameters: true}
	if layers > 0 {
		o.Strategy, o.Root = shard.FullShard, true
		if o.Units, err = shard.Layers(ctx, g, m); err == nil && len(o.Units) != layers {
			err = fmt.Errorf("%d units; want one for each of %d layers", len(o.Units), layers)
		}
		if err != nil {
			return logits, 0, err
		}
	}
	p, err := shard.New(ctx, g, m, o)
	if err != nil {
		return logits, 0, err
	}
	if err := p.BeforeForward(ctx, true); err != nil {
		return logits, 0, err
	}
	ids := torch.From([]int64{5, 6, 7, 8, 9, 10}, 2, 3)
	logits = m.Forward(ids, torch.Tensor{}, torch.Tensor{})
	loss := logits.Square().Mean(torch.DefaultDType)
	if err := p.Backward(ctx, loss.Backward, loss); err != nil {
		return logits, 0, err
	}
	total, err := p.GradNorm(ctx)
	if err != nil {
		return logits, 0, err
	}
	if err := p.Summon(ctx); err != nil {
		return logits, 0, err
	}
	torch.NoGrad(func() { // with summoned parameters, each rank runs the whole model on its own
		if again := m.Forward(ids, torch.Tensor{}, torch.Tensor{}); !again.Equal(logits) {
			err = fmt.Errorf("summoned it computes %v, sharded %v", again, logits)
		}
	})
	return logits, total.Item(), err
}
