package tensor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/dist/tensor"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/torch"
)

// pair is attention whose heads cannot be divided.
type pair struct {
	Query *nn.Linear `module:"query"`
	Key   *nn.Linear `module:"key"`
	Out   *nn.Linear `module:"out"`
}

func (p *pair) DivideHeads(n int64, _ func(x torch.Tensor) torch.Tensor) error {
	if n > 1 {
		return fmt.Errorf("1 head cannot be divided into %d equal parts", n)
	}
	return nil
}

func newPair() *pair {
	return &pair{nn.NewLinear(4, 4, nil), nn.NewLinear(4, 4, nil), nn.NewLinear(4, 4, nil)}
}

func TestWhatCannotBeDividedIsRefused(t *testing.T) {
	tied := func() any {
		m := newNet(12)
		m.Blocks[1].Up.Weight = m.Blocks[0].Up.Weight
		return m
	}
	packed := newNet(8)
	w, err := quantized.New(packed.Blocks[0].Up.Weight, quantized.Config{})
	require.NoError(t, err)
	packed.Blocks[0].Up.SetQuantized(w)
	for name, c := range map[string]struct {
		model any
		plan  tensor.Plan
		want  string
	}{
		"output features": {newNet(9), plan, "tensor: blocks.0.up has 9 output features, of which 2 processes cannot have " +
			"equal parts; want a multiple of 2"},
		"input features": {newNet(9), tensor.Plan{"blocks.1.down": tensor.Rowwise}, "blocks.1.down has 9 input features"},
		"no style":       {newNet(8), tensor.Plan{"blocks.*.up": 0}, `the plan has Style(0) for "blocks.*.up"`},
		"no layer": {newNet(8), tensor.Plan{"block.*": tensor.Colwise},
			`no nn.Linear's name matches "block.*" of the plan; there are 6, the last is "outlet"`},
		"no Linear": {newNet(8), tensor.Plan{"blocks.*.norm": tensor.Colwise},
			`no nn.Linear's name matches "blocks.*.norm"`},
		"no pattern": {newNet(8), tensor.Plan{"[": tensor.Colwise}, `pattern "[" of the plan: syntax error`},
		"nothing":    {newNet(8), nil, "the plan is empty"},
		"two styles": {newNet(8), tensor.Plan{"*.up": tensor.Colwise, "blocks.0.*": tensor.Rowwise},
			`blocks.0.up is Colwise by "*.up" of the plan and Rowwise by "blocks.0.*"; want one`},
		"quantized": {packed, plan, "the weight of blocks.0.up is quantized"},
		"shared":    {tied(), plan, "blocks.0.up.weight, blocks.1.up.weight is one parameter under several names"},
		"some of attention": {newPair(), tensor.Plan{"query": tensor.Colwise, "out": tensor.Rowwise},
			"divides out of the model, but not key; heads are divided in all of its layers"},
		"heads": {newPair(), tensor.Plan{"query": tensor.Colwise, "key": tensor.Colwise, "out": tensor.Rowwise},
			"tensor: the model: 1 head cannot be divided into 2 equal parts"},
	} {
		t.Run(name, func(t *testing.T) {
			before := nn.StateDict(c.model)
			for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
				_, err := tensor.Parallelize(ctx, g, c.model, c.plan)
				return err
			}) {
				assert.ErrorContains(t, err, c.want, "rank %d", rank)
			}
			assert.Equal(t, before, nn.StateDict(c.model), "the model")
			assert.Empty(t, nn.LinearParts(c.model))
		})
	}
}

func TestDifferentPlansAreRefusedOnAll(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		p := tensor.Plan{"blocks.0.up": tensor.Colwise, "blocks.0.down": tensor.Rowwise}
		if g.Rank() == 1 {
			p = plan
		}
		_, err := tensor.Parallelize(ctx, g, newNet(8), p)
		return err
	}) {
		assert.ErrorContains(t, err, "the models differ: rank 1 has", "rank %d", rank)
		assert.ErrorContains(t, err, "Colwise layer blocks.1.up", "rank %d", rank)
	}
}

// A divided model cannot be used as a replica or as a whole model, nor be divided again.
func TestPartsAreNoReplicas(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newNet(8)
		if _, err := tensor.Parallelize(ctx, g, m, plan); err != nil {
			return err
		}
		_, err := tensor.Parallelize(ctx, g, m, plan)
		assert.ErrorContains(t, err, fmt.Sprintf("is divided already: blocks.0.up, part %d of 2 of the output features",
			g.Rank()))
		err = nn.Save(filepath.Join(t.TempDir(), "model.safetensors"), m, nil)
		assert.ErrorContains(t, err, "only parts of the model are here (blocks.0.up, part")
		_, err = shard.New(ctx, g, m, shard.Options{Strategy: shard.ShardGradOp})
		assert.ErrorContains(t, err, "blocks.0.up, part 1 of 2")
		_, err = ddp.New(ctx, g, m, ddp.Options{})
		return err
	}) {
		assert.ErrorContains(t, err, `the models differ: rank 1 has "layer blocks.0.up, part 1 of 2 of the output features" `+
			`where rank 0 has "layer blocks.0.up, part 0 of 2 of the output features"`, "rank %d", rank)
	}
}

