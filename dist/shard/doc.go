// Package shard trains one model on several processes, each of which keeps a part of what
// training needs memory for: ZeroRedundancyOptimizer and FullyShardedDataParallel of PyTorch, the
// three stages of ZeRO.
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
// Of n processes each has, beside what a pass needs:
//
//	strategy                      parameters   gradients             moments
//	ddp (package dist/ddp)        all          all                   all
//	ZeroRedundancyOptimizer, 1    all          all, and 1/n          1/n
//	ShardGradOp, 2                all          1/n and one bucket    1/n
//	FullShard, 3                  1/n          1/n                   1/n
//
// and under FullShard, while a unit computes, the parameters of that unit, in the backward pass with
// their gradients, and those of the next unit, which are gathered meanwhile. Units keep nothing for
// the backward pass but their inputs.
//
// Parameters, or those of a unit or bucket, lie one after the other in a row that is cut into n
// equal parts, so a parameter may be cut anywhere. Optimizers therefore must be such that an element
// of a parameter depends on no other: [Model.Optimizer] refuses the others by name.
//
// With [Options].Mesh the n processes of this table are those of one replica: parts are gathered among
// them, and gradients averaged over the replicas too. A model that is too large for one process is made
// in [nn.Defer], and its parameters are drawn when their unit is made.
//
// # What is computed
//
// What package dist/ddp computes: gradients times 1/n, then summed. The engine adds up in an order
// that depends on where an element is in what is sent, so of two processes the bits are the same;
// of more, sums differ in their last bits. Where gradients are accumulated over several batches,
// FullShard averages those of each batch, and sums.
//
// The processes compare what they do while a collective is under way, and its outcome waits for
// that. In a backward pass the messages of gloo carry a hash of it instead; with NCCL it is
// compared before each collective where [dist.Options].Checked is set. So a unit that only some
// processes use ends with an error that says who called what. All errors name the process at fault,
// as those of packages dist and dist/ddp do.
package shard
