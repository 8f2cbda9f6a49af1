package shard

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// OnePerMachine means one replica of the model per machine, sharded over the processes there.
const OnePerMachine = -1

// replicate takes the groups of Options.Mesh.
func (m *Model) replicate() error {
	mesh := m.options.Mesh
	if mesh == nil {
		return nil
	}
	shards, replicas := mesh.Shard.World(), mesh.Replicate.World()
	if shards*replicas != m.group.World() || shards == 1 && replicas > 1 {
		return fmt.Errorf("shard: Options.Mesh is %d replicas of %d shards, and there are %d processes; want a mesh of "+
			"them, which dist.NewMesh makes, of at least 2 shards (dist/ddp is for replicas alone)", replicas, shards,
			m.group.World())
	}
	m.replica = mesh.Shard
	if replicas > 1 {
		m.replicaPeers = mesh.Replicate
	}
	return nil
}

// broadcastParts gives all replicas the parts of units that the first one has.
func (m *Model) broadcastParts(ctx context.Context) error {
	if m.replicaPeers == nil {
		return nil
	}
	var parts []torch.Tensor
	for _, u := range m.units() {
		for _, r := range u.rows {
			parts = append(parts, r.mine)
		}
	}
	return ddp.Broadcast(ctx, m.replicaPeers, 0, parts...)
}

// ofReplica leaves what other replicas have too to the first one to write.
func (m *Model) ofReplica(s tensorPart) tensorPart {
	if m.replicaPeers != nil && m.replicaPeers.Rank() > 0 {
		s.tensor = s.tensor.Narrow(0, 0, 0)
	}
	return s
}

// newMesh divides the processes into replicas; nil: there is one.
func newMesh(ctx context.Context, g *dist.Group, replicas int) (*dist.Mesh, error) {
	if replicas == OnePerMachine {
		first := []int64{0} // processes that are the first of their machine
		if g.LocalRank() == 0 {
			first[0] = 1
		}
		if err := dist.AllReduce(ctx, g, first, dist.Sum); err != nil {
			return nil, err
		}
		replicas = int(first[0])
	}
	if replicas <= 1 || g.World() == 1 {
		return nil, nil
	}
	if g.World()%replicas != 0 || g.World() == replicas {
		return nil, fmt.Errorf("shard: %d processes cannot be %d replicas of two shards or more each; want a divisor of "+
			"their number, or no replicas", g.World(), replicas)
	}
	return dist.NewMesh(ctx, g, g.World()/replicas)
}
