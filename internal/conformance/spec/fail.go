package spec

import "fmt"

// What fails in the middle of a case ends it, as a wrong shape does in package torch: [Must],
// [Check] and [Failf] panic with the error, and [Try] around the case returns it. Code that others
// call, such as callbacks, returns its errors instead.

// failure is what they panic with.
type failure struct{ error }

// Must returns v, or fails with err.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Must2 is Must for two values.
func Must2[T, U any](v T, w U, err error) (T, U) {
	Check(err)
	return v, w
}

// Check fails with err, if it is one.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Failf fails with a new error.
func Failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Refusef fails with an [*Unsupported].
func Refusef(format string, args ...any) { panic(failure{Unsupportedf(format, args...)}) }

// Try returns the error with which run failed.
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
