// Package ddp trains one model on several processes, each with its own batches:
// DistributedDataParallel of PyTorch, and collectives of tensors.
//
//	g, err := dist.Init(ctx, dist.Options{})
//	parallel, err := ddp.New(ctx, g, model, ddp.Options{}) // the weights of rank 0 are everybody's now
//	for batch := range myPartOfTheData {
//		err = parallel.BeforeForward(ctx, true)
//		loss := model.Forward(batch.X)...
//		err = parallel.Backward(ctx, loss.Backward, loss) // the gradients are the same everywhere now, and so is the step
//		optimizer.Step(rate)
//		optimizer.ZeroGrad()
//	}
//
// # The engine
//
// c10d, libtorch's own engine, reduces and broadcasts tensors with gloo. The Reducer of
// DistributedDataParallel averages gradients in buckets, while the backward pass computes the next
// ones: it multiplies by 1/World, then sums. So the bits are those of PyTorch, at any number of
// processes. Buffers are broadcast from rank 0 before a forward pass, unless the pass before it was
// one of a window under accumulation (no_sync). Sparse gradients of embeddings stay sparse, but
// cannot be compressed.
//
// NCCL moves the tensors on the GPU of a process's local rank where libcgotorch_cuda was built with
// nccl.h; this has not run on a GPU yet. Elsewhere gloo moves them through the host.
//
// [AllReduce], [Broadcast], [AllGather], [ReduceScatter], [AllToAll], [Send] and [Recv] move
// values. The first five can also run while something else is computed: [StartAllReduce] and so on.
// The methods of a [torch.ProcessGroup], see [ProcessGroup], are differentiable.
//
// During a collective, but not in a backward pass, the processes compare what they do. Where it
// differs, all calls end with an error, and the values of their tensors are then undefined. When a
// process is lost, hangs or is cancelled, the calls that wait for it end with the error of the
// [dist.Group], which names it.
package ddp
