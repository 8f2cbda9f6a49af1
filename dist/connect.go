package dist

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// dialTimeout is how long another process may take to accept a connection and to say who it is.
const dialTimeout = 10 * time.Second

// parents are the processes above each in the tree, by rank: the lowest rank of the same machine, and
// of those rank 0. That of rank 0 is itself.
func parents(members []member) []int {
	first := map[string]int{}
	of := make([]int, len(members))
	for rank, m := range members {
		if m.Host == "" {
			continue
		}
		if lowest, ok := first[m.Host]; ok {
			of[rank] = lowest
		} else {
			first[m.Host] = rank
		}
	}
	return of
}

// connect opens a connection to the process above in the tree, and takes those of the ones below.
func (r *rendezvous) connect(joining context.Context, members []member) error {
	ctx, cancel := context.WithCancelCause(joining)
	defer cancel(nil)
	above := parents(members)
	c := &connecting{r: r, missing: map[int]bool{}, all: make(chan struct{})}
	for rank := 1; rank < r.o.World; rank++ {
		if above[rank] == r.o.Rank {
			c.missing[rank] = true
		}
	}
	var work sync.WaitGroup
	if r.o.Rank > 0 {
		parent := above[r.o.Rank]
		c.missing[parent] = true
		work.Go(func() {
			conn, err := r.dial(ctx, members[parent].Addresses)
			if err != nil {
				cancel(fmt.Errorf("rank %d: %w", parent, err))
				return
			}
			c.add(parent, conn)
		})
	}
	// the processes below are cut off only once they can read why
	accepting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	work.Go(func() { c.accept(accepting) })
	work.Go(func() { r.watchFailed(ctx, joining, cancel) })
	var err error
	select {
	case <-c.all:
	case <-ctx.Done():
		err = context.Cause(ctx)
		if _, told := errors.AsType[*reported](err); told {
			break
		}
		if told := r.reportedFailureNow(ctx); told != nil { // which is why there is no connection with it
			err = told
			break
		}
		err = c.withMissing(err)
		r.withFreshStore(ctx, func(ctx context.Context, r *rendezvous) {
			failed := r.key(r.nonce, "failed")
			_ = r.put(ctx, failed, gaveUp{r.o.Rank, err.Error()})
			_, _ = r.store.Has(ctx, failed) // the store does not answer a put; now it has the reason
		})
	}
	cancel(nil)
	stop() // strangers that have said nothing so far
	_ = r.listener.Close()
	if err != nil {
		_ = r.store.Close() // nobody asks it any more
	}
	work.Wait()
	return err
}

// meet returns when all have their connections, and knows the addresses of all then.
func (r *rendezvous) meet(ctx context.Context, members []member) error {
	for _, p := range r.g.peers() {
		go p.read(r.g) // until the connection ends, which Close sees to
	}
	own, err := r.g.AllGather(ctx, []byte(r.g.address()))
	if err != nil { // another process may have said why it has given up
		return cmp.Or(r.reportedFailureNow(ctx), err)
	}
	above := parents(members)
	r.g.setAddresses(own, func(rank int) int { return above[rank] })
	return nil
}

