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
// Tensors are reduced and broadcast by c10d, libtorch's own engine, with gloo, and gradients by the
// Reducer of DistributedDataParallel: in buckets, while the backward pass computes the next ones,
// multiplied by 1/World, then summed. So the bits are those of PyTorch, at any number of processes.
// Buffers are broadcast from rank 0 before a forward pass, unless the pass before it was one of a
// window under accumulation (no_sync). Sparse gradients of embeddings stay sparse, but cannot be
// compressed.
//
// Tensors of the GPU of a process's local rank are moved by NCCL where libcgotorch_cuda was built
// with nccl.h, which has not run on a GPU yet; elsewhere gloo takes them through the host.
//
// [AllReduce], [Broadcast], [AllGather], [ReduceScatter], [AllToAll], [Send] and [Recv] move values,
// the first five also while something else is computed: [StartAllReduce] and the others;
// the methods of a [torch.ProcessGroup], see [ProcessGroup], are differentiable.
//
// During a collective, but not in a backward pass, the processes compare what they do; where it
// differs, all calls end with an error, after which the values of their tensors are undefined. When
// a process is lost, hangs or is cancelled, the calls that wait for it end with the error of the
// [dist.Group], which names it.
package ddp
