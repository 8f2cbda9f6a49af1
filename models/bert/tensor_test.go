package bert_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tensor"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// plan divides attention by heads, and the feed-forward layers.
var plan = tensor.Plan{"*.self.*": tensor.Colwise, "*.intermediate.dense": tensor.Colwise,
	"*.output.dense": tensor.Rowwise}

// Each process has some of the heads and of the feed-forward features. The model must compute the
// same, except for the order of sums.
func TestHeadsAndFeedForwardAreDivided(t *testing.T) {
	testenv.RequireTorch(t)
	compute := func(ctx context.Context, g *dist.Group, fused bool) (values []float64, err error) {
		var m *bert.Classifier
		torch.ForkRNG(func() {
			torch.ManualSeed(1)
			c := tiny()
			c.IntermediateSize = 42
			m, err = bert.NewClassifier(c)
		})
		if err != nil {
			return nil, err
		}
		nn.To(m, torch.TensorOptions{DType: torch.Float64})
		nn.SetTraining(m, false)
		m.FuseQKVProjections(fused)
		p, err := tensor.Parallelize(ctx, g, m, plan)
		if err != nil {
			return nil, err
		}
		ids := torch.From([]int64{5, 6, 7, 8, 9, 10}, 2, 3)
		logits := m.Forward(ids, torch.Tensor{}, torch.Tensor{})
		logits.Square().Mean(torch.DefaultDType).Backward()
		norm, err := p.GradNorm(ctx)
		if err != nil {
			return nil, err
		}
		values = append(torch.Values[float64](logits.Detach()), norm.Item())
		if err := p.Summon(ctx); err != nil {
			return nil, err
		}
		torch.NoGrad(func() { // after gathering, each rank runs the whole model on its own
			values = append(values, torch.Values[float64](m.Forward(ids, torch.Tensor{}, torch.Tensor{}))...)
		})
		return values, nil
	}
	for _, fused := range []bool{false, true} {
		want, err := compute(t.Context(), nil, fused)
		require.NoError(t, err)
		for rank, err := range ranktest.Together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
			got, err := compute(ctx, g, fused)
			if err != nil {
				return err
			}
			for i := range want {
				if d := got[i] - want[i]; !(d < 1e-12 && d > -1e-12) {
					return fmt.Errorf("logits, norm and logits of the whole model are %v, without division %v", got, want)
				}
			}
			return nil
		}) {
			require.NoError(t, err, "rank %d, fused: %v", rank, fused)
		}
	}
}

// A layer has two all-reduces in the forward pass, after attention and after the feed-forward
// layers, and two in the backward pass, before them: query, key and value share one.
func TestAttentionIsOneSumInEachDirection(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "trace.json")
	for rank, err := range ranktest.Together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		c := tiny()
		c.IntermediateSize = 42
		m, err := bert.NewClassifier(c)
		if err != nil {
			return err
		}
		nn.SetTraining(m, false)
		if _, err := tensor.Parallelize(ctx, g, m, plan); err != nil {
			return err
		}
		step := func() {
			m.Forward(torch.From([]int64{5, 6, 7}, 1, 3), torch.Tensor{}, torch.Tensor{}).Sum(torch.DefaultDType).Backward()
		}
		if g.Main() {
			return torch.Profile(path, torch.ProfileOptions{}, step)
		}
		return torch.Try(step)
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, 8, strings.Count(string(text), `"_c10d_functional::all_reduce_"`), "four for each of two layers")
}

func TestHeadsThatDoNotDivideAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	m := newClassifier(t, tiny()) // it has three heads
	for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		_, err := tensor.Parallelize(ctx, g, m, plan)
		return err
	}) {
		assert.ErrorContains(t, err, "attention.self: 3 heads cannot be divided into 2 equal parts", "rank %d", rank)
	}
}
