package engine

import (
	"errors"

	"github.com/gotrainer/gotrainer/torch"
)

// EmptyCache gives memory that libtorch keeps for later back to the device, and that of copies for
// asynchronous saves to the system. No save may be under way.
func (s *Step[S, B]) EmptyCache() error {
	s.copies.free()
	return torch.Try(torch.EmptyCache)
}

// OutOfMemory tells whether an error means that the memory of the device does not suffice.
func (s *Step[S, B]) OutOfMemory(err error) bool { return errors.Is(err, torch.ErrOutOfMemory) }

// ZeroGrad removes the gradients of all trained parameters.
func (s *Step[S, B]) ZeroGrad() error { return torch.Try(s.zeroGrad) }
