package dist

import (
	"net"
	"syscall"
	"time"
)

// setUserTimeout bounds how long what was sent may stay without an answer of the other machine:
// TCP_USER_TIMEOUT. Keepalive does not see to it while something is on its way.
func setUserTimeout(conn *net.TCPConn, d time.Duration) error {
	const tcpUserTimeout = 18
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = raw.Control(func(fd uintptr) {
		setErr = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return setErr
}
