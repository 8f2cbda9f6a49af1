package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Strategy says what is sharded over the processes.
type Strategy uint8

// The strategies: the stages 1, 2 and 3 of ZeRO, under PyTorch's names.
const (
	// ZeroRedundancyOptimizer shards the states of the optimizer.
	ZeroRedundancyOptimizer Strategy = iota + 1
	// ShardGradOp also shards gradients. They are averaged bucket by bucket, while the backward
	// pass computes the next ones, and then freed.
	ShardGradOp
	// FullShard also shards parameters, those of [Options].Units.
	FullShard
)

func (s Strategy) String() string {
	if s < ZeroRedundancyOptimizer || s > FullShard {
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
	return [...]string{"ZeroRedundancyOptimizer", "ShardGradOp", "FullShard"}[s-1]
}

// Options configures [New].
type Options struct {
	Strategy Strategy

	// Units are the units of FullShard and hold all parameters that are trained; other parameters
	// are whole on all processes. With the other strategies there are none, only nil units, whose
	// Run computes as usual.
	Units []*Unit

	// Root makes New shard the parameters outside of Units too: the root of
	// FullyShardedDataParallel. They are gathered before a forward pass and stay whole until its
	// backward pass is over, wherever the model uses them. Without Units, the root is the whole
	// model.
	Root bool

	// FindUnusedParameters allows passes in which some parameters take no part. A parameter that
	// takes part on another process counts as zeros; one that takes part on none has no gradient.
	// Without this option, a parameter without a gradient is an error, except in a unit that was
	// computed, where its gradient is zeros.
	FindUnusedParameters bool

	// Mesh makes replicas of the model, each of which is sharded over its processes: HYBRID_SHARD
	// of FullyShardedDataParallel. Gradients are averaged over all replicas. Parts are gathered
	// within a replica, whose processes are best on the same machine. Units must be made in
	// Mesh.Shard. Nil means one replica.
	Mesh *dist.Mesh

	BucketCapMB float64 // roughly how much is averaged at a time, in MiB; zero: 25
	KeepBuffers bool    // every process keeps its own buffers
}

// Model is a model that several processes train together. It is not safe for concurrent use.
type Model struct {
	group        *dist.Group
	replica      *dist.Group // the processes that shard one replica
	replicaPeers *dist.Group // the processes of other replicas that hold the same parts; nil: there is one replica
	mesh         *dist.Mesh  // closed by Close; nil: none
	options      Options
	model        any
	root         *Unit       // of Options.Root; nil: none
	background   *dist.Group // the same processes, for writes by WriteLater during training; nil: not created yet
	rows         []*flat     // the trainable parameters
	buffers      []torch.Tensor
	hooks        []*torch.PostAccumulateGradHook

	prefetcher prefetcher

	leaves   []torch.Tensor // parts of the parameters, by row; FullShard only
	averaged []torch.Tensor // parts of the averaged gradients, by row; undefined: none yet; not FullShard
	ready    []int          // number of gradients computed for each row in this pass; ShardGradOp only
	next     int            // the row to average next
	ctx      context.Context
	failed   error // the first error in a hook
	sync     bool
	synced   bool
}

// New copies the parameters and buffers of rank 0 to all processes. If their models differ, it
// fails on all of them. Parameters that are frozen at the time of the call are not trained later.
func New(ctx context.Context, g *dist.Group, model any, o Options) (m *Model, err error) {
	switch {
	case o.Strategy < ZeroRedundancyOptimizer || o.Strategy > FullShard:
		return nil, fmt.Errorf("shard: Options.Strategy is %s; want ZeroRedundancyOptimizer, ShardGradOp or FullShard",
			o.Strategy)
	case !(o.BucketCapMB >= 0):
		return nil, fmt.Errorf("shard: Options.BucketCapMB is %v; want a positive number of MiB, or 0 for 25",
			o.BucketCapMB)
	case o.Strategy == FullShard && len(o.Units) == 0 && !o.Root:
		return nil, fmt.Errorf("shard: FullShard needs Options.Units, which FullyShard makes, or Options.Root")
	case o.Root && o.Strategy != FullShard:
		return nil, fmt.Errorf("shard: Options.Root is set, but the strategy is %s; want FullShard", o.Strategy)
	}
	for i, u := range o.Units {
		if (u != nil) != (o.Strategy == FullShard) {
			return nil, fmt.Errorf("shard: Options.Units[%d] is nil: %v, but the strategy is %s; FullyShard makes units "+
				"for FullShard alone", i, u == nil, o.Strategy)
		}
	}
	m = &Model{group: g, replica: g, options: o, model: model, sync: true, synced: true, ctx: context.Background(),
		prefetcher: prefetcher{pass: &pass{}}}
	if err := m.replicate(); err != nil {
		return nil, err
	}
	if o.Root {
		if err := m.makeRoot(ctx); err != nil {
			return nil, err
		}
	}
	if err := nn.Materialize(model); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	var whole []torch.Tensor
	about := ""
	failed := torch.Try(func() { whole, about, err = m.arrange() })
	if failed != nil {
		err = fmt.Errorf("shard: %w", failed)
	}
	if err != nil {
		return nil, err
	}
	if err := ddp.SameModel(ctx, g, about); err != nil {
		return nil, err
	}
	if err := ddp.Broadcast(ctx, g, 0, append(whole, m.buffers...)...); err != nil {
		return nil, err
	}
	if err := m.broadcastParts(ctx); err != nil {
		return nil, err
	}
	if g.World() > 1 {
		p, err := ddp.ProcessGroup(ctx, g)
		if err != nil {
			return nil, err
		}
		nn.SetProcessGroup(model, p)
	}
	if err := torch.Try(m.cut); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	return m, nil
}

// arrange puts the parameters into rows. It returns the parameters that all processes hold, and a
// description of the model.
func (m *Model) arrange() (whole []torch.Tensor, about string, err error) {
	var text strings.Builder
	var params []torch.Named // trainable and held by all processes
	for _, p := range nn.Params(m.model) {
		if isFreed(p.Tensor) {
			return nil, "", fmt.Errorf("shard: parameter %s is in a unit under another name; put all modules that use a "+
				"parameter into one unit", p.Name)
		}
		fmt.Fprintf(&text, "parameter %s of %s%v, trained: %v\n", p.Name, p.Tensor.DType(), p.Tensor.Shape(),
			p.Tensor.NeedsGrad())
		whole = append(whole, p.Tensor)
		if p.Tensor.NeedsGrad() {
			params = append(params, p)
		}
	}
	for _, b := range nn.Buffers(m.model) {
		fmt.Fprintf(&text, "buffer %s of %s%v\n", b.Name, b.Tensor.DType(), b.Tensor.Shape())
		m.buffers = append(m.buffers, b.Tensor)
	}
	for _, part := range nn.LinearParts(m.model) {
		fmt.Fprintf(&text, "layer %s\n", part)
	}
	if m.options.Strategy == FullShard {
		if len(params) > 0 {
			return nil, "", fmt.Errorf("shard: parameter %s, one of %d, is trained but in no unit; FullyShard takes it, "+
				"or freeze it", params[0].Name, len(params))
		}
		err = m.nameUnits(&text)
	} else {
		err = m.fillBuckets(params)
	}
	return whole, text.String(), err
}

// nameUnits gives the parameters of units their names in the model.
func (m *Model) nameUnits(about *strings.Builder) error {
	fields, err := nn.ParamFields(m.model)
	if err != nil {
		return err
	}
	names := map[*torch.Tensor]string{}
	for _, f := range fields {
		names[f.Tensor] = f.Name
	}
	for i, u := range m.units() {
		if u.group != m.replica {
			return fmt.Errorf("shard: unit %d was made in another group than that of a replica; give FullyShard the group "+
				"of New or, with Options.Mesh, Mesh.Shard", i)
		}
		for _, r := range u.rows {
			r.replicaPeers = m.replicaPeers
			for j, p := range r.params {
				name, ok := names[r.fields[j][0]]
				if !ok {
					return fmt.Errorf("shard: %s of unit %d is no parameter of the model", p.name, i)
				}
				p.name = name
				fmt.Fprintf(about, "parameter %s of %s%v in unit %d\n", p.name, r.dtype, p.shape, i)
			}
			r.name = fmt.Sprintf("unit %d, %s and others", i, r.params[0].name)
			u.track, u.prefetcher = m.options.FindUnusedParameters, &m.prefetcher
			if r.params[0].piece.Defined() {
				m.rows, m.leaves = append(m.rows, &r.flat), append(m.leaves, r.mine)
			}
		}
	}
	return nil
}

// fillBuckets arranges whole parameters in roughly the order in which their gradients are computed:
// in reverse.
func (m *Model) fillBuckets(params []torch.Named) error {
	limit := int64(m.options.BucketCapMB * (1 << 20))
	if limit == 0 {
		limit = 25 << 20
	}
	open := map[string]*flat{}
	for _, p := range slices.Backward(params) {
		t := p.Tensor
		if !t.IsContiguous() {
			return fmt.Errorf("shard: parameter %s is not contiguous; %s needs parameters that are", p.Name,
				m.options.Strategy)
		}
		key := fmt.Sprint(t.DType(), t.Device())
		f := open[key]
		if f == nil || (f.params[len(f.params)-1].at+f.params[len(f.params)-1].numel)*t.DType().Size() >= limit {
			f = &flat{group: m.replica, replicaPeers: m.replicaPeers,
				name: fmt.Sprintf("bucket %d, %s and others", len(m.rows), p.Name), dtype: t.DType(), device: t.Device()}
			open[key], m.rows = f, append(m.rows, f)
		}
		f.add(&param{name: p.Name, shape: t.Shape(), numel: t.Numel(), whole: t})
	}
	m.averaged, m.ready = make([]torch.Tensor, len(m.rows)), make([]int, len(m.rows))
	return nil
}

// cut creates the pieces of whole parameters. They are views, so an optimizer step changes the
// whole parameters.
func (m *Model) cut() {
	for i, f := range m.rows {
		for _, p := range f.params {
			if !p.whole.Defined() {
				continue
			}
			offset, n, _ := f.mine(p)
			p.piece = p.whole.Detach().View(-1).Narrow(0, offset, n).Keep()
			p.piece.SetRequiresGrad(true)
			if m.options.Strategy == ShardGradOp {
				m.hooks = append(m.hooks, p.whole.RegisterPostAccumulateGradHook(func() { m.computed(i, p) }))
			}
		}
	}
}

// Close removes the hooks and settings that New added to the model. Parameters of units remain
// sharded.
func (m *Model) Close() {
	m.prefetcher.expect(nil)
	nn.SetProcessGroup(m.model, nil)
	for _, h := range m.hooks {
		h.Remove()
	}
	m.hooks = nil
	if m.background != nil {
		_ = m.background.Close() // no process is waiting in it
		m.background = nil
	}
	if m.mesh != nil {
		_ = m.mesh.Close() // the same
		m.mesh = nil
	}
}

// BeforeForward must be called before a forward pass in training; it reverses Summon. sync says
// whether its gradients will be averaged, as in the last batch of an accumulation window; under
// no_sync it is false, and FullShard averages them nevertheless. The buffers are broadcast, unless
// the gradients of the previous pass were not averaged.
func (m *Model) BeforeForward(ctx context.Context, sync bool) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent, so the group still works
	}
	broadcast := m.synced
	m.sync, m.synced = sync, sync
	m.reshardRoot()
	if err := m.Release(); err != nil {
		return err
	}
	m.prefetcher.begin()
	for _, u := range m.units() {
		u.ctx = ctx
	}
	if err := m.unshardRoot(ctx); err != nil {
		return m.group.Fail("BeforeForward", err)
	}
	if !broadcast || m.options.KeepBuffers || len(m.buffers) == 0 {
		return ctx.Err()
	}
	return ddp.Broadcast(ctx, m.group, 0, m.buffers...)
}

