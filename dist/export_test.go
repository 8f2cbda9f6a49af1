package dist

// OnHost sets the host name that a process reports.
func (o *Options) OnHost(name string) { o.host = name }

// Parents returns the parent of each rank in the tree of processes on machines with these names.
func Parents(hosts ...string) []int {
	members := make([]member, len(hosts))
	for rank, h := range hosts {
		members[rank].Host = h
	}
	return parents(members)
}

// Kill closes the connections without a message, as if the process had been killed.
func (g *Group) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed != nil {
		return
	}
	g.failed = &failure{Peer: -1, err: ErrClosed} // without telling anybody
	for _, p := range g.peers() {
		_ = p.conn.Close()
	}
	close(g.done)
	close(g.closed)
}

// HoldWrites blocks all messages to the children until release is called.
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

// Failing reports whether the group has failed, even if the others have not been told yet.
func (g *Group) Failing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed != nil
}

// Connections returns the number of connections of the process.
func (g *Group) Connections() int { return len(g.peers()) }

// CallsUnderWay returns the number of calls that some, but not all, processes have made, as rank 0
// knows them.
func (g *Group) CallsUnderWay() int {
	g.coordinator.mu.Lock()
	defer g.coordinator.mu.Unlock()
	return len(g.coordinator.partial)
}
