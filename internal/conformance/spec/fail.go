package spec

import "fmt"

// A failure inside a case ends it, as a wrong shape does in package torch: [Must], [Check] and
// [Failf] panic with an error, and [Try] around the case returns it. Functions that other code
// calls, such as callbacks, return errors instead.

// failure is the value of these panics.
type failure struct{ error }

// Must returns v, or fails with err if it is not nil.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Must2 is Must for two values.
func Must2[T, U any](v T, w U, err error) (T, U) {
	Check(err)
	return v, w
}

// Check fails with err if it is not nil.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Failf fails with a new error.
func Failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Refusef fails with an [*Unsupported].
func Refusef(format string, args ...any) { panic(failure{Unsupportedf(format, args...)}) }

// Try returns the error that run fails with.
func Try(run func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	run()
	return nil
}