// Backward runs a backward pass from losses. When it returns, every process has its part of the
// mean gradients, unless sync was false in BeforeForward. An error ends the group.
func (m *Model) Backward(ctx context.Context, backward func(), losses ...torch.Tensor) error {
	const call = "Backward"
	m.ctx, m.failed, m.next = ctx, nil, 0
	clear(m.ready)
	m.prefetcher.backward = true
	err := torch.Try(backward)
	m.prefetcher.expect(nil)
	m.prefetcher.backward = false
	for _, u := range m.units() {
		u.ctx = context.Background()
	}
	if err == nil {
		err = m.failed
	}
	if err == nil {
		err = torch.Try(func() { torch.Scope(func() { torch.NoGrad(func() { m.failed = m.finish() }) }) })
	}
	if err == nil {
		err = m.failed
	}
	if err != nil && m.group.World() > 1 {
		return m.group.Fail(call, err)
	}
	return err
}

// computed is called by ShardGradOp when the gradient of a parameter has been computed. Rows are
// averaged in their order, which is the same on all processes.
func (m *Model) computed(row int, p *param) {
	if !m.sync {
		return
	}
	m.ready[row]++
	if m.ready[row] > len(m.rows[row].params) {
		must("shard.Model.Backward", fmt.Errorf("%s gets its gradient in several parts, as a parameter does that "+
			"several checkpoints use; ShardGradOp cannot average that, ZeroRedundancyOptimizer can", p.name))
	}
	for m.next < len(m.rows) && m.ready[m.next] == len(m.rows[m.next].params) {
		must("shard.Model.Backward", m.average(m.next))
		m.next++
	}
}

