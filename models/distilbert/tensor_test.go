package distilbert_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tensor"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/distilbert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// With a third of the heads and of the feed-forward features on each process, the model computes
// the same, except for the order of sums.
func TestHeadsAndFeedForwardAreDivided(t *testing.T) {
	testenv.RequireTorch(t)
	compute := func(ctx context.Context, g *dist.Group) (values []float64, err error) {
		var m *distilbert.Classifier
		torch.ForkRNG(func() {
			torch.ManualSeed(1)
			c := tiny()
			c.HiddenDim = 42
			m, err = distilbert.NewClassifier(c)
		})
		if err != nil {
			return nil, err
		}
		nn.To(m, torch.TensorOptions{DType: torch.Float64})
		nn.SetTraining(m, false)
		p, err := tensor.Parallelize(ctx, g, m, tensor.Plan{"*.attention.[qkv]_lin": tensor.Colwise,
			"*.attention.out_lin": tensor.Rowwise, "*.ffn.lin1": tensor.Colwise, "*.ffn.lin2": tensor.Rowwise})
		if err != nil {
			return nil, err
		}
		logits := m.Forward(torch.From([]int64{5, 6, 7, 8, 9, 10}, 2, 3), torch.Tensor{}, torch.Tensor{})
		logits.Square().Mean(torch.DefaultDType).Backward()
		norm, err := p.GradNorm(ctx)
		if err != nil {
			return nil, err
		}
		return append(torch.Values[float64](logits.Detach()), norm.Item()), nil
	}
	want, err := compute(t.Context(), nil)
	require.NoError(t, err)
	for rank, err := range ranktest.Together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		got, err := compute(ctx, g)
		if err != nil {
			return err
		}
		for i := range want {
			if d := got[i] - want[i]; !(d < 1e-12 && d > -1e-12) {
				return fmt.Errorf("logits and norm are %v, without division %v", got, want)
			}
		}
		return nil
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
}
