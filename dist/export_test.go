package dist

// OnHost has a process say that its machine has this name.
func (o *Options) OnHost(name string) { o.host = name }

// Parents are the ranks above each in the tree of processes on machines of these names.
func Parents(hosts ...string) []int {
	members := make([]member, len(hosts))
	for rank, h := range hosts {
		members[rank].Host = h
	}
	return parents(members)
}

// Kill ends the connections as the end of the process would.
func (g *Group) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed != nil {
		return
	}
	g.failed = &failure{Peer: -1, err: ErrClosed} // it tells nobody
	for _, p := range g.peers() {
		_ = p.conn.Close()
	}
	close(g.done)
	close(g.closed)
}

// HoldWrites has nothing be sent to the children until release is called.
func (g *Group) HoldWrites() (release func()) {
	for _, p := range g.children {
		p.writing.Lock()
	}
	return func() {
		for _, p := range g.children {
			p.writing.Unlock()
		}
	}
}

// Failing reports whether the group has failed, whether the others have been told or not.
func (g *Group) Failing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed != nil
}

// Connections is how many the process has.
func (g *Group) Connections() int { return len(g.peers()) }

// CallsUnderWay is how many calls rank 0 keeps that some processes have made, and not all.
func (g *Group) CallsUnderWay() int {
	g.coordinator.mu.Lock()
	defer g.coordinator.mu.Unlock()
	return len(g.coordinator.partial)
}
