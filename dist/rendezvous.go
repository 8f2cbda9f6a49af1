package dist

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

// Init joins the group of the processes that were started together, and returns when all are there.
// A process that was started alone is a group of one.
func Init(ctx context.Context, o Options) (*Group, error) {
	o, err := o.resolved()
	if err != nil {
		return nil, err
	}
	g := &Group{rank: o.Rank, localRank: o.LocalRank, world: o.World, timeout: o.JoinTimeout,
		peers: make([]*peer, o.World), done: make(chan struct{})}
	if o.World == 1 {
		return g, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.JoinTimeout,
		fmt.Errorf("not all have arrived within dist.Options.JoinTimeout, %s", o.JoinTimeout))
	defer cancel()
	r := &rendezvous{o: o, g: g}
	if err := r.join(ctx); err != nil {
		for _, p := range g.peers {
			if p != nil {
				_ = p.conn.Close()
			}
		}
		return nil, fmt.Errorf("dist: rank %d of %d cannot join at %s: %w", o.Rank, o.World, o.Address, err)
	}
	g.timeout = o.Timeout
	return g, nil
}

// rendezvous is a group that comes together.
type rendezvous struct {
	o        Options
	g        *Group
	store    *tcpstore.Client
	listener net.Listener
	token    string // that of rank 0: connections of other groups do not have it
}

// member is what a process tells of itself in the store.
type member struct {
	World     int      `json:"world"`
	Addresses []string `json:"addresses"`
	Token     string   `json:"token"`
}

func (r *rendezvous) key(what string, rank int) string {
	return "gotrainer/" + r.o.Name + "/" + what + "/" + strconv.Itoa(rank)
}

func (r *rendezvous) join(ctx context.Context) (err error) {
	if !r.o.Store && r.o.Rank == 0 {
		server, listenErr := r.listen()
		if listenErr != nil {
			return listenErr
		}
		defer func() { // everybody has what it needs by then: see the barrier below
			if err != nil {
				time.Sleep(patience) // the others shall read why
			}
			_ = server.Close()
		}()
	}
	if r.store, err = tcpstore.Dial(ctx, r.o.Address); err != nil {
		return err
	}
	defer func() { _ = r.store.Close() }()
	if r.listener, err = net.Listen("tcp", r.meshAddress()); err != nil {
		return err
	}
	defer func() { _ = r.listener.Close() }()
	members, err := r.meet(ctx)
	if err != nil {
		return r.whoIsMissing(ctx, err)
	}
	if err := r.connect(ctx, members); err != nil {
		return err
	}
	for _, p := range r.g.peers {
		if p != nil {
			go p.read(r.g) // until the connection ends, which Close sees to
		}
	}
	return r.g.Barrier(ctx)
}

// listen opens the store of a group that has none. What is meant for this machine alone is not
// shown to others.
func (r *rendezvous) listen() (*tcpstore.Server, error) {
	host, port, _ := net.SplitHostPort(r.o.Address)
	if !isLoopback(host) {
		host = ""
	}
	s, err := tcpstore.Listen(net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("rank 0 must listen there, but port %s is taken: by another run, perhaps; choose "+
			"another MASTER_PORT: %w", port, err)
	}
	return s, err
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *rendezvous) meshAddress() string {
	if host, _, _ := net.SplitHostPort(r.o.Address); isLoopback(host) {
		return net.JoinHostPort(host, "0")
	}
	return ":0"
}

// meet tells the others where this process listens, and returns where they do.
func (r *rendezvous) meet(ctx context.Context) ([]member, error) {
	n, err := r.store.Add(ctx, r.key("claim", r.o.Rank), 1)
	if err != nil {
		return nil, err
	}
	if n != 1 {
		return nil, fmt.Errorf("another process there says that it is rank %d: is another run using this port, or is "+
			"RANK the same for two processes?", r.o.Rank)
	}
	token := make([]byte, 16)
	rand.Read(token) //nolint:errcheck // it never fails
	me := member{World: r.o.World, Addresses: r.addresses(), Token: hex.EncodeToString(token)}
	text, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	if err := r.store.Set(ctx, r.key("rank", r.o.Rank), text); err != nil {
		return nil, err
	}
	members := make([]member, r.o.World)
	for rank := range members {
		text, err := r.store.Get(ctx, r.key("rank", rank))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &members[rank]); err != nil {
			return nil, fmt.Errorf("what rank %d has left in the store: %w", rank, err)
		}
		if w := members[rank].World; w != r.o.World {
			return nil, fmt.Errorf("rank %d was started as one of %d processes, this one as one of %d: WORLD_SIZE "+
				"must be the same for all", rank, w, r.o.World)
		}
	}
	r.token = members[0].Token
	return members, nil
}

// whoIsMissing adds to an error the ranks that have not come.
func (r *rendezvous) whoIsMissing(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	store, dialErr := tcpstore.Dial(ctx, r.o.Address)
	if dialErr != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	var missing []string
	for rank := range r.o.World {
		if here, askErr := store.Has(ctx, r.key("rank", rank)); askErr == nil && !here {
			missing = append(missing, strconv.Itoa(rank))
		}
	}
	if len(missing) == 0 {
		return err
	}
	return fmt.Errorf("of ranks 0 to %d there is no sign of %s: %w", r.o.World-1, strings.Join(missing, ", "), err)
}

// addresses are where the listener can be reached, the likeliest first: the address by which the
// store is reached, then those of the interfaces.
func (r *rendezvous) addresses() []string {
	_, port, _ := net.SplitHostPort(r.listener.Addr().String())
	host, _, _ := net.SplitHostPort(r.store.LocalAddr().String())
	hosts := []string{host}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() { // others on another machine need another one
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

// connect opens a connection to every lower rank, and takes those of the higher ones.
func (r *rendezvous) connect(ctx context.Context, members []member) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = r.listener.Close() })
	defer stop()
	var work sync.WaitGroup
	var mu sync.Mutex
	add := func(rank int, conn net.Conn) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.g.peers[rank] != nil {
			return false
		}
		r.g.peers[rank] = newPeer(rank, conn)
		return true
	}
	for rank := range r.o.Rank {
		work.Go(func() {
			conn, err := r.dial(ctx, members[rank].Addresses)
			if err != nil {
				cancel(fmt.Errorf("rank %d: %w", rank, err))
				return
			}
			add(rank, conn)
		})
	}
	work.Go(func() {
		for missing := r.o.World - 1 - r.o.Rank; missing > 0; {
			conn, err := r.listener.Accept()
			if err != nil {
				cancel(fmt.Errorf("waiting for the connections of %d more processes: %w", missing, err))
				return
			}
			rank, err := r.greet(ctx, conn)
			if err != nil || rank <= r.o.Rank || rank >= r.o.World || !add(rank, conn) {
				_ = conn.Close() // a stranger
				continue
			}
			missing--
		}
	})
	work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
