package lr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// Adaptive describes a schedule that follows a measured value, such as the evaluation loss,
// instead of the number of the update.
type Adaptive interface {
	// Start starts the schedule at the peak rate. It refuses invalid settings.
	Start(peak float64) (Controller, error)
}

// Controller is a running [Adaptive] schedule. Its state belongs in the checkpoint. It is not safe
// for concurrent use.
type Controller interface {
	// Rate returns the rate of the next update.
	Rate() float64
	// Observe takes a newly measured value and returns the rate from now on: step(metrics) in
	// PyTorch.
	Observe(metric float64) float64
	// State returns the state as JSON, without the settings.
	State() ([]byte, error)
	// LoadState restores the State of a controller with the same settings. After an error the
	// controller is unchanged.
	LoadState(state []byte) error
}

// Mode says which of two measured values is better.
type Mode string

// The modes of PyTorch. The empty Mode means the default of the field that holds it.
const (
	Min Mode = "min" // the lower one, as for losses
	Max Mode = "max" // the higher one, as for accuracies
)

// ThresholdMode says whether the threshold for an improvement is relative or absolute.
type ThresholdMode string

// The threshold modes of PyTorch. The empty ThresholdMode means the default of the field that holds
// it.
const (
	Relative ThresholdMode = "rel" // a share of the best value
	Absolute ThresholdMode = "abs" // a difference from the best value
)

// comparator decides what is an improvement: _is_better of ReduceLROnPlateau and is_better of
// GreedyLR.
type comparator struct {
	mode          Mode
	threshold     float64
	thresholdMode ThresholdMode
}

// worst returns the value that every other value improves on.
func (c comparator) worst() float64 {
	if c.mode == Max {
		return math.Inf(-1)
	}
	return math.Inf(1)
}

func (c comparator) better(value, best float64) bool {
	switch {
	case c.mode != Max && c.thresholdMode == Relative:
		return value < best*(1-c.threshold)
	case c.mode != Max:
		return value < best-c.threshold
	case c.thresholdMode == Relative:
		return value > best*(c.threshold+1)
	default:
		return value > best+c.threshold
	}
}

func (c *checks) comparator(b comparator) {
	c.that(b.mode == Min || b.mode == Max, "Mode", string(b.mode), `"min", "max", or "" for the default`)
	c.that(b.thresholdMode == Relative || b.thresholdMode == Absolute, "ThresholdMode", string(b.thresholdMode),
		`"rel", "abs", or "" for the default`)
	c.notNegative("Threshold", b.threshold)
}

// start checks the peak rate and returns the first error in the settings.
func (c *checks) start(peak float64) error {
	c.that(peak > 0 && !math.IsInf(peak, 0), "Start(peak)", peak, "a positive peak rate")
	return c.err
}

// StateError says why a state does not match a [Controller].
type StateError struct {
	Schedule string // "ReduceLROnPlateau"
	Reason   string // what is wrong with the state
}

func (e *StateError) Error() string {
	return fmt.Sprintf("lr: state of %s: %s; want what State returned for the same settings", e.Schedule, e.Reason)
}

// decodeState decodes a state strictly: all fields of *state must be present, and no others.
func decodeState[T any](schedule string, raw []byte, state *T) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return &StateError{schedule, err.Error()}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(state); err != nil {
		return &StateError{schedule, strings.TrimPrefix(err.Error(), "json: ")}
	}
	if _, err := d.Token(); err != io.EOF {
		return &StateError{schedule, "something follows it"}
	}
	want, err := json.Marshal(state)
	if err != nil {
		return &StateError{schedule, err.Error()}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(want, &fields); err != nil {
		return &StateError{schedule, err.Error()}
	}
	for name := range fields {
		if _, ok := given[name]; !ok {
			return &StateError{schedule, fmt.Sprintf("it has no %q", name)}
		}
	}
	return nil
}

// usable reports whether a saved rate is valid.
func usable(rate pyfloat.JSON) bool {
	return rate >= 0 && !math.IsInf(float64(rate), 0)
}