// average computes this process's part of the mean gradient of a row.
func (m *Model) average(row int) error {
	f := m.rows[row]
	for _, p := range f.params {
		p.used = p.used || p.whole.Grad().Defined()
	}
	mine, err := f.average(m.ctx, f.row(func(p *param) torch.Tensor { return p.whole.Grad() }))
	if err != nil {
		return err
	}
	if m.options.Strategy == ShardGradOp {
		for _, p := range f.params {
			p.whole.SetGrad(torch.Tensor{})
		}
		if m.averaged[row].Defined() {
			m.averaged[row].Add_(mine)
			return nil
		}
	}
	m.averaged[row] = mine.Keep()
	return nil
}

// finish averages the remaining gradients after a pass, and sets the gradients of the pieces.
func (m *Model) finish() error {
	if m.options.Strategy == FullShard {
		return m.share(func(f *flat, i int) torch.Tensor { return m.leaves[i].Grad() })
	}
	if !m.sync {
		return nil
	}
	if !m.options.FindUnusedParameters {
		var names []string
		for _, f := range m.rows[m.next:] {
			for _, p := range f.params {
				if !p.whole.Grad().Defined() {
					names = append(names, p.name)
				}
			}
		}
		if len(names) > 0 {
			return fmt.Errorf("%s had no part in the loss, so gradients cannot be averaged; set "+
				"shard.Options.FindUnusedParameters, or freeze them", strings.Join(names, ", "))
		}
	}
	for ; m.next < len(m.rows); m.next++ {
		if err := m.average(m.next); err != nil {
			return err
		}
	}
	return m.share(func(_ *flat, i int) torch.Tensor { return m.averaged[i] })
}

