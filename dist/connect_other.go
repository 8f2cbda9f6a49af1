//go:build !linux

package dist

import (
	"net"
	"time"
)

// setUserTimeout does nothing: only Linux can be told. Options.Timeout ends a call there.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
