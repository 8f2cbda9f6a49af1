// Package accelerate has the pieces of Hugging Face Accelerate for a training loop of your own:
// gradient accumulation, mixed precision, clipping, a schedule that follows the optimizer, and a
// state that is saved and continued bit for bit. The loop stays the user's; in package trainer it
// is the library's.
//
// A bare loop and the same with Accelerate differ in a few lines:
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
// Inside [Accelerator.Accumulate] the calls Step, ZeroGrad and the schedule's Step do something
// only at the end of a window, when [Accelerator.SyncGradients] says true: after Accumulation.Steps
// batches, and at the last batch of a loader, whose short window is divided by Steps all the same.
// [Accelerator.Backward] divides the loss. With Accumulation.CarryOver the end of a loader ends no
// window: what is left over is carried into the next pass, and at the end of the run it is lost.
//
// # The schedule
//
// A prepared schedule moves once per update and process (once per update with Options.SplitBatches)
// and stands still on an update that loss scaling skipped. So with accumulation it should be
// planned for updates: planned for batches, as in Accelerate's examples, it ends far from where it
// was meant to.
//
// # Order and random numbers
//
// Making the batches of a pass draws from the default generator what PyTorch draws: one number, and
// with Shuffle another one that seeds the permutation. With LoaderOptions.Seedable the permutation
// is a function of seed and pass alone, so a run that is resumed in the middle of a pass sees the
// same order: call [Loader.SetEpoch], then [SkipFirstBatches]. As in Accelerate, SaveState keeps no
// loader's pass.
//
// # State
//
// [Accelerator.SaveState] writes models, optimizers, schedules, scaler, generators and everything
// registered by [Accelerator.RegisterForCheckpointing] into a folder that is whole or not there;
// [Accelerator.LoadState] verifies it before anything is changed. It reads the folders of
// Accelerate's save_state too, and with Project.PythonFiles Python's load_state reads ours: a loop
// of one process without registered objects changes the language, and ends with the same bits.
//
// A state has no gradients. As in Accelerate, one that is saved inside a window of accumulation
// keeps the place in the window and loses what its batches have gathered, so the update that
// follows a resume is made of the rest alone: save behind an update, where
// [Accelerator.SyncGradients] says true. SaveState warns where a window is open.
//
// # Several processes
//
// With Options.Group, made by dist.Init, the same loop trains on several processes, each with a
// part of every pass. Models are made equal when they are prepared; Backward averages gradients in
// the batch that ends a window, and only there, as DistributedDataParallel does under no_sync;
// Accumulate broadcasts buffers. A parameter without a gradient counts as zeros
// (find_unused_parameters). Metrics are made of [Accelerator.GatherForMetrics], behind
// [Accelerator.PadAcrossProcesses] where sizes differ; the main process saves. All processes must
// make the same calls: what only [Accelerator.IsMainProcess] does may not contain Gather, SaveState
// or Accumulate.
//
// What Shuffle draws without Seedable comes from a generator that the processes share, and no state
// has it: LoadState leaves it where it is, so in a run that is started anew the next pass has the
// order of the first. A run that is to be resumed wants Seedable.
//
//	g, err := dist.Init(ctx, dist.Options{}) // started by torchrun, srun or gotrainer launch
//	acc, err := accelerate.New(accelerate.Options{Group: g})
//
// # What is not here
//
// The option adjust_scheduler of GradientAccumulationPlugin has no effect in Accelerate 1.15, so it
// does not exist here. Several processes share a model out by Options.Sharding, as FSDP and ZeRO
// do. They were tried on CPUs only: NCCL is written and has not run on a GPU yet. Of DeepSpeed's
// engine, Megatron, XLA and trackers there is nothing.
package accelerate
