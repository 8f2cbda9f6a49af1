package dist

import (
	"context"
	"fmt"
	"net"
	"time"
)

// What package dist/ddp needs of a [Group] to run libtorch's engine among the same processes.

// Timeout is how long a call may take: [Options].Timeout.
func (g *Group) Timeout() time.Duration { return g.timeout }

// Address is that of this machine by which the other processes reach it: a loopback address if all
// are on one machine.
func (g *Group) Address() string {
	address := "127.0.0.1"
	for _, p := range g.peers {
		if p == nil {
			continue
		}
		host := hostOf(p.conn.LocalAddr())
		if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() {
			return host
		}
		address = host
	}
	return address
}

// AddressOf is that of the machine of another process; of this one it is Address.
func (g *Group) AddressOf(rank int) string {
	if rank == g.Rank() {
		return g.Address()
	}
	return hostOf(g.peers[rank].conn.RemoteAddr())
}

func hostOf(a net.Addr) string {
	host, _, _ := net.SplitHostPort(a.String())
	return host
}

// Agree returns when all processes have called it with the same text, which says what they do next.
// Where they differ, the group fails with [ErrMismatch] and both texts.
func (g *Group) Agree(ctx context.Context, next string) error {
	all, err := g.AllGather(ctx, []byte(next))
	if err != nil {
		return err
	}
	for rank, text := range all {
		if string(text) != next {
			e := &Error{Call: next, Rank: g.Rank(), Peer: rank, Err: fmt.Errorf("%w: it is in %s", ErrMismatch, text)}
			g.abort(e, nil)
			return e
		}
	}
	return nil
}

// Fail ends the group for an error in a call that went past it, and returns the first reason that
// any process has had, as an error of this call: where a process is gone, both engines notice, and
// the group knows which one it was.
func (g *Group) Fail(call string, err error) error {
	select {
	case <-g.Done():
	case <-time.After(time.Second):
		e := &Error{Call: call, Rank: g.Rank(), Peer: -1, Err: err}
		if rank := g.whoLeft(); rank >= 0 {
			e.Peer, e.PeerCall, e.Err = rank, g.peers[rank].lastCall(), fmt.Errorf("%w (%w)", ErrPeerLeft, err)
		}
		g.abort(e, nil)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e := *g.failed
	e.Call = call
	return &e
}

// Left is closed when a process has closed its group. What it has sent before may still be on its
// way, so calls that began earlier may come to their end.
func (g *Group) Left() <-chan struct{} { return g.left }

// whoLeft is the first process that has closed its group; -1: none has.
func (g *Group) whoLeft() int {
	for rank, p := range g.peers {
		if p == nil {
			continue
		}
		select {
		case <-p.ended:
			return rank
		default:
		}
	}
	return -1
}
