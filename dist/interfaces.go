package dist

import (
	"fmt"
	"net"
	"strings"
)

// isLocal reports whether all processes are on this machine.
func (o *Options) isLocal() bool { return o.LocalWorld == o.World }

// listenToOthers opens the port that the children in the tree connect to: on the interface that
// GLOO_SOCKET_IFNAME names, on loopback if all processes are on this machine, or else on all
// interfaces.
func (r *rendezvous) listenToOthers() (err error) {
	if r.local, err = namedInterface(r.o.Getenv("GLOO_SOCKET_IFNAME")); err != nil {
		return err
	}
	hosts := []string{""}
	switch {
	case len(r.local) > 0:
		hosts = []string{r.local[0].String()}
	case r.o.isLocal():
		hosts = []string{"127.0.0.1", "::1"} // a machine may have only one of them
	}
	for _, host := range hosts {
		if r.listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err == nil {
			return nil
		}
	}
	return fmt.Errorf("cannot listen for the other processes: %w", err)
}

// namedInterface returns the addresses of the first interface in a list, IPv4 first.
func namedInterface(list string) (ips []net.IP, err error) {
	name, _, _ := strings.Cut(list, ",") // package dist/ddp uses the first one, too
	if name == "" {
		return nil, nil
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		var have []string
		if all, err := net.Interfaces(); err == nil {
			for _, i := range all {
				have = append(have, i.Name)
			}
		}
		return nil, fmt.Errorf("GLOO_SOCKET_IFNAME names the network interface %q, and this machine has %s: %w", name,
			strings.Join(have, ", "), err)
	}
	addresses, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("the addresses of the network interface %s: %w", name, err)
	}
	var six []net.IP
	for _, a := range addresses {
		switch n, ok := a.(*net.IPNet); {
		case !ok || n.IP.IsLinkLocalUnicast():
		case n.IP.To4() != nil:
			ips = append(ips, n.IP)
		default:
			six = append(six, n.IP)
		}
	}
	if ips = append(ips, six...); len(ips) == 0 {
		return nil, fmt.Errorf("GLOO_SOCKET_IFNAME names the network interface %s, which has no address", name)
	}
	return ips, nil
}

// addresses returns where the listener can be reached, most likely first: the address it listens on
// if it is a specific one; otherwise the local address of the connection to the store, followed by
// those of the interfaces if that is loopback.
func (r *rendezvous) addresses() []string {
	at := r.listener.Addr().(*net.TCPAddr)
	_, port, _ := net.SplitHostPort(at.String())
	if !at.IP.IsUnspecified() {
		return []string{at.String()}
	}
	host := hostOf(r.store.LocalAddr())
	hosts := []string{host}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() { // useless to processes on other machines
		if all, err := net.InterfaceAddrs(); err == nil {
			for _, a := range all {
				if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
					hosts = append(hosts, n.IP.String())
				}
			}
		}
	}
	var out []string
	for _, h := range hosts {
		out = append(out, net.JoinHostPort(h, port))
	}
	return out
}

// dialer connects from the interface that GLOO_SOCKET_IFNAME names, if that has an address of the
// same family (IPv4 or IPv6) as the destination.
func (r *rendezvous) dialer(address string) *net.Dialer {
	d := &net.Dialer{Timeout: dialTimeout}
	host, _, _ := net.SplitHostPort(address)
	other := net.ParseIP(host)
	for _, ip := range r.local {
		if other != nil && (ip.To4() == nil) == (other.To4() == nil) {
			d.LocalAddr = &net.TCPAddr{IP: ip}
			break
		}
	}
	return d
}