func TestPassesThatDifferNameTheLayer(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newNet(8)
		if _, err := tensor.Parallelize(ctx, g, m, plan); err != nil {
			return err
		}
		m.forward(torch.Ones(2+int64(g.Rank()), 5))
		return nil
	}) {
		assert.ErrorContains(t, err, dist.ErrMismatch.Error(), "rank %d", rank)
		assert.ErrorContains(t, err, "adding up the outputs of blocks.0.down, float32[2 6]", "rank %d", rank)
		assert.ErrorContains(t, err, "adding up the outputs of blocks.0.down, float32[3 6]", "rank %d", rank)
	}
}

func TestAProcessThatHasLeftIsNamed(t *testing.T) {
	errs := together(t, 3, func(ctx context.Context, g *dist.Group) error {
		m := newNet(6)
		if _, err := tensor.Parallelize(ctx, g, m, plan); err != nil {
			return err
		}
		y := m.forward(torch.Ones(2, 5))
		if g.Rank() == 2 {
			return nil
		}
		y.Sum(torch.DefaultDType).Backward()
		return nil
	})
	require.NoError(t, errs[2])
	for _, err := range errs[:2] {
		assert.ErrorContains(t, err, "rank 2: "+dist.ErrPeerLeft.Error())
	}
}

func TestACancelledContextEndsPasses(t *testing.T) {
	errs := together(t, 2, func(ctx context.Context, g *dist.Group) error {
		run, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		m := newNet(6)
		if _, err := tensor.Parallelize(run, g, m, plan); err != nil {
			return err
		}
		if g.Rank() == 1 {
			<-g.Done()
			return g.Err()
		}
		time.AfterFunc(50*time.Millisecond, func() { cancel(fmt.Errorf("the user has had enough")) })
		m.forward(torch.Ones(2, 5)) // waits for rank 1
		return nil
	})
	for rank, err := range errs {
		assert.ErrorContains(t, err, "the user has had enough", "rank %d", rank)
	}
}

func TestGradientsOfGradientsAreRefused(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newNet(6)
		if _, err := tensor.Parallelize(ctx, g, m, plan); err != nil {
			return err
		}
		x := torch.Ones(2, 5).RequiresGrad()
		torch.Grad([]torch.Tensor{m.forward(x).Sum(torch.DefaultDType)}, []torch.Tensor{x},
			torch.GradOptions{CreateGraph: true})
		return nil
	}) {
		assert.ErrorContains(t, err, "the backward pass through blocks.1.up cannot be differentiated itself", "rank %d", rank)
	}
}

func TestNormsOfMistakes(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		p, err := tensor.Parallelize(ctx, g, newNet(6), plan)
		if err != nil {
			return err
		}
		_, err = p.ClipGradNorm(ctx, 0)
		assert.ErrorContains(t, err, "ClipGradNorm: the norm is 0; want a positive number")
		norm, err := p.ClipGradNorm(ctx, 1)
		assert.NoError(t, err)
		assert.Zero(t, norm.Item(), "without gradients")
		if err := p.Summon(ctx); err != nil {
			return err
		}
		_, err = p.GradNorm(ctx)
		assert.ErrorContains(t, err, "Release comes first")
		return nil
	}))
}

// A pair of layers costs one all-reduce in the forward pass and one in the backward pass.
func TestAPairIsOneSumInEachDirection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newNet(6)
		if _, err := tensor.Parallelize(ctx, g, m, plan); err != nil {
			return err
		}
		step := func() { m.forward(torch.Ones(2, 5)).Sum(torch.DefaultDType).Backward() }
		if g.Main() {
			return torch.Profile(path, torch.ProfileOptions{}, step)
		}
		return torch.Try(step)
	}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var trace struct{ TraceEvents []struct{ Name string } }
	require.NoError(t, json.Unmarshal(text, &trace))
	sums, others := 0, []string{}
	for _, e := range trace.TraceEvents {
		switch {
		case strings.HasPrefix(e.Name, "_c10d_functional::all_reduce"):
			sums++
		case strings.HasPrefix(e.Name, "_c10d_functional::") && e.Name != "_c10d_functional::wait_tensor":
			others = append(others, e.Name)
		}
	}
	assert.Equal(t, 4, sums, "of two pairs")
	assert.Empty(t, others)
}
