package engine

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Numbers that are not finite.

// checkFinite returns an error if a loss or norm is not finite, in cases in which that can be
// checked immediately: reading it from a GPU would wait, under loss scaling infinities are normal,
// and an optimizer that updates during the backward pass has already used the gradients.
func (s *core) checkFinite(name string, t torch.Tensor, stop bool) error {
	if !stop || s.remote || s.scaler != nil || !s.clipped() {
		return nil
	}
	if v := t.Item(); math.IsNaN(v) || math.IsInf(v, 0) {
		return &trainer.NonFiniteError{Name: name, Value: v}
	}
	return nil
}

// findNonFinite is [Step.FindNonFinite].
func (s *core) findNonFinite(ctx context.Context, b any, w trainer.Window) (o trainer.NonFiniteOrigin, err error) {
	if s.task.isTrainingStepper {
		return o, errors.New("the task has a training step of its own (engine.TrainingStepper), which is not run again")
	}
	if s.sharded != nil {
		return o, errors.New("each process has a part of the model, which is not run again")
	}
	defer s.pending.drop()
	parallel := s.parallel
	s.parallel = nil // the other processes do not compute it again
	defer func() { s.parallel = parallel }()
	err = inScope(func() error {
		s.mode(true, w.KeepMode)
		torch.ForkRNG(func() {
			defer s.keepBuffers()()
			s.zeroGrad()
			var loss Loss
			if first := nn.FirstNonFinite(s.task.Model(),
				func() { loss = s.loss(s.trainingPass(ctx, w), b) }); first != nil {
				o.Module, o.Input = first.Name, first.Input
			}
			o.Loss = loss.Value.IsFinite().All().Item() == 0
			if o.Module != "" || o.Loss {
				return
			}
			s.backward(ctx, loss, w)
			o.Gradients = nonFinite(s.gradients())
		}, s.devices()...)
		return nil
	})
	return o, err
}

// keepBuffers returns a function that restores the current buffers of the model.
func (s *core) keepBuffers() (restore func()) {
	buffers := nn.Buffers(s.task.Model())
	copies := make([]torch.Tensor, len(buffers))
	for i, b := range buffers {
		copies[i] = b.Tensor.Clone()
	}
	return func() {
		torch.NoGrad(func() {
			for i, b := range buffers {
				b.Tensor.Copy_(copies[i])
			}
		})
	}
}

// NonFinite names the weights and buffers that are not finite. It waits for the device once.
func (s *core) NonFinite() (names []string, err error) {
	if s.sharded != nil {
		return s.nonFiniteParts()
	}
	err = torch.Try(func() {
		torch.Scope(func() { names = nonFinite(nn.StateDict(s.task.Model())) })
	})
	return names, err
}

// nonFiniteWeights is NonFinite for the files of a save, on another goroutine. It splits the
// tensors into pieces so that libtorch does not use the threads that are training.
func nonFiniteWeights(files []tensorFile) (names []string, err error) {
	err = torch.Try(func() {
		torch.Scope(func() {
			var parts []torch.Named
			for _, f := range files {
				if slices.Contains([]string{averagesName, optimizerName, gradientsName, generatorName}, f.name) {
					continue
				}
				for _, t := range f.tensors {
					for _, p := range pieces(t.Tensor) {
						parts = append(parts, torch.Named{Name: t.Name, Tensor: p})
					}
				}
			}
			names = slices.Compact(nonFinite(parts))
		})
	})
	return names, err
}

// nonFinite names the tensors with a NaN or an infinity. The norm of such a tensor is not finite.
// The norm of a finite tensor may overflow too, so in that case every element is checked.
func nonFinite(list []torch.Named) (names []string) {
	var tensors []torch.Tensor
	var all []string
	for _, t := range list {
		if t.Tensor.DType().IsFloatingPoint() && t.Tensor.Numel() > 0 {
			tensors, all = append(tensors, t.Tensor.Detach()), append(all, t.Name)
		}
	}
	if len(tensors) == 0 {
		return nil
	}
	norms := torch.Call("aten::_foreach_norm.Scalar", tensors, 2)
	for i, n := range norms {
		norms[i] = n.IsFinite()
	}
	for i, finite := range torch.Values[bool](torch.Stack(norms, 0)) {
		if !finite && !torch.Values[bool](tensors[i].IsFinite().All())[0] {
			names = append(names, all[i])
		}
	}
	return names
}
