package dist

import (
	"net"
	"time"
)

// The methods that package dist/ddp needs to run libtorch's process group among the same processes.

// Timeout returns how long a call may take: [Options].Timeout.
func (g *Group) Timeout() time.Duration { return g.timeout }

// Checked reports whether [Options].Checked is set.
func (g *Group) Checked() bool { return g.checked }

// Fake reports whether [Options].Fake is set.
func (g *Group) Fake() bool { return g.fake }

// Address returns the address under which the other processes reach this machine. If all processes
// are on one machine, it is a loopback address.
func (g *Group) Address() string { return g.AddressOf(g.rank) }

// AddressOf returns the address of the machine of the process with a given rank.
func (g *Group) AddressOf(rank int) string { return g.addresses[rank] }

// address returns the local address of this machine's connections; a loopback address if none
// leaves the machine.
func (g *Group) address() string {
	address := "127.0.0.1"
	for _, p := range g.peers() {
		address = hostOf(p.conn.LocalAddr())
		if !isLoopback(address) {
			break
		}
	}
	return address
}

// setAddresses sets the addresses of all ranks from what each process knows of its own. A process
// that knows only a loopback address is on the same machine as its parent, and gets the parent's
// address.
func (g *Group) setAddresses(own [][]byte, parentOf func(rank int) int) {
	g.addresses = make([]string, g.world)
	for rank := range own {
		at := rank
		for at > 0 && isLoopback(string(own[at])) && !isLoopback(string(own[parentOf(at)])) {
			at = parentOf(at)
		}
		g.addresses[rank] = string(own[at])
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func hostOf(a net.Addr) string {
	host, _, _ := net.SplitHostPort(a.String())
	return host
}
