package launch

import "syscall"

// attributes puts each process into its own process group, so that Ctrl-C in a terminal reaches it
// only through the launcher, and makes the kernel send SIGTERM if the launcher is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
