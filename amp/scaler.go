package amp

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// The misuses that a [GradScaler] reports, for errors.Is.
var (
	ErrNotScaled     = errors.New("amp: no loss has been scaled; call Scale before the backward pass")
	ErrUnscaledTwice = errors.New("amp: the gradients of this optimizer have been unscaled since the last Update; " +
		"call Unscale_ once, after the last backward pass")
	ErrStepped = errors.New("amp: this optimizer has made its step since the last Update; call Update at the " +
		"end of each update")
	ErrFP16Gradients = errors.New("amp: a gradient is float16, and unscaling it could overflow or lose it; keep " +
		"weights in float32 and let Autocast cast them")
	ErrNoInfChecks = errors.New("amp: no gradients have been checked; no parameter of the optimizer had one")
	ErrScalerState = errors.New("amp: state or setting of a GradScaler not allowed")
)

// Optimizer is what a [GradScaler] needs of an optimizer. The optimizers of package optim implement
// it. Scalers tell optimizers apart with ==, so a type of your own should be a pointer. Params must
// return the same parameters each time.
type Optimizer interface {
	Params() []torch.Named
	Step(lr float64)
}

// GradScalerOptions configures [NewGradScaler]. The zero value gives PyTorch's defaults.
type GradScalerOptions struct {
	InitScale      float64 // first scale; zero means 65536
	GrowthFactor   float64 // factor after GrowthInterval updates without overflow; zero means 2
	BackoffFactor  float64 // factor after an overflow; zero means 0.5
	GrowthInterval int     // zero means 2000
	Disabled       bool    // losses are not scaled, steps are always made, the other methods do nothing
}

// GradScaler keeps float16 gradients from vanishing. It scales the loss up before the backward pass
// and the gradients down before the step, skips the step if a gradient has become infinite or NaN,
// and adapts the scale. It is torch.amp.GradScaler.
//
// The scale and the checks stay on the device. As in PyTorch, only Step waits for it, to learn
// whether to make the step; StepWithoutWaiting leaves that to the kernel of a fused optimizer. A
// GradScaler is not safe for use by several goroutines at once.
type GradScaler struct {
	options        GradScalerOptions
	initialTracker int
	scale          torch.Tensor // float32 scalar on the device of the first loss; undefined before that
	growthTracker  torch.Tensor // int32: consecutive updates without overflow
	optimizers     map[Optimizer]*check
}

type stage int

const (
	ready stage = iota
	unscaled
	stepped
)

// check records what is known of an optimizer's gradients since the last Update.
type check struct {
	stage  stage
	names  []string
	params *torch.List
	found  []foundInf // the entries in use come first
	used   int
	last   int // number of entries in use at the last step
}

// foundInf records whether gradients on a device had an infinity or NaN: float32 0 or 1
// (found_inf). Its memory is reused from update to update.
type foundInf struct {
	device torch.Device
	inf    torch.Tensor
}

// NewGradScaler makes a scaler. It panics with [*torch.Error] if a setting is not allowed; use
// [GradScalerOptions.Validate] to check beforehand.
func NewGradScaler(o GradScalerOptions) *GradScaler {
	if err := o.Validate(); err != nil {
		panic(&torch.Error{Op: "amp.NewGradScaler", Code: torch.ErrValue, Msg: err.Error()})
	}
	return &GradScaler{options: o.withDefaults(), optimizers: map[Optimizer]*check{}}
}

func (o GradScalerOptions) withDefaults() GradScalerOptions {
	if o.InitScale == 0 {
		o.InitScale = 65536
	}
	if o.GrowthFactor == 0 {
		o.GrowthFactor = 2
	}
	if o.BackoffFactor == 0 {
		o.BackoffFactor = 0.5
	}
	if o.GrowthInterval == 0 {
		o.GrowthInterval = 2000
	}
	return o
}

// Validate reports which setting is not allowed, with [ErrScalerState].
func (o GradScalerOptions) Validate() error {
	o = o.withDefaults()
	if !(o.InitScale > 0) || math.IsInf(o.InitScale, 0) {
		return fmt.Errorf("%w: InitScale is %g; want a finite number above zero", ErrScalerState, o.InitScale)
	}
	return o.validateGrowth()
}

// validateGrowth is Validate for the settings that may be changed later, for which zero does not
// mean a default.
func (o GradScalerOptions) validateGrowth() error {
	switch {
	case !(o.GrowthFactor > 1) || math.IsInf(o.GrowthFactor, 0):
		return fmt.Errorf("%w: GrowthFactor is %g; want a finite number above 1", ErrScalerState, o.GrowthFactor)
	case !(o.BackoffFactor > 0 && o.BackoffFactor < 1):
		return fmt.Errorf("%w: BackoffFactor is %g; want a number between 0 and 1", ErrScalerState, o.BackoffFactor)
	case o.GrowthInterval <= 0:
		return fmt.Errorf("%w: GrowthInterval is %d; want a number of updates", ErrScalerState, o.GrowthInterval)
	}
	return nil
}

