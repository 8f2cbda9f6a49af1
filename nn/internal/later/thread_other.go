//go:build !linux

package later

// thread returns 0 for every thread, so no other goroutine may create models while one is inside
// Defer.
func thread() int { return 0 }
