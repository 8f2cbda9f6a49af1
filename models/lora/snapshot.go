package lora

import (
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// Snapshot returns a function that runs another one with the model as it is now, whatever is
// trained afterwards. Learning from preferences needs it as the reference. If the adapter changes
// nothing yet, as when it is new, its updates are switched off meanwhile. Otherwise swaps is true,
// and copies of all trained tensors take their places. The function must not be called while the
// model runs.
func (a *Adapter) Snapshot() (with func(f func()), swaps bool, err error) {
	if a.layers == nil {
		return nil, false, errMerged
	}
	err = torch.Try(func() { swaps = a.changes() })
	if err != nil {
		return nil, false, err
	}
	if !swaps {
		return func(f func()) {
			defer a.SetEnabled(a.enabled)
			a.SetEnabled(false)
			f()
		}, false, nil
	}
	copies := make([]torch.Tensor, len(a.state))
	err = torch.Try(func() {
		torch.NoGrad(func() {
			for i, s := range a.state {
				copies[i] = s.Tensor.Detach().Clone().Keep()
			}
		})
	})
	return func(f func()) { a.swapped(copies, f) }, true, err
}

// changes reports whether the adapter changes what the model computes, or contains trained tensors
// other than updates, whose values may change it later.
func (a *Adapter) changes() (changes bool) {
	torch.Scope(func() {
		for _, s := range a.state {
			switch {
			case strings.HasSuffix(s.Name, ".lora_A.weight"):
			case strings.HasSuffix(s.Name, ".lora_B.weight"):
				changes = changes || s.Tensor.Detach().NeScalar(0).Any().Item() != 0
			case strings.HasSuffix(s.Name, ".lora_magnitude_vector"): // below
			default: // a bias, or a module that is trained as a whole
				changes = true
			}
		}
		for _, t := range a.layers {
			if m := t.update.Magnitude; m != nil && !changes {
				changes = !m.isNorm()
			}
		}
	})
	return changes
}

// swapped runs f while the copies temporarily replace the trained tensors.
func (a *Adapter) swapped(copies []torch.Tensor, f func()) {
	torch.NoGrad(func() {
		trained := make([]torch.Tensor, len(copies))
		put := func(list []torch.Tensor) {
			for i, s := range a.state {
				s.Tensor.SetData_(list[i])
			}
		}
		for i, s := range a.state {
			trained[i] = s.Tensor.Detach()
			if d := s.Tensor.Device(); copies[i].Device() != d { // the model has been moved
				copies[i] = copies[i].ToDevice(d).Keep()
			}
		}
		put(copies)
		defer put(trained)
		f()
	})
}
