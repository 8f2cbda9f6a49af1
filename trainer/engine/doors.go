package engine

import "github.com/gotrainer/gotrainer/torch"

// ComputeLoss runs the model on a batch, in the precision of the run, and returns the loss that the options ask for: compute_loss of Hugging Face's Trainer. It
// is what a [TrainingStepper] calls that only wants to do something around the usual step:
//
//	func (t *task) TrainingStep(p engine.Pass, b Batch, backward func(engine.Loss) torch.Tensor) torch.Tensor {
//		loss := backward(t.step.ComputeLoss(p, b))
//		t.losses = append(t.losses, loss.Item())
//		return loss
//	}
func (s *Step[S, B]) ComputeLoss(p Pass, b B) Loss { return s.loss(p, b) }

// GradNorm is the total norm of the gradients before clipping at the last update; ok is false where none was computed. It waits for the device.
func (s *Step[S, B]) GradNorm() (norm float64, ok bool, err error) {
	if !s.normed {
		return 0, false, nil
	}
	err = torch.Try(func() { norm = s.gradNorm.Item() })
	return norm, err == nil, err
}
