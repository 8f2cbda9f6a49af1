package optim

import (
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Averaging configures [NewAveraged]. The zero value is the plain average of stochastic weight
// averaging.
type Averaging struct {
	// exponential moving average: average += (1-Decay) * (weights - average); zero means the plain
	// average of all updates
	Decay float64
}

// Averaged is a second set of weights that averages those of a model:
// torch.optim.swa_utils.AveragedModel with its foreach functions. After n updates:
//
//	average  = p                           at the first Update
//	average += (p - average) / (n + 1)     plain: SWA, Izmailov and others, https://arxiv.org/abs/1803.05407
//	average += (1-Decay) * (p - average)   exponential: EMA
//
// Pass it a model's parameters, and also its buffers if they are to be averaged
// (use_buffers=True). Otherwise the statistics of batch normalisation are those of the model's own
// weights; [UpdateBatchNorm] recomputes them inside [Averaged.Swap].
type Averaged struct {
	source  []torch.Named
	average []torch.Named
	decay   float64
	updates int
	lists   []*averagedList
}

// averagedList holds tensors on one device and of one dtype.
type averagedList struct {
	device          torch.Device
	dtype           torch.DType
	source, average []torch.Tensor
}

// NewAveraged copies the tensors, which must outlive it. It panics with [*torch.Error] if a tensor
// is undefined or has no name, or if Decay is not between 0 and 1.
func NewAveraged(tensors []torch.Named, o Averaging) *Averaged {
	if !(o.Decay >= 0 && o.Decay <= 1) {
		panic(&torch.Error{Op: "optim.NewAveraged", Code: torch.ErrValue, Msg: errorf(ErrOption,
			"Averaging.Decay is %g; want 0 <= Decay <= 1", o.Decay).Error()})
	}
	a := &Averaged{source: slices.Clone(tensors), decay: o.Decay}
	for i, p := range tensors {
		if p.Name == "" || !p.Tensor.Defined() {
			panic(&torch.Error{Op: "optim.NewAveraged", Code: torch.ErrInvalid, Msg: errorf(ErrParam,
				"tensor %d, %q, has no name or is undefined", i, p.Name).Error()})
		}
		torch.NoGrad(func() {
			a.average = append(a.average, torch.Named{Name: p.Name, Tensor: p.Tensor.Detach().Clone().Keep()})
		})
		a.list(p.Tensor).add(p.Tensor, a.average[i].Tensor)
	}
	return a
}

func (a *Averaged) list(t torch.Tensor) *averagedList {
	for _, l := range a.lists {
		if l.device == t.Device() && l.dtype == t.DType() {
			return l
		}
	}
	l := &averagedList{device: t.Device(), dtype: t.DType()}
	a.lists = append(a.lists, l)
	return l
}

func (l *averagedList) add(source, average torch.Tensor) {
	l.source, l.average = append(l.source, source), append(l.average, average)
}

// Update adds the current weights to the average. It does not wait for the device.
func (a *Averaged) Update() {
	torch.Scope(func() {
		torch.NoGrad(func() {
			for _, l := range a.lists {
				l.update(a.updates, a.decay)
			}
		})
	})
	a.updates++
}

func (l *averagedList) update(n int, decay float64) {
	on := operators{foreach: true}
	source, average := list{l.source, on}, list{l.average, on}
	switch {
	case n == 0:
		average.copy_(source)
	case !l.dtype.IsFloatingPoint(): // truncated to integers, as PyTorch's copy does
		for i, t := range l.average {
			if decay == 0 {
				t.Copy_(t.Add(l.source[i].Sub(t).DivScalar(n + 1)))
			} else {
				t.Copy_(t.MulScalar(decay).Add(l.source[i].MulScalar(1 - decay)))
			}
		}
	case decay != 0:
		average.lerp_(source, 1-decay)
	case l.device.IsCUDA():
		average.lerp_(source, float64(float32(1/float64(n+1))))
	default:
		difference := source.sub(average)
		difference.divScalar_(float64(n + 1))
		average.add_(difference, 1)
	}
}

// Updates returns the number of Updates so far: n_averaged.
func (a *Averaged) Updates() int { return a.updates }

// Tensors returns the averages under the names of their sources, for a checkpoint or to load them
// into another model. They are the tensors themselves: the next Update changes them.
func (a *Averaged) Tensors() []torch.Named { return a.average }

// Swap runs f with the averages as the model's weights, to evaluate or save it, and restores the
// model's own weights afterwards, even if f panics. Models that hold the same tensors are affected
// too. f must not call Update or Swap.
func (a *Averaged) Swap(f func()) {
	a.Exchange()
	defer a.Exchange()
	f()
}

// Exchange swaps the model's weights with the averages; a second call swaps them back. Update must
// not be called in between.
func (a *Averaged) Exchange() {
	torch.Scope(func() {
		torch.NoGrad(func() {
			for _, l := range a.lists {
				on := operators{foreach: true}
				source, average := list{l.source, on}, list{l.average, on}
				own := source.each(torch.Tensor.Clone)
				source.copy_(average)
				average.copy_(own)
			}
		})
	})
}

// LoadState restores a copy of what Tensors returned, and the number of updates. State that does
// not match is refused with [ErrState], and then nothing has changed.
func (a *Averaged) LoadState(state []torch.Named, updates int) error {
	if updates < 0 {
		return errorf(ErrState, "the number of updates is %d; want one that is not negative", updates)
	}
	byName := map[string]torch.Tensor{}
	for _, s := range state {
		if byName[s.Name].Defined() {
			return errorf(ErrState, "average %q was given twice", s.Name)
		}
		if !s.Tensor.Defined() {
			return errorf(ErrState, "average %q is undefined", s.Name)
		}
		byName[s.Name] = s.Tensor
	}
	for _, t := range a.average {
		given, ok := byName[t.Name]
		if !ok {
			return errorf(ErrState, "average %q is missing", t.Name)
		}
		if err := fits(t.Name, given, t.Tensor); err != nil {
			return err
		}
	}
	if len(byName) != len(a.average) {
		return errorf(ErrState, "there are %d averages; want those of the %d tensors", len(byName), len(a.average))
	}
	return torch.Try(func() {
		torch.NoGrad(func() {
			for _, t := range a.average {
				t.Tensor.Copy_(byName[t.Name])
			}
		})
		a.updates = updates
	})
}
