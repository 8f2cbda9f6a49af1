package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// lookup has embeddings with sparse gradients and a layer with dense ones.
type lookup struct {
	Words *nn.Embedding    `module:"words"`
	Bags  *nn.EmbeddingBag `module:"bags"`
	Head  *nn.Linear       `module:"head"`
}

func newLookup() *lookup {
	return &lookup{Words: nn.NewEmbedding(12, 3, &nn.EmbeddingOptions{Sparse: true}),
		Bags: nn.NewEmbeddingBag(9, 3, &nn.EmbeddingBagOptions{Mode: functional.BagSum, Sparse: true}),
		Head: nn.NewLinear(6, 2, nil)}
}

func (m *lookup) loss(x, bags torch.Tensor) torch.Tensor {
	words := torch.Call("aten::sum.dim_IntList", m.Words.Forward(x), []int64{1}, false, nil)[0]
	y := m.Head.Forward(torch.Cat([]torch.Tensor{words, m.Bags.Forward(bags)}, 1))
	return y.Mul(y).Sum(torch.DefaultDType)
}

func TestSparseGradientsHaveTheBitsOfPython(t *testing.T) {
	testenv.RequireTorch(t)
	file := golden.Load(t, "testdata/sparse.safetensors") // the same on every machine: see sparse.py
	for variant, options := range map[string]ddp.Options{"plain": {}, "unused": {FindUnusedParameters: true},
		"static": {StaticGraph: true}, "views": {GradientAsBucketView: true}} {
		for world := 2; world <= 3; world++ {
			t.Run(fmt.Sprintf("%s, %d processes", variant, world), func(t *testing.T) {
				all(t, together(t, world, func(ctx context.Context, g *dist.Group) (errs error) {
					m := newLookup()
					if g.Main() { // the other ranks receive these weights
						torch.NoGrad(func() {
							for _, p := range nn.Params(m) {
								p.Tensor.Copy_(file.Tensor("start." + p.Name))
							}
						})
					}
					parallel, err := ddp.New(ctx, g, m, options)
					if err != nil {
						return err
					}
					defer parallel.Close()
					for step := range 3 {
						key := fmt.Sprintf("%s.%d.%d.", variant, world, step)
						for _, p := range nn.Params(m) {
							p.Tensor.SetGrad(torch.Tensor{})
						}
						if err := parallel.BeforeForward(ctx, true); err != nil {
							return err
						}
						loss := m.loss(file.Tensor(fmt.Sprintf("%sx.%d", key, g.Rank())),
							file.Tensor(fmt.Sprintf("%sbags.%d", key, g.Rank())))
						if err := parallel.Backward(ctx, loss.Backward, loss); err != nil {
							return err
						}
						for layer, w := range map[string]torch.Tensor{"words": m.Words.Weight, "bags": m.Bags.Weight} {
							grad := w.Grad()
							errs = errors.Join(errs,
								same(key+layer, torch.Call("aten::_indices", grad)[0], file.Tensor(key+layer+".indices")),
								same(key+layer, torch.Call("aten::_values", grad)[0], file.Tensor(key+layer+".values")))
						}
						errs = errors.Join(errs, same(key+"head", m.Head.Weight.Grad(), file.Tensor(key+"head")))
					}
					return errs
				}))
			})
		}
	}
}

// Optimizers accept the sparse gradients, and all processes have the same weights afterwards.
func TestSparseGradientsUpdateAllProcessesAlike(t *testing.T) {
	weights := make([][]byte, 2)
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newLookup()
		parallel, err := ddp.New(ctx, g, m, ddp.Options{})
		if err != nil {
			return err
		}
		adam := optim.NewSparseAdam([]torch.Named{{Name: "words", Tensor: m.Words.Weight}}, optim.SparseAdam{})
		sgd := optim.NewSGD([]torch.Named{{Name: "bags", Tensor: m.Bags.Weight}},
			optim.SGD{LR: 0.1, Implementation: optim.Foreach})
		before := m.Words.Weight.Detach().Clone()
		for step := range int64(3) {
			if err := parallel.BeforeForward(ctx, true); err != nil {
				return err
			}
			row := []int64{int64(g.Rank()), step + 2}
			loss := m.loss(torch.From(row, 1, 2), torch.From(row, 1, 2))
			if err := parallel.Backward(ctx, loss.Backward, loss); err != nil {
				return err
			}
			adam.Step(0.1)
			sgd.Step(0.1)
			for _, p := range nn.Params(m) {
				p.Tensor.SetGrad(torch.Tensor{})
			}
		}
		for row := range int64(12) { // rows 0 to 4 were looked up by one process or both
			changed := string(before.Select(0, row).Bytes()) != string(m.Words.Weight.Detach().Select(0, row).Bytes())
			assert.Equal(t, row < 5, changed, "row %d", row)
		}
		weights[g.Rank()] = append(m.Words.Weight.Bytes(), m.Bags.Weight.Bytes()...)
		return nil
	}))
	require.Equal(t, weights[0], weights[1])
}

func TestCompressionOfSparseGradientsIsRefusedOnAll(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		_, err := ddp.New(ctx, g, newLookup(), ddp.Options{Compress: torch.Float16})
		return err
	}) {
		require.EqualError(t, err, `ddp: Options.Compress is float16, and the gradient of "words.weight" is sparse; `+
			`those are sent as they are only: leave Compress out, or Sparse of the embedding`, "rank %d", rank)
	}
}
