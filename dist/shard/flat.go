package shard

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// flat is a flat tensor of parameters with the same dtype and device, of which each process holds
// an equal part. It is padded at the end to divide evenly.
type flat struct {
	group        *dist.Group // the processes that hold its parts: one replica
	replicaPeers *dist.Group // the processes of other replicas that hold the same part; nil: there is one replica
	name         string      // in the names of calls
	dtype        torch.DType
	device       torch.Device
	params       []*param
	part         int64 // number of elements per process
}

// param is a parameter of the model.
type param struct {
	name  string
	shape []int64
	numel int64
	at    int64 // offset in the flat tensor

	piece torch.Tensor // the part of it that the optimizer updates here; undefined: frozen
	whole torch.Tensor // the whole parameter, if every process holds it
	used  bool         // it has had a gradient on this process since ZeroGrad
}

// add appends a parameter.
func (f *flat) add(p *param) {
	if n := len(f.params); n > 0 {
		p.at = f.params[n-1].at + f.params[n-1].numel
	}
	f.params = append(f.params, p)
	world := int64(f.group.World())
	f.part = (p.at + p.numel + world - 1) / world
}

// mine returns which elements of a parameter this process holds: n elements from offset on, at the
// given place in its part.
func (f *flat) mine(p *param) (offset, n, place int64) {
	begin := f.part * int64(f.group.Rank())
	low, high := max(p.at, begin), min(p.at+p.numel, begin+f.part)
	if low >= high {
		return 0, 0, 0
	}
	return low - p.at, high - low, low - begin
}

// row concatenates one tensor per parameter and pads the result; an undefined tensor counts as
// zeros.
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

// split divides a flat tensor into views for the parameters.
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

// gathering returns the name of the call that gathers the flat tensor.
func (f *flat) gathering() string {
	return fmt.Sprintf("gathering %s, %s[%d]", f.name, f.dtype, f.part)
}

// gather returns the flat tensor of the parts of all processes.
func (f *flat) gather(ctx context.Context, mine torch.Tensor) (row torch.Tensor, err error) {
	err = ddp.Collective(ctx, f.group, f.gathering(), func(p *torch.ProcessGroup) { row = p.AllGather(mine.Detach()) })
	return row, err
}

// average returns this process's part of the mean of all processes' flat tensors: each is
// multiplied by 1/n, then they are summed, as in DistributedDataParallel; first within a replica,
// then over the replicas.
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
