package dist

import (
	"net"
	"syscall"
	"time"
)

// setUserTimeout sets TCP_USER_TIMEOUT, which bounds how long sent data may stay unacknowledged.
// Keepalive probes are not sent while data are in flight.
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
