// Package sharedorder draws random numbers like Python's data loaders: the seeds that a PyTorch
// DataLoader draws, and the permutations of a training set shared by several processes, which
// Accelerate makes with a RandomSampler without a generator.
package sharedorder

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// Draw draws an int64 from the default generator: torch.empty((), dtype=torch.int64).random_(), the
// seed of a DataLoader's workers and of a RandomSampler's permutation.
func Draw() (number int64) {
	torch.Scope(func() {
		number = torch.Values[int64](torch.TensorOptions{DType: torch.Int64}.Empty().Random_(nil))[0]
	})
	return number
}

// Order draws from its own generator, whose state all processes copy from the main process before
// each pass.
type Order struct{ generator *torch.Generator }

// New seeds the generator with a number from the default generator.
func New() (o *Order, err error) {
	err = torch.Try(func() { o = &Order{torch.NewGenerator(uint64(Draw()))} })
	return o, err
}

// Agree is synchronize_rng_states: all processes must call it before a pass.
func (o *Order) Agree(ctx context.Context, g *dist.Group) error {
	state, err := o.State()
	if err != nil {
		return err
	}
	if err := g.Broadcast(ctx, state, 0); err != nil {
		return fmt.Errorf("the order of a pass: %w", err)
	}
	return o.SetState(state)
}

// Indices returns the order of a pass over n samples.
func (o *Order) Indices(_, n int) []int {
	out := make([]int, n)
	torch.Scope(func() {
		for i, v := range torch.Values[int64](o.permutation(n)) {
			out[i] = int(v)
		}
	})
	return out
}

// End is called at the end of a pass, when a RandomSampler draws another permutation, of which it
// uses nothing.
func (o *Order) End(n int) { torch.Scope(func() { o.permutation(n) }) }

func (o *Order) permutation(n int) torch.Tensor {
	return torch.TensorOptions{DType: torch.Int64, Generator: o.generator}.RandPerm(int64(n))
}

// State returns the state of the generator.
func (o *Order) State() (state []byte, err error) {
	err = torch.Try(func() { state = o.generator.State() })
	return state, err
}

// SetState restores what State returned.
func (o *Order) SetState(state []byte) error {
	return torch.Try(func() { o.generator.SetState(state) })
}
