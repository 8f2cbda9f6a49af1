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

// kindError is an error message together with its kind.
type kindError struct {
	kind error
	text string
}

func (e *kindError) Error() string { return "optim: " + e.text }
func (e *kindError) Unwrap() error { return e.kind }

func errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Sprintf(format, args...)}
}

// must returns the result of a Build. In constructors for raw training loops an error is a bug of
// the program, so it panics.
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

// setting is a number among an optimizer's settings, with its permitted range.
type setting struct {
	name  string
	value float64
	below float64 // exclusive upper limit; zero means none
}

// checkSettings returns an error for numbers that are negative, infinite, nan or beyond their
// limit.
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
