package dist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

// Split divides the processes of g into groups, as MPI_Comm_split does, or
// torch.distributed.new_group for all groups at once. Processes with the same color form a group,
// in the order of their ranks; in each group, ranks start at 0. All processes of g must call it.
// The groups have their own connections and timeouts and may be used alongside g. They end with
// it.
func Split(ctx context.Context, g *Group, color int) (*Group, error) {
	if color < 0 {
		return nil, fmt.Errorf("dist: Split: the color is %d; want 0 or more, the same for all processes of "+
			"a group", color)
	}
	if g.World() == 1 {
		return Init(ctx, Options{World: 1})
	}
	if g.fake {
		return nil, errors.New("dist: Split: the group is fake (dist.Options.Fake): nobody knows which colors its others " +
			"would give; make a fake group of the size instead")
	}
	colors, err := gather(ctx, g, color)
	if err != nil {
		return nil, err
	}
	o := Options{Name: "split", Store: true, JoinTimeout: time.Minute, Timeout: g.timeout, Checked: g.checked}
	first, ranks := -1, []string{}
	for rank, c := range colors {
		if c != color {
			continue
		}
		if first < 0 {
			first = rank
		}
		if rank == g.rank {
			o.Rank = o.World
		}
		o.World++
		ranks = append(ranks, strconv.Itoa(rank))
	}
	address := g.Address()
	if ip := net.ParseIP(address); ip == nil || !ip.IsLoopback() {
		address = "" // all interfaces
	} else {
		o.LocalRank, o.LocalWorld = o.Rank, o.World
	}
	var mine struct{ Port, Error string } // the store that the first rank of the group opens
	var store *tcpstore.Server
	if first == g.rank && o.World > 1 {
		if store, err = tcpstore.Listen(net.JoinHostPort(address, "0")); err != nil {
			mine.Error = fmt.Sprintf("rank %d cannot listen for the others: %v", g.rank, err)
		} else {
			defer func() { _ = store.Close() }() // all processes have joined by then
			_, mine.Port, _ = net.SplitHostPort(store.Addr().String())
		}
	}
	all, err := gather(ctx, g, mine)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if a.Error != "" {
			return nil, errors.New("dist: Split: " + a.Error)
		}
	}
	o.Address = net.JoinHostPort(g.AddressOf(first), all[first].Port)
	sub, err := Init(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("dist: Split: the group of ranks %s: %w", strings.Join(ranks, ", "), err)
	}
	sub.localRank, sub.part = g.localRank, "the group of ranks "+strings.Join(ranks, ", ")
	go func() {
		select {
		case <-g.Done():
			sub.leave(g.Err())
		case <-sub.Done():
		}
	}()
	return sub, nil
}

// gather returns the values of all processes, by rank.
func gather[T any](ctx context.Context, g *Group, mine T) ([]T, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("dist: %w", err)
	}
	parts, err := g.AllGather(ctx, text)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(parts))
	for rank, part := range parts {
		if err := json.Unmarshal(part, &all[rank]); err != nil {
			g.abort(&failure{Peer: rank, err: fmt.Errorf("%w: %w", ErrMismatch, err)}, nil)
			return nil, g.failure("Split")
		}
	}
	return all, nil
}

// Mesh arranges processes in a grid of replicas x shards, as init_device_mesh of torch.distributed
// does: rank r is shard r%shards of replica r/shards.
type Mesh struct {
	Replicate *Group // the processes with the same shard, one from each replica
	Shard     *Group // the processes of one replica, each with one shard
}

// NewMesh divides the processes of g into replicas with the given number of shards. All processes
// must call it.
func NewMesh(ctx context.Context, g *Group, shards int) (*Mesh, error) {
	if shards < 1 || g.World()%shards != 0 {
		return nil, fmt.Errorf("dist: NewMesh: %d processes cannot be divided into replicas of %d", g.World(), shards)
	}
	var m Mesh
	var err error
	if m.Shard, err = Split(ctx, g, g.Rank()/shards); err != nil {
		return nil, err
	}
	if m.Replicate, err = Split(ctx, g, g.Rank()%shards); err != nil {
		return nil, errors.Join(err, m.Shard.Close())
	}
	return &m, nil
}

// Close leaves both groups.
func (m *Mesh) Close() error { return errors.Join(m.Replicate.Close(), m.Shard.Close()) }
