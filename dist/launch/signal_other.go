//go:build !unix

package launch

import "os"

func send(p *os.Process, s os.Signal) error { return p.Signal(s) }
