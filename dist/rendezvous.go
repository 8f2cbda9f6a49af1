package dist

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

// Init joins the group of the processes that were started together, and returns when all have
// joined. A process that was started alone is a group of one.
func Init(ctx context.Context, o Options) (*Group, error) {
	o, err := o.resolved()
	if err != nil {
		return nil, err
	}
	g := newGroup(o.Rank, o.LocalRank, o.World, o.JoinTimeout)
	g.checked, g.fake = o.Checked, o.Fake
	if o.World == 1 {
		return g, nil
	}
	if o.Fake {
		g.timeout, g.addresses = o.Timeout, slices.Repeat([]string{"127.0.0.1"}, o.World)
		return g, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.JoinTimeout,
		fmt.Errorf("not all have arrived within dist.Options.JoinTimeout, %s", o.JoinTimeout))
	defer cancel()
	r := &rendezvous{o: o, g: g}
	if err := r.join(ctx); err != nil {
		for _, p := range g.peers() {
			_ = p.conn.Close()
		}
		return nil, fmt.Errorf("dist: rank %d of %d cannot join at %s: %w", o.Rank, o.World, o.Address, err)
	}
	g.timeout = o.Timeout
	return g, nil
}

// rendezvous joins the processes into a group.
//
// The store may outlive a group, as torchrun's does when it restarts the processes, so it may hold
// entries of processes that have ended. Rank 0 therefore begins a round with a fresh nonce, which
// is part of all keys of that round. Each other process writes its own fresh ID into the newest
// round. When all have done so, rank 0 publishes the roster of the round; a process accepts only a
// roster that contains its own ID.
type rendezvous struct {
	o        Options
	g        *Group
	store    *tcpstore.Client
	listener net.Listener
	local    []net.IP // of the interface in GLOO_SOCKET_IFNAME; empty: any
	me       member
	nonce    string // of the round that this process has entered; empty: none yet
	stale    bool   // the roster of this round does not list this process: wait for a newer round
}

// round is published by rank 0 to begin a round.
type round struct {
	Nonce string `json:"nonce"`
	World int    `json:"world"`
}

// member is what a process publishes about itself.
type member struct {
	ID        string   `json:"id"`
	Rank      int      `json:"rank"`
	World     int      `json:"world"`
	Host      string   `json:"host"` // host name; empty: unknown
	Addresses []string `json:"addresses"`
}

