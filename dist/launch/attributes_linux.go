package launch

import "syscall"

// attributes keeps a terminal's Ctrl-C from reaching the processes twice, and has the system end
// them when the launcher is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
