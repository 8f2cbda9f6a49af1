package engine

import "github.com/gotrainer/gotrainer/torch"

// LossObserver is a [Task] that is shown the loss of every micro-batch of the training, as it was
// handed to backward: divided for the accumulation window, detached, and on the device. It lives
// until ObserveLoss returns; reading it waits for the device.
type LossObserver[B any] interface {
	ObserveLoss(b B, loss torch.Tensor)
}

// GradNorm is the total norm of the gradients before clipping at the last update; ok is false where
// none was computed. It waits for the device.
func (s *Step[S, B]) GradNorm() (norm float64, ok bool, err error) {
	if !s.normed {
		return 0, false, nil
	}
	err = torch.Try(func() { norm = s.gradNorm.Item() })
	return norm, err == nil, err
}
