//go:build !linux

package dist

import (
	"net"
	"time"
)

// setUserTimeout does nothing: TCP_USER_TIMEOUT exists only on Linux. Elsewhere, Options.Timeout
// ends the call.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
