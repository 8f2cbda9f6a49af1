//go:build unix && !linux

package launch

import "syscall"

// attributes keeps a terminal's Ctrl-C from reaching the processes twice.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