// share sets the gradients of the pieces, which are views of the gradients of the parts.
func (m *Model) share(gradient func(f *flat, row int) torch.Tensor) error {
	if m.options.FindUnusedParameters {
		if err := m.syncUsed(); err != nil {
			return err
		}
	}
	for i, f := range m.rows {
		g := gradient(f, i)
		for _, p := range f.params {
			if !g.Defined() || m.options.FindUnusedParameters && !p.used {
				continue
			}
			_, n, place := f.mine(p)
			p.piece.SetGrad(g.Narrow(0, place, n))
		}
	}
	return nil
}

// syncUsed determines which parameters have a gradient on any process.
func (m *Model) syncUsed() error {
	var used []int64
	for _, f := range m.rows {
		for _, p := range f.params {
			used = append(used, 0)
			if p.used {
				used[len(used)-1] = 1
			}
		}
	}
	if err := dist.AllReduce(m.ctx, m.group, used, dist.Max); err != nil {
		return err
	}
	for _, f := range m.rows {
		for _, p := range f.params {
			p.used, used = used[0] == 1, used[1:]
		}
	}
	return nil
}

// ZeroGrad removes all gradients.
func (m *Model) ZeroGrad() {
	for i, f := range m.rows {
		for _, p := range f.params {
			p.used = false
			p.piece.SetGrad(torch.Tensor{})
			if p.whole.Defined() {
				p.whole.SetGrad(torch.Tensor{})
			}
		}
		if m.options.Strategy == FullShard {
			m.leaves[i].SetGrad(torch.Tensor{})
		} else if m.averaged[i].Defined() {
			m.averaged[i].Free()
			m.averaged[i] = torch.Tensor{}
		}
	}
}
