package optim

import (
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// The kinds of error that Build and LoadState report, for errors.Is.
var (
	ErrOption = errors.New("optimizer setting not allowed")
	ErrParam  = errors.New("parameter cannot be trained")
	ErrState  = errors.New("optimizer state does not fit")
)

// kindError is a sentence and the kind of error that it is.
type kindError struct {
	kind error
	text string
}

func (e *kindError) Error() string { return "optim: " + e.text }
func (e *kindError) Unwrap() error { return e.kind }

func errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Sprintf(format, args...)}
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

// setting is a number of the settings with the range that it must be in.
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
			return errorf(ErrOption, "%s.%s is %g; want 0 <= %s < %g", optimizer, s.name, s.value, s.name, s.below)
		case !(s.value >= 0) || math.IsInf(s.value, 0):
			return errorf(ErrOption, "%s.%s is %g; want a finite number that is not negative", optimizer, s.name,
				s.value)
		}
	}
	return nil
}
