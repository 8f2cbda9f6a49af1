package dist

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// dialTimeout is how long another process may take to accept a connection and to say who it is.
const dialTimeout = 10 * time.Second

// connect opens a connection to every lower rank, and takes those of the higher ones.
func (r *rendezvous) connect(ctx context.Context, members []member) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &connecting{r: r, missing: r.o.World - 1, all: make(chan struct{})}
	var work sync.WaitGroup
	for rank := range r.o.Rank {
		work.Go(func() {
			conn, err := r.dial(ctx, members[rank].Addresses)
			if err != nil {
				cancel(fmt.Errorf("rank %d: %w", rank, err))
				return
			}
			c.add(rank, conn)
		})
	}
	work.Go(func() { c.accept(ctx) })
	work.Go(func() { r.watchFailed(ctx, cancel) })
	var err error
	select {
	case <-c.all:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		err = c.without(cause)
		if _, told := errors.AsType[*reported](cause); !told {
			r.tell(ctx, "failed", failure{r.o.Rank, err.Error()})
		}
	}
	cancel(nil) // strangers that have said nothing so far
	_ = r.listener.Close()
	work.Wait()
	return err
}

// failure is why a process has given up connecting.
type failure struct {
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

// watchFailed ends the connecting when another process has given up.
func (r *rendezvous) watchFailed(ctx context.Context, cancel context.CancelCauseFunc) {
	for wait := r.pauses(); wait(ctx) == nil; {
		there, err := r.store.Has(ctx, r.key(r.nonce, "failed"))
		if err != nil { // the store of rank 0 has gone with it, or with its success
			return
		}
		if there {
			var f failure
			_, _ = r.get(ctx, r.key(r.nonce, "failed"), &f) // without it the reason is unknown
			cancel(&reported{rank: f.Rank, text: f.Text})
			return
		}
	}
}

// connecting counts the connections that are missing.
type connecting struct {
	r       *rendezvous
	mu      sync.Mutex
	missing int
	all     chan struct{} // closed when none is missing
}

func (c *connecting) add(rank int, conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.r.g.peers[rank] != nil {
		return false
	}
	c.r.g.peers[rank] = newPeer(rank, conn)
	if c.missing--; c.missing == 0 {
		close(c.all)
	}
	return true
}

// without adds to an error the ranks that there is no connection to.
func (c *connecting) without(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for rank, p := range c.r.g.peers {
		if p == nil && rank != c.r.o.Rank {
			missing = append(missing, strconv.Itoa(rank))
		}
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
			if err != nil || rank <= c.r.o.Rank || rank >= c.r.o.World || !c.add(rank, conn) {
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
	if err := r.settle(conn); err != nil {
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
	if err := r.settle(conn); err != nil {
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
func (r *rendezvous) settle(conn net.Conn) error {
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
