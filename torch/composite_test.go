package torch_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// linear and cross_entropy_loss are custom autograd nodes on a CPU. These tests compare them with
// libtorch's own composition of operators.

func composedLinear(x, w, b torch.Tensor) torch.Tensor { return b.AddMM(x, w.T()) }

func composedCrossEntropy(x, y torch.Tensor, r torch.Reduction, ignored int64) torch.Tensor {
	return x.LogSoftmax(1, torch.Float32).NLLLoss(y, torch.Tensor{}, r, ignored)
}

// leaves returns tensors with the same values in each call.
func leaves(grad [3]bool, shapes ...[]int64) []torch.Tensor {
	list := make([]torch.Tensor, len(shapes))
	torch.ForkRNG(func() {
		torch.ManualSeed(5)
		for i, shape := range shapes {
			list[i] = torch.Randn(shape...).SetRequiresGrad(grad[i])
		}
	})
	return list
}

// equal compares tensors bit for bit. Undefined tensors are equal.
func equal(t *testing.T, want, got torch.Tensor, name string) {
	t.Helper()
	require.Equal(t, want.Defined(), got.Defined(), name)
	if want.Defined() {
		assert.Equal(t, want.Shape(), got.Shape(), name)
		assert.True(t, string(want.Detach().Bytes()) == string(got.Detach().Bytes()), "%s: %v, want %v", name, got, want)
	}
}

func TestLinearHasTheGradientsOfItsParts(t *testing.T) {
	testenv.RequireTorch(t)
	for _, rows := range []int64{1, 2, 17} {
		for _, size := range [][2]int64{{1, 1}, {1, 5}, {8, 1}, {64, 33}} {
			for _, grad := range [][3]bool{{true, true, true}, {false, true, true}, {true, false, false}, {false, true, false},
				{false, false, true}, {}} {
				t.Run(fmt.Sprint(rows, size, grad), func(t *testing.T) {
					torch.Scope(func() {
						run := func(linear func(x, w, b torch.Tensor) torch.Tensor) (out torch.Tensor, in []torch.Tensor) {
							in = leaves(grad, []int64{rows, size[0]}, []int64{size[1], size[0]}, []int64{size[1]})
							out = linear(in[0], in[1], in[2])
							if grad != [3]bool{} {
								out.Mul(out).Sum(torch.Float32).Backward()
							}
							return out, in
						}
						want, theirs := run(composedLinear)
						got, ours := run(torch.Tensor.Linear)
						equal(t, want, got, "output")
						assert.Equal(t, want.NeedsGrad(), got.NeedsGrad())
						for i := range ours {
							equal(t, theirs[i].Grad(), ours[i].Grad(), fmt.Sprint("gradient ", i))
						}
					})
				})
			}
		}
	}
}

func TestCrossEntropyHasTheGradientsOfItsParts(t *testing.T) {
	testenv.RequireTorch(t)
	for _, r := range []torch.Reduction{torch.ReductionMean, torch.ReductionSum, torch.ReductionNone} {
		for _, classes := range [][]int64{{0, 2, 1, 2}, {0, -100, 1, -100}, {-100, -100, -100, -100}, {1, 1, 0, 0}} {
			for _, ignored := range []int64{-100, 1} {
				if ignored == 1 && classes[1] == -100 {
					continue // not a class
				}
				t.Run(fmt.Sprint(r, classes, ignored), func(t *testing.T) {
					torch.Scope(func() {
						run := func(loss func(x, y torch.Tensor) torch.Tensor) (out, grad torch.Tensor) {
							x := leaves([3]bool{true}, []int64{4, 3})[0]
							out = loss(x, torch.From(classes))
							out.Mul(out).Sum(torch.Float32).Backward()
							return out, x.Grad()
						}
						want, theirs := run(func(x, y torch.Tensor) torch.Tensor { return composedCrossEntropy(x, y, r, ignored) })
						got, ours := run(func(x, y torch.Tensor) torch.Tensor {
							return x.CrossEntropyLoss(y, torch.Tensor{}, r, ignored, 0)
						})
						equal(t, want, got, "loss")
						equal(t, theirs, ours, "gradient")
					})
				})
			}
		}
	}
}

func TestGradientsOfGradientsAreThoseOfTheParts(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		run := func(linear func(x, w, b torch.Tensor) torch.Tensor,
			loss func(x, y torch.Tensor) torch.Tensor) []torch.Tensor {
			in := leaves([3]bool{true, true, true}, []int64{6, 4}, []int64{3, 4}, []int64{3})
			l := loss(linear(in[0].Mul(in[0]), in[1], in[2]), torch.From([]int64{0, 1, 2, 2, 1, 0}))
			first := torch.Grad([]torch.Tensor{l}, in, torch.GradOptions{CreateGraph: true})
			sum := first[0].Mul(first[0]).Sum(torch.Float32).Add(first[1].Mul(first[1]).Sum(torch.Float32)).
				Add(first[2].Mul(first[2]).Sum(torch.Float32))
			return append(first, torch.Grad([]torch.Tensor{sum}, in, torch.GradOptions{})...)
		}
		want := run(composedLinear, func(x, y torch.Tensor) torch.Tensor {
			return composedCrossEntropy(x, y, torch.ReductionMean, -100)
		})
		got := run(torch.Tensor.Linear, func(x, y torch.Tensor) torch.Tensor {
			return x.CrossEntropyLoss(y, torch.Tensor{}, torch.ReductionMean, -100, 0)
		})
		for i := range want {
			assert.InDeltaSlice(t, torch.Values[float32](want[i].Detach().Reshape(-1)),
				torch.Values[float32](got[i].Detach().Reshape(-1)), 1e-6, "gradient %d", i)
		}
	})
}

// Errors about freed graphs and changed tensors are the same as libtorch's.
func TestMistakesWithGraphsOfOneNodeAreSaid(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		in := leaves([3]bool{true, true, true}, []int64{6, 4}, []int64{3, 4}, []int64{3})
		classes := torch.From([]int64{0, 1, 2, 2, 1, 0})
		y := in[0].Linear(in[1], in[2])
		loss := y.Detach().SetRequiresGrad(true).CrossEntropyLoss(classes, torch.Tensor{}, torch.ReductionMean, -100, 0)
		for _, root := range []torch.Tensor{y.Sum(torch.Float32), loss} {
			require.NoError(t, torch.Try(root.Backward))
			require.ErrorContains(t, torch.Try(root.Backward), "backward through the graph a second time")
		}
		y = in[0].Linear(in[1], in[2])
		torch.NoGrad(func() { in[1].MulScalar_(2) })
		require.ErrorContains(t, torch.Try(y.Sum(torch.Float32).Backward), "modified by an inplace operation")
		require.ErrorContains(t, torch.Try(func() { in[0].Linear(leaves([3]bool{true}, []int64{3, 5})[0], in[2]) }), "shapes")
		require.ErrorContains(t, torch.Try(func() {
			y.CrossEntropyLoss(torch.From([]int64{0}), torch.Tensor{}, torch.ReductionMean, -100, 0)
		}), "batch_size")
		require.ErrorContains(t, torch.Try(func() {
			y.CrossEntropyLoss(torch.From([]int64{0, 1, 2, 3, 0, 0}), torch.Tensor{}, torch.ReductionMean, -100, 0)
		}), "out of bounds")
	})
}
