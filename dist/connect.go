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

// parents returns the parent of each rank in the tree: the lowest rank on the same machine, or rank
// 0 if the process is itself the lowest there. Rank 0 is its own parent.
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

// connect dials the parent in the tree and accepts the connections of the children.
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
	// Children keep their connections until this process has published why it gives up.
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
		if told := r.reportedFailureNow(ctx); told != nil { // its failure is why it cannot be reached
			err = told
			break
		}
		err = c.withMissing(err)
		r.withFreshStore(ctx, func(ctx context.Context, r *rendezvous) {
			failed := r.key(r.nonce, "failed")
			_ = r.put(ctx, failed, gaveUp{r.o.Rank, err.Error()})
			_, _ = r.store.Has(ctx, failed) // Set has no reply; once the store answers this, it has the reason
		})
	}
	cancel(nil)
	stop() // drop connections that have not introduced themselves
	_ = r.listener.Close()
	if err != nil {
		_ = r.store.Close() // ends any request under way in watchFailed
	}
	work.Wait()
	return err
}

// meet returns when all processes have their connections, and records everybody's address.
func (r *rendezvous) meet(ctx context.Context, members []member) error {
	for _, p := range r.g.peers() {
		go p.read(r.g) // until the connection ends; Close makes sure that it does
	}
	own, err := r.g.AllGather(ctx, []byte(r.g.address()))
	if err != nil { // another process may have said why it has given up
		return cmp.Or(r.reportedFailureNow(ctx), err)
	}
	above := parents(members)
	r.g.setAddresses(own, func(rank int) int { return above[rank] })
	return nil
}

// gaveUp says why a process has given up connecting.
type gaveUp struct {
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

// reportedFailure returns the reason why another process has given up, or nil if none has.
func (r *rendezvous) reportedFailure(ctx context.Context) error {
	var f gaveUp
	if there, err := r.get(ctx, r.key(r.nonce, "failed"), &f); err != nil || !there {
		return nil // the store is gone: rank 0 serves it, and has failed or finished
	}
	return &reported{rank: f.Rank, text: f.Text}
}

// reportedFailureNow is like reportedFailure, for use when ctx has expired or a request to the
// store was cut short: it opens its own connection.
func (r *rendezvous) reportedFailureNow(ctx context.Context) (err error) {
	r.withFreshStore(ctx, func(ctx context.Context, r *rendezvous) { err = r.reportedFailure(ctx) })
	return err
}

// watchFailed cancels connecting when another process has given up, and returns when ctx ends. It
// does not interrupt a request that is under way then, because the connection to the store is
// needed later.
func (r *rendezvous) watchFailed(ctx, joining context.Context, cancel context.CancelCauseFunc) {
	for wait := r.pauses(); wait(ctx) == nil; {
		if err := r.reportedFailure(joining); err != nil {
			cancel(err)
			return
		}
	}
}

// connecting collects the connections to the parent and the children.
type connecting struct {
	r       *rendezvous
	mu      sync.Mutex
	missing map[int]bool  // ranks still to be connected
	all     chan struct{} // closed when missing is empty
}

// add keeps the connection to a process. It reports false if that process is not a neighbour or is
// connected already.
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

// withMissing adds the ranks that are not connected to an error.
func (c *connecting) withMissing(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, rank := range slices.Sorted(maps.Keys(c.missing)) {
		missing = append(missing, strconv.Itoa(rank))
	}
	return fmt.Errorf("all have come, but there is no connection with %s: %w", strings.Join(missing, ", "), err)
}

// accept takes connections until the listener is closed. Each is greeted in its own goroutine, so
// an unrelated client that sends nothing delays nobody.
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
		if err != nil { // too many open files, for example: temporary
			time.Sleep(20 * time.Millisecond)
			continue
		}
		greetings.Go(func() {
			rank, err := c.r.greet(ctx, conn)
			if err != nil || rank <= c.r.o.Rank || !c.add(rank, conn) {
				_ = conn.Close() // not a process of this group
			}
		})
	}
}

// dial connects to a process at the first of its addresses where the nonce of the round is echoed.
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

// introduce sends the nonce and this process's rank, and waits until the nonce is echoed.
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
	// An unrelated client that sends nothing must not delay the others.
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

// setKeepAlive has the kernel detect a peer machine that has disappeared.
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