// gaveUp is why a process has given up connecting.
type gaveUp struct {
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

// reportedFailure is the reason of another process that has given up; nil: none has.
func (r *rendezvous) reportedFailure(ctx context.Context) error {
	var f gaveUp
	if there, err := r.get(ctx, r.key(r.nonce, "failed"), &f); err != nil || !there {
		return nil // the store of rank 0 has gone with it, or with its success
	}
	return &reported{rank: f.Rank, text: f.Text}
}

// reportedFailureNow is reportedFailure when the time to join is over, or the connection to the store was cut short.
func (r *rendezvous) reportedFailureNow(ctx context.Context) (err error) {
	r.withFreshStore(ctx, func(ctx context.Context, r *rendezvous) { err = r.reportedFailure(ctx) })
	return err
}

// watchFailed ends the connecting when another process has given up, and returns when ctx has
// ended. A question that is under way then is not cut short: the connection to the store is needed
// later.
func (r *rendezvous) watchFailed(ctx, joining context.Context, cancel context.CancelCauseFunc) {
	for wait := r.pauses(); wait(ctx) == nil; {
		if err := r.reportedFailure(joining); err != nil {
			cancel(err)
			return
		}
	}
}

// connecting has the connections that are missing.
type connecting struct {
	r       *rendezvous
	mu      sync.Mutex
	missing map[int]bool  // by rank
	all     chan struct{} // closed when none is missing
}

// add keeps a connection, unless there is none to be with that process.
func (c *connecting) add(rank int, conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.missing[rank] {
		return false
	}
	delete(c.missing, rank)
	if g, p := c.r.g, newPeer(rank, conn); rank < c.r.o.Rank {
		g.parent = p
	} else {
		g.children = append(g.children, p)
	}
	if len(c.missing) == 0 {
		close(c.all)
	}
	return true
}

// without adds to an error the ranks that there is no connection to.
func (c *connecting) withMissing(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, rank := range slices.Sorted(maps.Keys(c.missing)) {
		missing = append(missing, strconv.Itoa(rank))
	}
	return fmt.Errorf("all have come, but there is no connection with %s: %w", strings.Join(missing, ", "), err)
}

// accept takes connections until the listener is closed. Each has its time to say who it is:
// strangers keep nobody waiting.
func (c *connecting) accept(ctx context.Context) {
	var greetings sync.WaitGroup
	defer greetings.Wait()
	for {
		conn, err := c.r.listener.Accept()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil { // too many open files, which pass
			time.Sleep(20 * time.Millisecond)
			continue
		}
		greetings.Go(func() {
			rank, err := c.r.greet(ctx, conn)
			if err != nil || rank <= c.r.o.Rank || !c.add(rank, conn) {
				_ = conn.Close() // a stranger
			}
		})
	}
}

// dial connects to a process at the first of its addresses that has the nonce of the round.
func (r *rendezvous) dial(ctx context.Context, addresses []string) (net.Conn, error) {
	var errs []error
	for _, a := range addresses {
		conn, err := r.dialer(a).DialContext(ctx, "tcp", a)
		if err == nil {
			if err = r.introduce(ctx, conn); err == nil {
				return conn, nil
			}
			_ = conn.Close()
			err = fmt.Errorf("%s does not answer as one of this group: %w", a, err)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// introduce sends the nonce and the rank, and waits for the nonce to come back.
func (r *rendezvous) introduce(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := r.setKeepAlive(conn); err != nil {
		return err
	}
	if _, err := conn.Write(binary.LittleEndian.AppendUint32([]byte(r.nonce), uint32(r.o.Rank))); err != nil {
		return err
	}
	return r.readNonce(conn)
}

// greet returns the rank of a process that has introduced itself.
func (r *rendezvous) greet(ctx context.Context, conn net.Conn) (rank int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// a stranger that says nothing must not keep the others waiting
	_ = conn.SetReadDeadline(time.Now().Add(dialTimeout))
	if err := r.setKeepAlive(conn); err != nil {
		return 0, err
	}
	if err := r.readNonce(conn); err != nil {
		return 0, err
	}
	var b [4]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return 0, err
	}
	if _, err := conn.Write([]byte(r.nonce)); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return int(binary.LittleEndian.Uint32(b[:])), conn.SetReadDeadline(time.Time{})
}

func (r *rendezvous) readNonce(conn net.Conn) error {
	b := make([]byte, len(r.nonce))
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	if string(b) != r.nonce {
		return errors.New("it belongs to another group")
	}
	return nil
}

// settle has the system notice when the other machine is gone.
func (r *rendezvous) setKeepAlive(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	patience := r.o.PeerTimeout
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: max(time.Second, patience/2),
		Interval: max(time.Second, patience/6), Count: 3})
	if err != nil {
		return err
	}
	return setUserTimeout(tcp, patience)
}
