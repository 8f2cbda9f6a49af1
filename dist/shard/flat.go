package shard

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// flat is parameters of one dtype and device in one row, of which each process has an equal part.
// What the row is too short for an even division is padding at its end.
type flat struct {
	group        *dist.Group // that has the parts: one replica
	replicaPeers *dist.Group // that have the same part, one of each replica; nil: there is one replica
	name         string      // in calls
	dtype        torch.DType
	device       torch.Device
	params       []*param
	part         int64 // elements of each process
}

// param is a parameter of the model.
type param struct {
	name  string
	shape []int64
	numel int64
	at    int64 // in the row

	piece torch.Tensor // what the optimizer updates of it here; undefined: it is frozen
	whole torch.Tensor // where every process has all of it
	used  bool         // it has had a gradient on this process since ZeroGrad
}

// add appends a parameter to the row.
func (f *flat) add(p *param) {
	if n := len(f.params); n > 0 {
		p.at = f.params[n-1].at + f.params[n-1].numel
	}
	f.params = append(f.params, p)
	world := int64(f.group.World())
	f.part = (p.at + p.numel + world - 1) / world
}

// mine is what this process has of a parameter: n elements from the offset-th on, which begin at
// that place of its part.
func (f *flat) mine(p *param) (offset, n, place int64) {
	begin := f.part * int64(f.group.Rank())
	low, high := max(p.at, begin), min(p.at+p.numel, begin+f.part)
	if low >= high {
		return 0, 0, 0
	}
	return low - p.at, high - low, low - begin
}

// row puts a tensor of each parameter into a row of the length of all parts; an undefined one counts
// as zeros.
func (f *flat) row(of func(p *param) torch.Tensor) torch.Tensor {
	zeros := torch.TensorOptions{DType: f.dtype, Device: f.device}.Zeros
	parts := make([]torch.Tensor, 0, len(f.params)+1)
	left := f.part * int64(f.group.World())
	for _, p := range f.params {
		t := of(p)
		if !t.Defined() {
			t = zeros(p.numel)
		}
		parts = append(parts, t.Detach().Reshape(-1))
		left -= p.numel
	}
	if left > 0 {
		parts = append(parts, zeros(left))
	}
	return torch.Cat(parts, 0)
}

// split divides a row into the parameters.
func (f *flat) split(row torch.Tensor) []torch.Tensor {
	sizes := make([]int64, 0, len(f.params)+1)
	left := f.part * int64(f.group.World())
	for _, p := range f.params {
		sizes, left = append(sizes, p.numel), left-p.numel
	}
	if left > 0 {
		sizes = append(sizes, left)
	}
	return torch.Call("aten::split_with_sizes", row, sizes)[:len(f.params)]
}

// gathering is the call that gathers the row.
func (f *flat) gathering() string {
	return fmt.Sprintf("gathering %s, %s[%d]", f.name, f.dtype, f.part)
}

// gather returns the row of the parts of several processes.
func (f *flat) gather(ctx context.Context, mine torch.Tensor) (row torch.Tensor, err error) {
	err = ddp.Collective(ctx, f.group, f.gathering(), func(p *torch.ProcessGroup) { row = p.AllGather(mine.Detach()) })
	return row, err
}

// average returns this process's part of the mean of the rows of all: each times 1/n, then summed,
// as DistributedDataParallel does it, within a replica and then over the replicas.
func (f *flat) average(ctx context.Context, row torch.Tensor) (mine torch.Tensor, err error) {
	if f.group.World() == 1 {
		return row, ctx.Err()
	}
	replicas := 1
	if f.replicaPeers != nil {
		replicas = f.replicaPeers.World()
	}
	call := fmt.Sprintf("reducing the gradients of %s, %s[%d]", f.name, f.dtype, row.Numel())
	err = ddp.Collective(ctx, f.group, call, func(p *torch.ProcessGroup) {
		mine = p.ReduceScatter(row.MulScalar(1 / float64(f.group.World()*replicas)))
	})
	if err != nil || replicas == 1 {
		return mine, err
	}
	call = fmt.Sprintf("adding up the gradients of %s over %d replicas, %s[%d]", f.name, replicas, f.dtype, f.part)
	err = ddp.Collective(ctx, f.replicaPeers, call, func(p *torch.ProcessGroup) { mine = p.AllReduce(mine) })
	return mine, err
}
