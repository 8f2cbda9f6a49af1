// Package ddp trains one model on several processes, each with batches of its own:
// DistributedDataParallel of PyTorch, and collectives of tensors.
//
//	g, err := dist.Init(ctx, dist.Options{})
//	parallel, err := ddp.New(ctx, g, model, ddp.Options{}) // the weights of rank 0 are everybody's now
//	for batch := range myPartOfTheData {
//		err = parallel.BeforeForward(ctx, true)
//		loss := model.Forward(batch.X)...
//		loss.Backward()
//		err = parallel.AverageGradients(ctx) // the gradients are the same everywhere now, and so is the step
//		optimizer.Step(rate)
//		optimizer.ZeroGrad()
//	}
//
// # What it does, compared with PyTorch
//
// Gradients are multiplied by 1/World, then summed, as there; of two processes the bits are those
// of PyTorch with gloo. A parameter without a gradient on this process counts as zeros if it has
// one on another, and stays without one if it has none on any: find_unused_parameters=True. Buffers
// are broadcast from rank 0 before a forward pass, unless the pass before it was one of a window
// under accumulation (no_sync).
//
// Communication begins when the backward pass has ended; PyTorch begins during it. Tensors on a GPU
// are copied to the host and back: there is no NCCL here. Gradients must be dense.
package ddp