// roster ends a round, with the members by rank, or with the reason why joining failed, addressed
// to the members that had arrived.
type roster struct {
	Members []member `json:"members,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// errTaken is the error of a process whose rank another process has taken.
func (r *rendezvous) errTaken() error {
	return fmt.Errorf("another process there says that it is rank %d: is another run using this port, or is RANK the "+
		"same for two processes?", r.o.Rank)
}

// key returns the full name of a key in the store.
func (r *rendezvous) key(parts ...string) string {
	return "gotrainer/" + r.o.job + "/" + r.o.Name + "/" + strings.Join(parts, "/")
}

func (r *rendezvous) keyOf(rank int) string { return r.key(r.nonce, "rank", strconv.Itoa(rank)) }

// mismatchKey is where a process whose world size differs from rank 0's reports it: its rank may
// lie outside the round's world.
func (r *rendezvous) mismatchKey() string { return r.key(r.nonce, "mismatched") }

func (r *rendezvous) join(ctx context.Context) (err error) {
	if !r.o.Store && r.o.Rank == 0 {
		server, listenErr := r.listen()
		if listenErr != nil {
			return listenErr
		}
		defer func() { // nobody needs it any more: join returns after a barrier
			if err != nil {
				time.Sleep(patience) // let the others read why
			}
			_ = server.Close()
		}()
	}
	if r.store, err = tcpstore.Dial(ctx, r.o.Address); err != nil {
		if !r.o.Store && r.o.Rank > 0 {
			err = fmt.Errorf("%w; rank 0 opens the store there: has it started, and is MASTER_ADDR its machine?", err)
		}
		return err
	}
	defer func() { _ = r.store.Close() }()
	if err := r.listenToOthers(); err != nil {
		return err
	}
	defer func() { _ = r.listener.Close() }()
	r.me = member{ID: rand.Text(), Rank: r.o.Rank, World: r.o.World, Host: r.o.hostname(), Addresses: r.addresses()}
	var members []member
	if r.o.Rank == 0 {
		members, err = r.lead(ctx)
	} else if members, err = r.follow(ctx); err != nil && ctx.Err() != nil {
		err = r.whoIsMissing(ctx, context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	if err := r.connect(ctx, members); err != nil {
		return err
	}
	if err := r.meet(ctx, members); err != nil {
		return err
	}
	if r.o.Rank > 0 && !r.o.Store {
		return r.store.WaitClosed(ctx) // or this process's next group could meet in the old store
	}
	return nil
}

// listen opens the store if no launcher serves one. It listens on all interfaces unless all
// processes are on this machine: the address in Options may be a loopback name of this machine.
func (r *rendezvous) listen() (*tcpstore.Server, error) {
	host, port, _ := net.SplitHostPort(r.o.Address)
	if !r.o.isLocal() {
		host = ""
	}
	s, err := tcpstore.Listen(net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRNOTAVAIL) { // a virtual address, such as that of a Kubernetes service
		s, err = tcpstore.Listen(net.JoinHostPort("", port))
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("rank 0 must listen there, but port %s is taken: by another run, perhaps; choose "+
			"another MASTER_PORT: %w", port, err)
	}
	return s, err
}

// lead is the part of rank 0: it begins a round, waits for all processes, and publishes the roster.
func (r *rendezvous) lead(ctx context.Context) ([]member, error) {
	r.nonce = rand.Text()
	if err := r.put(ctx, r.key("round"), round{r.nonce, r.o.World}); err != nil {
		return nil, err
	}
	members, err := r.gather(ctx)
	if err == nil {
		return members, r.put(ctx, r.key(r.nonce, "roster"), roster{Members: members})
	}
	if ctx.Err() != nil {
		err = r.whoIsMissing(ctx, context.Cause(ctx))
	}
	r.withFreshStore(ctx, func(ctx context.Context, r *rendezvous) { // others may have longer time limits
		_ = r.put(ctx, r.key(r.nonce, "roster"), roster{Members: r.present(ctx), Error: err.Error()})
	})
	return nil, err
}

// withFreshStore runs f with a new connection to the store, for up to two seconds: a connection on
// which a wait was cut short cannot be used any more. It does nothing if the store is gone.
func (r *rendezvous) withFreshStore(ctx context.Context, f func(ctx context.Context, r *rendezvous)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	store, err := tcpstore.Dial(ctx, r.o.Address)
	if err != nil {
		return // the others end by their own time limits
	}
	defer func() { _ = store.Close() }()
	f(ctx, &rendezvous{o: r.o, me: r.me, nonce: r.nonce, store: store})
}

// present returns the members that have entered the round, including one with another world size.
func (r *rendezvous) present(ctx context.Context) (all []member) {
	keys := []string{r.mismatchKey()}
	for rank := 1; rank < r.o.World; rank++ {
		keys = append(keys, r.keyOf(rank))
	}
	for _, key := range keys {
		var m member
		if here, err := r.get(ctx, key, &m); err == nil && here {
			all = append(all, m)
		}
	}
	return all
}

// gather waits until all processes have entered the round.
func (r *rendezvous) gather(ctx context.Context) ([]member, error) {
	members := make([]member, r.o.World)
	members[0] = r.me
	var current round
	var other member
	for rank := 1; rank < r.o.World; rank++ {
		for wait := r.pauses(); ; {
			here, err := r.get(ctx, r.keyOf(rank), &members[rank])
			if err != nil {
				return nil, err
			}
			if here {
				break
			}
			if _, err := r.get(ctx, r.key("round"), &current); err != nil {
				return nil, err
			}
			if current.Nonce != r.nonce {
				return nil, r.errTaken()
			}
			if odd, err := r.get(ctx, r.mismatchKey(), &other); err != nil || odd {
				return nil, errors.Join(err, otherWorld(r.me, other))
			}
			if err := wait(ctx); err != nil {
				return nil, err
			}
		}
		if members[rank].World != r.o.World {
			return nil, otherWorld(r.me, members[rank])
		}
	}
	return members, nil
}

func otherWorld(a, b member) error {
	return fmt.Errorf("rank %d was started as one of %d processes, rank %d as one of %d: WORLD_SIZE must be the same "+
		"for all", a.Rank, a.World, b.Rank, b.World)
}

// follow is the part of the other ranks: they write their IDs into the newest round until a roster
// lists them.
func (r *rendezvous) follow(ctx context.Context) ([]member, error) {
	text, err := json.Marshal(r.me)
	if err != nil {
		return nil, err
	}
	if _, err := r.store.Get(ctx, r.key("round")); err != nil { // waits until the key exists
		return nil, err
	}
	var newest round
	for wait := r.pauses(); ; {
		if _, err := r.get(ctx, r.key("round"), &newest); err != nil {
			return nil, err
		}
		var members []member
		if newest.Nonce != r.nonce {
			err = r.enter(ctx, newest, text)
		} else if !r.stale {
			members, err = r.accept(ctx, text)
		}
		if err != nil || members != nil {
			return members, err
		}
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
}

// enter writes this process's ID into a round, unless the round has ended: then it belongs to an
// earlier start.
func (r *rendezvous) enter(ctx context.Context, newest round, text []byte) error {
	r.nonce = newest.Nonce
	ended, err := r.store.Has(ctx, r.key(r.nonce, "roster"))
	if err != nil {
		return err
	}
	if r.stale = ended && r.o.Store; r.stale { // a store served by rank 0 holds only the current round
		return nil
	}
	if newest.World != r.o.World {
		if err := r.store.Set(ctx, r.mismatchKey(), text); err != nil {
			return err
		}
	}
	return r.store.Set(ctx, r.keyOf(r.o.Rank), text)
}

// accept returns the members once the roster has been published and lists this process.
func (r *rendezvous) accept(ctx context.Context, text []byte) ([]member, error) {
	mine, err := r.store.Get(ctx, r.keyOf(r.o.Rank)) // read before the roster, which may be published in between
	if err != nil {
		return nil, err
	}
	var list roster
	switch ended, err := r.get(ctx, r.key(r.nonce, "roster"), &list); {
	case err != nil:
		return nil, err
	case !ended && string(mine) != string(text):
		return nil, r.errTaken()
	case !ended:
		return nil, nil
	}
	listed := slices.ContainsFunc(list.Members, func(m member) bool { return m.ID == r.me.ID })
	switch {
	case list.Error != "" && (listed || !r.o.Store):
		return nil, fmt.Errorf("%s (reported by rank 0)", list.Error)
	case list.Error == "" && listed:
		return list.Members, nil
	case !r.o.Store:
		return nil, r.errTaken() // rank 0 serves this store, so the roster is current
	}
	r.stale = true
	return nil, nil
}

// pauses returns a function that waits between two queries of the store, longer each time.
func (r *rendezvous) pauses() func(ctx context.Context) error {
	pause, most := 2*time.Millisecond, 100*time.Millisecond+time.Duration(r.o.World)*time.Millisecond/2
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
			pause = min(most, pause*3/2)
			return nil
		}
	}
}

// put stores a value as JSON.
func (r *rendezvous) put(ctx context.Context, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return r.store.Set(ctx, key, text)
}

// get reads a JSON value, and reports whether the key exists.
func (r *rendezvous) get(ctx context.Context, key string, value any) (there bool, err error) {
	if there, err = r.store.Has(ctx, key); err != nil || !there {
		return false, err
	}
	text, err := r.store.Get(ctx, key)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return false, fmt.Errorf("the value at %q in the store is not from a gotrainer process: %w", key, err)
	}
	return true, nil
}

// whoIsMissing adds the ranks that have not arrived to the error that ended the wait.
func (r *rendezvous) whoIsMissing(ctx context.Context, err error) error {
	switch {
	case r.nonce == "":
		return fmt.Errorf("of ranks 0 to %d there is no sign of 0: %w", r.o.World-1, err)
	case r.stale:
		return fmt.Errorf("the store has the roster of an earlier start only, or of another process of rank %d: rank 0 "+
			"has not started again, or RANK is the same for two processes: %w", r.o.Rank, err)
	}
	var missing []string
	r.withFreshStore(ctx, func(ctx context.Context, r *rendezvous) {
		for rank := 1; rank < r.o.World; rank++ {
			if here, askErr := r.store.Has(ctx, r.keyOf(rank)); askErr == nil && !here {
				missing = append(missing, strconv.Itoa(rank))
			}
		}
	})
	if len(missing) == 0 {
		return err
	}
	return fmt.Errorf("of ranks 0 to %d there is no sign of %s: %w", r.o.World-1, strings.Join(missing, ", "), err)
}
