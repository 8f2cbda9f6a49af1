package torch

// The differentiable collectives of a [ProcessGroup]: torch.distributed.nn.functional. The backward
// pass sends gradients back to the processes that the values came from. Gradients are therefore
// those of the sum of all processes' losses, and every process must run the backward pass.

// AllReduce returns the sum of t over the processes, whose tensors must have the same shape. The
// gradient of t is the sum of the gradients of all processes' results.
func (g *ProcessGroup) AllReduce(t Tensor) Tensor {
	return Function{
		Forward: func(in []Tensor) []Tensor {
			return []Tensor{g.wait(Call("_c10d_functional::all_reduce", in[0].Contiguous(), "sum", g.name))}
		},
		Backward: func(_, _, grads []Tensor) []Tensor { return []Tensor{g.AllReduce(grads[0])} },
	}.Apply(t)[0]
}

// AllGather returns the tensors of all processes, which must have the same shape, concatenated
// along the first dimension. In the backward pass, gradients are sent back to where the tensors
// came from and summed over the processes.
func (g *ProcessGroup) AllGather(t Tensor) Tensor {
	return g.wait(Call("_c10d_functional_autograd::all_gather_into_tensor", t.Contiguous(), g.world, g.name))
}

// ReduceScatter sums tensors of the same shape over the processes, splits the sum along its first
// dimension into one part per process, and returns the part of this process's rank. In the
// backward pass, gradients are gathered.
func (g *ProcessGroup) ReduceScatter(t Tensor) Tensor {
	if t.Dim() == 0 || t.Shape()[0]%int64(g.world) != 0 {
		panic(invalid("ReduceScatter", "the shape is %v; want a first dimension that %d processes can share out evenly",
			t.Shape(), g.world))
	}
	// The backward of _c10d_functional_autograd::reduce_scatter_tensor returned zeros (2.11, gloo).
	return Function{
		Forward: func(in []Tensor) []Tensor {
			return []Tensor{g.wait(Call("_c10d_functional::reduce_scatter_tensor", in[0].Contiguous(), "sum", g.world,
				g.name))}
		},
		Backward: func(_, _, grads []Tensor) []Tensor { return []Tensor{g.AllGather(grads[0])} },
	}.Apply(t)[0]
}

// AllToAll splits t along its first dimension into one part for each process, of sends[rank] rows,
// and returns the rows received from the processes, receives[rank] rows from each, in order of
// rank: all_to_all_single. In the backward pass, gradients are sent back the same way.
func (g *ProcessGroup) AllToAll(t Tensor, sends, receives []int64) Tensor {
	if len(sends) != g.world || len(receives) != g.world {
		panic(invalid("AllToAll", "there are %d parts to send and %d to receive; want one of each for %d processes",
			len(sends), len(receives), g.world))
	}
	return g.wait(Call("_c10d_functional_autograd::all_to_all_single", t.Contiguous(), receives, sends, g.name))
}

// wait waits for a collective that was started and returns its result.
func (g *ProcessGroup) wait(started []Tensor) Tensor {
	return Call("_c10d_functional::wait_tensor", started[0])[0]
}
