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

// replicate sets the groups from Options.Mesh.
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

// broadcastParts copies the parts of the units from the first replica to the others.
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

// ofReplica makes a part empty except on the first replica, so that it is written only once.
func (m *Model) ofReplica(s tensorPart) tensorPart {
	if m.replicaPeers != nil && m.replicaPeers.Rank() > 0 {
		s.tensor = s.tensor.Narrow(0, 0, 0)
	}
	return s
}

// newMesh divides the processes into replicas; it returns nil if there is only one.
func newMesh(ctx context.Context, g *dist.Group, replicas int) (*dist.Mesh, error) {
	if replicas == OnePerMachine {
		first := []int64{0} // number of processes that are the first on their machine
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
