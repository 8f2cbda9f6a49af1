package engine

import (
	"cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
)

// globalOrder is the state of the orders that are drawn from the global generator: the generator's
// state before the order of the current epoch was drawn, from which a resumed run draws that order
// again.
type globalOrder struct {
	drawn  bool             // GlobalPermutation or RandomSampler was called
	keep   bool             // do not change it when a state is restored: see trainer.LoadOptions
	before []byte           // generator state before the current order; nil: draw a new order
	global *torch.Generator // generator of the run, whatever thread draws the order; nil: the default one
}

// StartLoader draws one number from the CPU's generator, as PyTorch's DataLoader does for the seed
// of its workers.
func (s *core) StartLoader(train bool) error {
	s.fresh = false
	if train {
		s.order.before = nil
	}
	return torch.Try(func() { _ = drawInt64(s.order.global) })
}

// drawInt64 is torch.empty((), dtype=torch.int64).random_().
func drawInt64(g *torch.Generator) int64 {
	t := torch.TensorOptions{DType: torch.Int64}.Empty()
	defer t.Free()
	return torch.Values[int64](t.Random_(g))[0]
}

// GlobalPermutation is the random part of a DataLoader's order when it is drawn directly from the
// global generator, at the moment the first batch of the epoch is fetched. Hugging Face's Trainer
// uses it to order by length:
//
//	trainer.Options{Order: data.GroupedByLength{Lengths: lengths, BatchSize: 8, Random: step.GlobalPermutation()}}
//
// A run that is resumed within an epoch gets the same order again, since the checkpoint holds what
// is needed for it.
func (s *core) GlobalPermutation() data.Order {
	s.order.drawn = true
	return data.OrderFunc(func(_, n int) []int {
		return s.order.draw(func(g *torch.Generator) []int {
			permutation := torch.TensorOptions{DType: torch.Int64, Generator: g}.RandPerm(int64(n))
			defer permutation.Free()
			indices := make([]int, n)
			for i, v := range torch.Values[int64](permutation) {
				indices[i] = int(v)
			}
			return indices
		})
	})
}

// RandomSampler is the order of PyTorch's DataLoader(shuffle=True) without a generator: one more
// number is drawn from the global generator, as the seed of the epoch's permutation. It is resumed
// like [Step.GlobalPermutation].
func (s *core) RandomSampler() data.Order {
	s.order.drawn = true
	return data.OrderFunc(func(_, n int) []int {
		return s.order.draw(func(g *torch.Generator) []int {
			return data.Permutation(uint64(drawInt64(g)), n)
		})
	})
}

// put restores the state before an order; nil: the next order is a new one.
func (o *globalOrder) put(before []byte) {
	if !o.keep {
		o.before = before
	}
}

// draw calls f with the global generator or, if this epoch's order has been drawn before, with a
// copy of the generator as it was then.
func (o *globalOrder) draw(f func(g *torch.Generator) []int) (indices []int) {
	err := torch.Try(func() {
		g := torch.NewGenerator(0)
		if o.before != nil {
			g.SetState(o.before)
		} else {
			g = cmp.Or(o.global, torch.DefaultGenerator(torch.CPU))
			o.before = g.State()
		}
		indices = f(g)
	})
	if err != nil {
		return nil // the loader refuses an empty order
	}
	return indices
}
