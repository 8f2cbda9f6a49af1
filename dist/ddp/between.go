package ddp

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// maxDims is the largest number of dimensions that [Send] accepts.
const maxDims = 16

// Send sends a tensor to another process, which calls [Recv]: torch.distributed.send. It returns
// when the tensor is on its way. The two processes may call Send and Recv while the others do
// something else, but not while they make another call of the group themselves. Tensors arrive in
// the order in which they were sent. The two calls are not checked against each other, so a Recv
// without a Send waits until dist.Options.Timeout.
//
// The group's first call for tensors must be one that all processes make, such as [AllReduce].
func Send(ctx context.Context, g *dist.Group, t torch.Tensor, to int) error {
	call := fmt.Sprintf("Send(%s%v to rank %d)", t.DType(), t.Shape(), to)
	if len(t.Shape()) > maxDims {
		return fmt.Errorf("ddp: %s: want at most %d dimensions", call, maxDims)
	}
	return pointToPoint(ctx, g, call, to, func(p *torch.ProcessGroup) {
		torch.Scope(func() {
			header := make([]int64, 2+maxDims)
			header[0], header[1] = int64(t.DType()), int64(len(t.Shape()))
			copy(header[2:], t.Shape())
			p.Send(torch.From(header), to)
			if t.Numel() > 0 {
				p.Send(bytesOf(t.CPU()), to)
			}
		})
	})
}

// Recv returns the tensor that another process sends with [Send], on device:
// torch.distributed.recv. Unlike there, shape and dtype come with the tensor.
func Recv(ctx context.Context, g *dist.Group, from int, device torch.Device) (t torch.Tensor, err error) {
	err = pointToPoint(ctx, g, fmt.Sprintf("Recv(from rank %d)", from), from, func(p *torch.ProcessGroup) {
		t = torch.Return(func() torch.Tensor {
			header := torch.Zeros(2 + maxDims).ToDType(torch.Int64)
			p.Recv(header, from)
			about := torch.Values[int64](header)
			t := torch.TensorOptions{DType: torch.DType(about[0])}.Zeros(about[2 : 2+about[1]]...)
			if t.Numel() > 0 {
				p.Recv(bytesOf(t), from) // a view of t's memory
			}
			return t.ToDevice(device)
		})
	})
	return t, err
}

// pointToPoint runs a call between this process and one peer.
func pointToPoint(ctx context.Context, g *dist.Group, call string, peer int, f func(p *torch.ProcessGroup)) error {
	if peer < 0 || peer >= g.World() || peer == g.Rank() {
		return fmt.Errorf("ddp: %s: there are %d processes, and this one is rank %d; want another one", call, g.World(),
			g.Rank())
	}
	found, ok := registry.groups.Load(g)
	if !ok {
		if err := g.Err(); err != nil {
			return g.Fail(call, err)
		}
		return errors.New("ddp: " + call + ": the group has no connections for tensors yet; all processes make them " +
			"together, in their first call for tensors, such as AllReduce")
	}
	return runCall(ctx, g, found.(*joined).ProcessGroup, call, f)
}
