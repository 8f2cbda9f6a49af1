//go:build unix

package launch

import (
	"os"
	"syscall"
)

// send signals a process and its children, that is, its process group: see attributes.
func send(p *os.Process, s os.Signal) error {
	if n, ok := s.(syscall.Signal); ok {
		return syscall.Kill(-p.Pid, n)
	}
	return p.Signal(s)
}
