// Package shard trains one model on several processes, each of which keeps only a part of the
// moments and, depending on the strategy, of the gradients and parameters: ZeroRedundancyOptimizer
// and FullyShardedDataParallel of PyTorch, the three stages of ZeRO.
//
//	for i := range model.Blocks {
//		model.Blocks[i] = newBlock()
//		units[i], err = shard.FullyShard(ctx, g, model.Blocks[i]) // from now on 1/n of it is here
//	}
//	m, err := shard.New(ctx, g, model, shard.Options{Strategy: shard.FullShard, Units: units})
//	opt, err := m.Optimizer(optim.AdamW{LR: 1e-3}, nil)
//	for batch := range myPartOfTheData {
//		err = m.BeforeForward(ctx, true)
//		x := batch.X
//		for i, block := range model.Blocks {
//			x = units[i].Run(func(in []torch.Tensor) []torch.Tensor {
//				return []torch.Tensor{block.Forward(in[0])}
//			}, x)[0]
//		}
//		loss := ...
//		err = m.Backward(ctx, loss.Backward, loss)
//		norm, err := m.ClipGradNorm(ctx, 1)
//		err = m.Step(ctx, opt, rate)
//		m.ZeroGrad()
//	}
//
// # What is where
//
// Each of n processes has, besides what a pass needs:
//
//	strategy                      parameters   gradients             moments
//	ddp (package dist/ddp)        all          all                   all
//	ZeroRedundancyOptimizer, 1    all          all, and 1/n          1/n
//	ShardGradOp, 2                all          1/n and one bucket    1/n
//	FullShard, 3                  1/n          1/n                   1/n
//
// Under FullShard, while a unit computes, each process also has the parameters of that unit (in the
// backward pass with their gradients) and those of the next unit, which are gathered meanwhile.
// Units keep only their inputs for the backward pass.
//
// All parameters (or those of a unit or bucket) are laid end to end in one row, which is cut into n
// equal parts, so a parameter may be cut anywhere. An optimizer must therefore update each element
// independently of the others: [Model.Optimizer] refuses the rest by name.
//
// With [Options].Mesh the n processes of this table are those of one replica: parts are gathered among
// them, and gradients averaged over the replicas too. A model that is too large for one process is made
// in [nn.Defer], and its parameters are drawn when their unit is made.
//
// # What is computed
//
// What package dist/ddp computes: gradients times 1/n, then summed. The engine adds in an order
// that depends on an element's place in the message. So on two processes the bits are the same; on
// more, sums differ in their last bits. Where gradients are accumulated over several batches,
// FullShard averages those of each batch, then sums.
//
// The processes compare what they do while a collective is running, and its result waits for the
// comparison. In a backward pass gloo's messages carry a hash instead; with NCCL the comparison
// comes before each collective if [dist.Options].Checked is set. So a unit that only some processes
// use ends with an error that says who called what. All errors name the process at fault, as those
// of packages dist and dist/ddp do.
package shard