// Scale returns loss times the scale. The first loss determines the device of the scale.
func (s *GradScaler) Scale(loss torch.Tensor) torch.Tensor {
	if s.options.Disabled {
		return loss
	}
	if !s.scale.Defined() {
		s.place(loss.Device())
	}
	return loss.Mul(s.scale.ToDevice(loss.Device()))
}

func (s *GradScaler) place(d torch.Device) {
	s.scale = torch.TensorOptions{Device: d}.Full(s.options.InitScale, []int64{}...).Keep()
	s.growthTracker = torch.TensorOptions{Device: d, DType: torch.Int32}.Full(s.initialTracker, []int64{}...).Keep()
}

func (s *GradScaler) of(opt Optimizer) *check {
	c := s.optimizers[opt]
	if c != nil {
		return c
	}
	c = &check{}
	var params []torch.Tensor
	for _, p := range opt.Params() {
		c.names = append(c.names, p.Name)
		params = append(params, p.Tensor)
	}
	c.params = torch.NewList(params...)
	s.optimizers[opt] = c
	return c
}

// Unscale_ divides the gradients of opt by the scale and records whether one is infinite or NaN.
// Step does this if it has not been done. Call Unscale_ once before Step to clip gradients or to
// look at them. It does not wait for the device.
func (s *GradScaler) Unscale_(opt Optimizer) error {
	if s.options.Disabled {
		return nil
	}
	if !s.scale.Defined() {
		return ErrNotScaled
	}
	c := s.of(opt)
	switch c.stage {
	case unscaled:
		return ErrUnscaledTwice
	case stepped:
		return ErrStepped
	}
	var err error
	torch.Scope(func() {
		torch.NoGrad(func() { err = s.unscale(c) })
	})
	if err == nil {
		c.stage = unscaled
	}
	return err
}

// FoundInf returns what the last Unscale_ of opt recorded: one float32 per device, 1 if a gradient
// is infinite or NaN. If each process has only a part of the gradients, the processes must set
// these to their maximum over all processes, so that either all make the step or none does:
// ShardedGradScaler.
func (s *GradScaler) FoundInf(opt Optimizer) (notes []torch.Tensor) {
	c := s.optimizers[opt]
	if c == nil {
		return nil
	}
	for _, f := range c.found[:c.used] {
		notes = append(notes, f.inf)
	}
	return notes
}

// unscale makes a single call for all gradients with the same device and dtype.
func (s *GradScaler) unscale(c *check) error {
	type kind struct {
		device torch.Device
		dtype  torch.DType
	}
	var kinds []kind
	grads := map[kind][]torch.Tensor{}
	for i, g := range c.params.Grads() {
		if !g.Defined() {
			continue
		}
		if !g.IsStrided() { // for a sparse gradient, its rows, in place
			g = torch.Call("aten::_values", g)[0]
		}
		k := kind{g.Device(), g.DType()}
		if k.dtype == torch.Float16 {
			return fmt.Errorf("%w (parameter %q)", ErrFP16Gradients, c.names[i])
		}
		if grads[k] == nil {
			kinds = append(kinds, k)
		}
		grads[k] = append(grads[k], g)
	}
	// The reciprocal is computed in double precision, as in PyTorch.
	inverse := s.scale.ToDType(torch.Float64).Reciprocal().ToDType(torch.Float32)
	c.used = 0
	for _, k := range kinds {
		torch.Call("aten::_amp_foreach_non_finite_check_and_unscale_", grads[k], c.foundOn(k.device),
			inverse.ToDevice(k.device))
	}
	return nil
}

// foundOn returns the flag of a device, which is reset to 0 at its first use after an Update.
func (c *check) foundOn(d torch.Device) torch.Tensor {
	for _, f := range c.found[:c.used] {
		if f.device == d {
			return f.inf
		}
	}
	at := c.used
	for at < len(c.found) && c.found[at].device != d {
		at++
	}
	if at == len(c.found) {
		c.found = append(c.found, foundInf{d, torch.TensorOptions{Device: d}.Zeros([]int64{}...).Keep()})
	}
	c.found[c.used], c.found[at] = c.found[at], c.found[c.used]
	c.used++
	return c.found[c.used-1].inf.Fill_(0.0)
}

