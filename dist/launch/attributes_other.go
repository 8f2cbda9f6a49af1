//go:build !unix

package launch

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
