//go:build !linux && !darwin

package checkpoint

// processLives cannot be determined here; the age of the heartbeat decides.
func processLives(int) bool { return true }
