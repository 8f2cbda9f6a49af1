// Package tensor divides layers of a model over several processes, which all see the same batch:
// tensor parallelism, as torch.distributed.tensor.parallel does it, after Shoeybi et al. (2019),
// "Megatron-LM", https://arxiv.org/abs/1909.08053.
//
//	m, err := tensor.Parallelize(ctx, g, model, tensor.Plan{
//		"blocks.*.up":   tensor.Colwise,
//		"blocks.*.down": tensor.Rowwise,
//	}) // from now on 1/n of these layers is here
//	opt, err := optim.AdamW{LR: 1e-3}.Build([]optim.Group{{Params: nn.Params(model)}})
//	for batch := range data { // the same on all processes
//		err = torch.Try(func() { model.Forward(batch.X)...Backward() })
//		norm, err := m.ClipGradNorm(ctx, 1)
//		opt.Step(rate)
//		opt.ZeroGrad()
//	}
//
// # What is where
//
// Each of n processes has 1/n of the output features of up and the matching 1/n of the input
// features of down, with their weights, gradients and moments. Whatever is computed between the two
// must treat each feature independently, as activations and dropout do, or each attention head (see
// [Heads]). A forward pass through the pair ends with one sum over the processes, to which the bias
// of down is added once; a backward pass ends with one sum of the gradient of the input of up.
// Everything else in the model is whole, and equal, on all processes.
//
// Layers remain the same modules under the same names; package nn lists the parts. For whole
// weights, and for a file like that of the undivided model, see [Model.Summon]. Read files into the
// model before Parallelize, or while it is summoned. The states of an optimizer are those of the
// parts: each process saves its own, for a run on the same number of processes.
//
// # What is computed
//
// The numbers of one process with the undivided model, except that sums are taken in another order:
// equal in float64 to about 1e-12, and exactly where all numbers are whole. Weights are drawn as for
// whole layers, then those of rank 0 are cut up. A group of one process divides nothing, and its bits
// are those of the undivided model.
//
// What all processes compute stays equal only if they draw the same random numbers, so give them
// all the same seed (torch.ManualSeed). Dropout inside a pair then drops the same places of each
// part, as in PyTorch, and draws 1/n of the numbers: such a run differs from that of a single
// process.
//
// There are no gradients of gradients: a backward pass with CreateGraph is refused at the input of a
// divided layer.
//
// # With data parallelism
//
// A [dist.Mesh] has replicas of the model; the processes of a replica divide it:
//
//	mesh, err := dist.NewMesh(ctx, g, 2)
//	m, err := tensor.Parallelize(ctx, mesh.Shard, model, plan)
//	parallel, err := ddp.New(ctx, mesh.Replicate, model, ddp.Options{})
//
// Then the processes of a replica see the same batch, and ClipGradNorm comes after parallel.Backward.
//
// Use this package in your own loops: the Trainer and Accelerate refuse a model with divided
// layers.
//
// # What can go wrong
//
// The processes compare the sums that they take. Where these differ, and when a process is lost, hangs
// or is cancelled, a pass panics with a [torch.Error] that names the process and the layer, as the
// errors of packages dist and dist/ddp do, and the group has failed.
package tensor
