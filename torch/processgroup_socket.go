package torch

import (
	"net"

	"golang.org/x/sys/unix"
)

// takeOver duplicates the socket of the listener and closes the listener.
func takeOver(l *net.TCPListener) (socket int, err error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return -1, err
	}
	var dupErr error
	if err := raw.Control(func(fd uintptr) {
		socket, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return -1, err
	}
	if dupErr != nil {
		return -1, dupErr
	}
	return socket, l.Close()
}