// Step makes a step of opt with learning rate lr, after unscaling its gradients if
// [GradScaler.Unscale_] has not done so. If a gradient is infinite or NaN, the step is not made and
// applied is false. Step waits for the device.
func (s *GradScaler) Step(opt Optimizer, lr float64) (applied bool, err error) {
	if s.options.Disabled {
		opt.Step(lr)
		return true, nil
	}
	c, err := s.beforeStep(opt)
	if err != nil {
		return false, err
	}
	if applied = !c.leftOut(); applied {
		opt.Step(lr)
	}
	c.stage = stepped
	return applied, nil
}

// UnlessStepper is an [Optimizer] that can skip a step by itself, without the host waiting to learn
// whether it does. The optimizers of package optim that have a fused kernel support it.
type UnlessStepper interface {
	Optimizer
	StepSupportsAMPScaling() bool
	// StepUnless is Step, but changes nothing if foundInf, a float32 without dimensions, is 1.
	StepUnless(lr float64, foundInf torch.Tensor)
}

// StepWithoutWaiting is [GradScaler.Step] for callers that do not need to know whether the step is
// made. An [UnlessStepper] finds out on the device, as a fused optimizer does in PyTorch. Other
// optimizers wait, as in Step. [GradScaler.LeftOut] reports the result later.
func (s *GradScaler) StepWithoutWaiting(opt Optimizer, lr float64) error {
	fused, ok := opt.(UnlessStepper)
	if s.options.Disabled || !ok || !fused.StepSupportsAMPScaling() {
		_, err := s.Step(opt, lr)
		return err
	}
	c, err := s.beforeStep(opt)
	if err != nil {
		return err
	}
	torch.Scope(func() {
		inf := c.found[0].inf
		for _, f := range c.found[1:c.used] { // if parameters are on several devices
			inf = inf.Maximum(f.inf.ToDevice(inf.Device()))
		}
		fused.StepUnless(lr, inf)
	})
	c.stage = stepped
	return nil
}

// LeftOut reports whether the last step of opt was skipped. It waits for the device.
func (s *GradScaler) LeftOut(opt Optimizer) bool {
	c := s.optimizers[opt]
	return c != nil && c.leftOut()
}

// beforeStep unscales the gradients unless this has been done.
func (s *GradScaler) beforeStep(opt Optimizer) (*check, error) {
	if !s.scale.Defined() {
		return nil, ErrNotScaled
	}
	c := s.of(opt)
	if c.stage == stepped {
		return nil, ErrStepped
	}
	if c.stage == ready {
		if err := s.Unscale_(opt); err != nil {
			return nil, err
		}
	}
	if c.used == 0 {
		return nil, ErrNoInfChecks
	}
	c.last = c.used
	return c, nil
}

// leftOut waits for the device and reports whether the last step was skipped because a gradient was
// infinite or NaN.
func (c *check) leftOut() bool {
	return slices.ContainsFunc(c.found[:c.last], func(f foundInf) bool { return f.inf.Item() != 0 })
}

// Update adapts the scale: down if a gradient of any optimizer was infinite or NaN, up after
// GrowthInterval updates in which none was. Call it once per update, after the steps of all
// optimizers. It does not wait for the device.
func (s *GradScaler) Update() error {
	if s.options.Disabled {
		return nil
	}
	if !s.scale.Defined() {
		return ErrNotScaled
	}
	var err error
	torch.Scope(func() {
		torch.NoGrad(func() {
			var sum torch.Tensor
			for _, c := range s.optimizers {
				for _, f := range c.found[:c.used] {
					if inf := f.inf.ToDevice(s.scale.Device()); sum.Defined() {
						sum = sum.Add(inf)
					} else {
						sum = inf
					}
				}
			}
			if !sum.Defined() {
				err = ErrNoInfChecks
				return
			}
			torch.Call("aten::_amp_update_scale_", s.scale, s.growthTracker, sum, s.options.GrowthFactor,
				s.options.BackoffFactor, s.options.GrowthInterval)
		})
	})
	if err == nil {
		s.renew()
	}
	return err
}

// UpdateTo sets the scale instead of adapting it: update(new_scale).
func (s *GradScaler) UpdateTo(scale float64) error {
	if s.options.Disabled {
		return nil
	}
	if !s.scale.Defined() {
		return ErrNotScaled
	}
	if !(scale > 0) || math.IsInf(scale, 0) {
		return fmt.Errorf("%w: the new scale is %g; want a finite number above zero", ErrScalerState, scale)
	}
	s.scale.Fill_(scale)
	s.renew()
	return nil
}

// renew prepares the checks of all optimizers for the next update.
func (s *GradScaler) renew() {
	for _, c := range s.optimizers {
		c.stage, c.used = ready, 0
	}
}
