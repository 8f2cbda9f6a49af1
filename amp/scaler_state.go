package amp

import (
	"fmt"
	"math"
)

// GradScalerState is the state of a [GradScaler], under the keys of PyTorch's state_dict.
type GradScalerState struct {
	Scale          float64 `json:"scale"`
	GrowthFactor   float64 `json:"growth_factor"`
	BackoffFactor  float64 `json:"backoff_factor"`
	GrowthInterval int     `json:"growth_interval"`
	GrowthTracker  int     `json:"_growth_tracker"` // consecutive updates without overflow
}

// Enabled reports whether losses are scaled at all.
func (s *GradScaler) Enabled() bool { return !s.options.Disabled }

// GetScale returns the scale, 1 if the scaler is disabled. It waits for the device.
func (s *GradScaler) GetScale() float64 {
	switch {
	case s.options.Disabled:
		return 1
	case !s.scale.Defined():
		return s.options.InitScale
	}
	return s.scale.Item()
}

func (s *GradScaler) tracker() int {
	if !s.growthTracker.Defined() {
		return s.initialTracker
	}
	return int(s.growthTracker.Item())
}

// State returns the state to save in a checkpoint. Call it after Update. It waits for the device.
// PyTorch's state of a disabled scaler is empty; here it is the zero value.
func (s *GradScaler) State() GradScalerState {
	if s.options.Disabled {
		return GradScalerState{}
	}
	return GradScalerState{s.GetScale(), s.options.GrowthFactor, s.options.BackoffFactor, s.options.GrowthInterval,
		s.tracker()}
}

// LoadState restores a state returned by State. It refuses a state that no enabled scaler can have,
// with [ErrScalerState], and then changes nothing. A disabled scaler ignores the state, as
// PyTorch's does.
func (s *GradScaler) LoadState(state GradScalerState) error {
	if s.options.Disabled {
		return nil
	}
	switch {
	case state == GradScalerState{}:
		return fmt.Errorf("%w: the state is empty, that of a disabled scaler", ErrScalerState)
	case !(state.Scale >= 0) || math.IsInf(state.Scale, 0):
		return fmt.Errorf("%w: scale is %g; want a finite number that is not negative", ErrScalerState, state.Scale)
	case state.GrowthTracker < 0:
		return fmt.Errorf("%w: _growth_tracker is %d; want a number of updates", ErrScalerState, state.GrowthTracker)
	}
	o := s.options
	o.GrowthFactor, o.BackoffFactor, o.GrowthInterval = state.GrowthFactor, state.BackoffFactor, state.GrowthInterval
	if err := o.validateGrowth(); err != nil {
		return err
	}
	o.InitScale = state.Scale
	s.options, s.initialTracker = o, state.GrowthTracker
	if s.scale.Defined() {
		s.scale.Fill_(state.Scale)
		s.growthTracker.Fill_(state.GrowthTracker)
	}
	return nil
}

// SetGrowth changes the factors and the interval by which Update adapts the scale. It refuses
// values that [NewGradScaler] refuses, and zeros, with [ErrScalerState].
func (s *GradScaler) SetGrowth(growthFactor, backoffFactor float64, growthInterval int) error {
	o := s.options
	o.GrowthFactor, o.BackoffFactor, o.GrowthInterval = growthFactor, backoffFactor, growthInterval
	if err := o.validateGrowth(); err != nil {
		return err
	}
	s.options = o
	return nil
}
