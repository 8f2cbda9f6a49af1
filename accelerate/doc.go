// Package accelerate has the pieces of Hugging Face Accelerate for a training loop that you write
// yourself: gradient accumulation, mixed precision, clipping, a schedule that follows the
// optimizer, and a state that is saved and resumed bit for bit. If you do not want to write the
// loop, use package trainer.
//
// A loop with Accelerate differs from a bare loop in a few lines:
//
//	acc, err := accelerate.New(accelerate.Options{
//		Accumulation: accelerate.Accumulation{Steps: 4}, MixedPrecision: amp.BF16,
//	})
//	acc.PrepareModel(model)
//	opt := acc.PrepareOptimizer(optim.NewAdamW(nn.Params(model), optim.AdamW{}), 5e-5)
//	train, err := accelerate.PrepareLoader(acc, dataset, collate, accelerate.LoaderOptions{BatchSize: 8, Shuffle: true})
//	sched, err := acc.PrepareSchedule(opt, lr.Linear{}, epochs*((train.Len()+3)/4))
//	for range epochs {
//		for batch, err := range train.Batches(ctx) {
//			...
//			err = acc.Accumulate(func() error {
//				var loss torch.Tensor
//				acc.Autocast(func() { loss = functional.CrossEntropy(model.Forward(batch.X), batch.Y) })
//				acc.Backward(loss)
//				if acc.SyncGradients() {
//					_, err := acc.ClipGradNorm(nn.Params(model), 1)
//					...
//				}
//				if err := opt.Step(); err != nil {
//					return err
//				}
//				if err := sched.Step(); err != nil {
//					return err
//				}
//				opt.ZeroGrad()
//				return nil
//			})
//		}
//	}
//
// # Accumulation
//
// Inside [Accelerator.Accumulate], the calls Step, ZeroGrad and the schedule's Step have an effect
// only at the end of a window, when [Accelerator.SyncGradients] is true. A window ends after
// Accumulation.Steps batches, and at the last batch of a loader; that short window is divided by
// Steps all the same. [Accelerator.Backward] divides the loss. With Accumulation.CarryOver, the end
// of a loader does not end a window: the rest is carried into the next pass, and lost at the end of
// the run.
//
// # The schedule
//
// A prepared schedule moves once per update and process (once per update with
// Options.SplitBatches). It does not move on an update that loss scaling skipped. With
// accumulation, plan it for updates: planned for batches, as in Accelerate's examples, it ends far
// from where it was meant to.
//
// # Order and random numbers
//
// Making the batches of a pass draws the same numbers from the default generator as PyTorch does:
// one number, and with Shuffle another one that seeds the permutation. With LoaderOptions.Seedable,
// the permutation depends only on seed and pass, so a run that is resumed in the middle of a pass
// sees the same order: call [Loader.SetEpoch], then [SkipFirstBatches]. As in Accelerate, SaveState
// does not store the pass of a loader.
//
// # State
//
// [Accelerator.SaveState] writes models, optimizers, schedules, scaler, generators and everything
// registered with [Accelerator.RegisterForCheckpointing] into a folder that is either whole or not
// there. [Accelerator.LoadState] verifies it before it changes anything. It also reads the folders
// of Accelerate's save_state, and with Project.PythonFiles, Python's load_state reads ours. So a
// loop of one process without registered objects can switch between Go and Python and end with the
// same bits.
//
// A state contains no gradients. As in Accelerate, a state saved inside an accumulation window
// keeps the position in the window but loses what its batches have accumulated, so the update after
// a resume is made from the rest alone. Therefore save after an update, where
// [Accelerator.SyncGradients] is true. SaveState warns if a window is open.
//
// # Several processes
//
// With Options.Group, made by dist.Init, the same loop trains on several processes, each with a
// part of every pass:
//
//   - Models are made equal when they are prepared.
//   - Backward averages gradients in the batch that ends a window, and only there, as
//     DistributedDataParallel does under no_sync. A parameter without a gradient counts as zeros
//     (find_unused_parameters).
//   - Accumulate broadcasts buffers.
//   - Metrics use [Accelerator.GatherForMetrics], after [Accelerator.PadAcrossProcesses] where
//     sizes differ.
//   - The main process saves.
//
// All processes must make the same calls: code that only [Accelerator.IsMainProcess] runs must not
// call Gather, SaveState or Accumulate.
//
// Without Seedable, Shuffle draws from a generator that the processes share. No state contains it
// and LoadState leaves it alone, so after a restart the next pass has the order of the first. Use
// Seedable for a run that is to be resumed.
//
//	g, err := dist.Init(ctx, dist.Options{}) // started by torchrun, srun or gotrainer launch
//	acc, err := accelerate.New(accelerate.Options{Group: g})
//
// # Not supported
//
// The option adjust_scheduler of GradientAccumulationPlugin has no effect in Accelerate 1.15, so it
// does not exist here. Options.Sharding splits a model over several processes, as FSDP and ZeRO do.
// Several processes have been tested on CPUs only: NCCL is implemented but has not run on a GPU
// yet. DeepSpeed's engine, Megatron, XLA and trackers are not supported.
package accelerate
