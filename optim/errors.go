package optim

import (
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// The kinds of mistake that Build and LoadState report, for errors.Is.
var (
	ErrOption = errors.New("optimizer setting not allowed")
	ErrParam  = errors.New("parameter cannot be trained")
	ErrState  = errors.New("optimizer state does not fit")
)

// mistake is an error of one kind with a sentence of its own.
type mistake struct {
	kind error
	text string
}

func (m *mistake) Error() string { return "optim: " + m.text }
func (m *mistake) Unwrap() error { return m.kind }

func mistakef(kind error, format string, args ...any) error {
	return &mistake{kind, fmt.Sprintf(format, args...)}
}

// must gives the result of a Build to a constructor of raw loops, where a mistake is one of the
// program.
func must(op string, o Optimizer, err error) Optimizer {
	if err != nil {
		code := torch.ErrInvalid
		if errors.Is(err, ErrOption) {
			code = torch.ErrValue
		}
		panic(&torch.Error{Op: op, Code: code, Msg: err.Error()})
	}
	return o
}

// setting is a number of the settings with the range that it must lie in.
type setting struct {
	name  string
	value float64
	below float64 // exclusive limit, zero: none
}

// checkSettings refuses negative, infinite and undefined numbers, and those beyond their limit.
func checkSettings(optimizer string, settings ...setting) error {
	for _, s := range settings {
		switch {
		case s.below != 0 && !(s.value >= 0 && s.value < s.below):
			return mistakef(ErrOption, "%s.%s is %g; want 0 <= %s < %g", optimizer, s.name, s.value, s.name, s.below)
		case !(s.value >= 0) || math.IsInf(s.value, 0):
			return mistakef(ErrOption, "%s.%s is %g; want a finite number that is not negative", optimizer, s.name,
				s.value)
		}
	}
	return nil
}

func or(v *float64, standard float64) float64 {
	if v == nil {
		return standard
	}
	return *v
}

func orDefaultLR(lr float64) float64 { return orLR(lr, 1e-3) }

// orLR gives a rate that is left out its default.
func orLR(lr, standard float64) float64 {
	if lr == 0 {
		return standard
	}
	return lr
}
