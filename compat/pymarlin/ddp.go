package pymarlin

import (
	"context"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/optim"
)

// DDPTrainerBackend trains one model on the processes of [Options].Group: the backends "ddp" and
// "ddp-amp". New gives all the weights of rank 0; gradients are averaged behind the last batch of a
// window, in which each process has its own batches, if the module's loaders take the sampler that
// they are given.
//
// Hooks run on all processes. OnEndTrainStep is given the outputs of its own process, the hooks of
// an epoch and of a validation those of all: position by position, one process after the other in
// the order of the ranks. Values are gathered too, and must be what a [State] can hold. The stat
// loss is the mean over the processes.
type DDPTrainerBackend[B any] struct {
	// TrainerBackend makes the passes of each process: a [SingleProcess], a [SingleProcessAmp] or a
	// type that embeds one. Nil: a SingleProcess.
	TrainerBackend[B]

	args  BackendArguments[B]
	own   *SingleProcess[B] // in TrainerBackend
	epoch int
}

// process is what [DDPTrainerBackend] asks of a backend; types that embed a SingleProcess have it.
func (b *SingleProcess[B]) process() *SingleProcess[B] { return b }

// Init makes the model the same on all processes.
func (d *DDPTrainerBackend[B]) Init(args BackendArguments[B]) error {
	if d.TrainerBackend == nil {
		d.TrainerBackend = &SingleProcess[B]{}
	}
	inner, ok := d.TrainerBackend.(interface{ process() *SingleProcess[B] })
	if !ok {
		return argumentf("DDPTrainerBackend.TrainerBackend is a %T; want a SingleProcess, a SingleProcessAmp, or a "+
			"type that embeds one", d.TrainerBackend)
	}
	d.args, d.own = args, inner.process()
	d.own.distributed = true
	for _, o := range args.Optimizers {
		if _, ok := o.optimizer.(optim.BackwardUpdater); ok && d.several() {
			return argumentf("%T updates each parameter during the backward pass, before its gradient is averaged over "+
				"%d processes; want another optimizer, or one process", o.optimizer, args.Group.World())
		}
	}
	return d.TrainerBackend.Init(args)
}

// Close ends the averaging of gradients. [Trainer.Close] calls it.
func (d *DDPTrainerBackend[B]) Close() error {
	if d.own != nil && d.own.parallel != nil {
		d.own.parallel.Close()
	}
	return nil
}

func (d *DDPTrainerBackend[B]) several() bool { return d.args.Group.World() > 1 }

// SetEpoch chooses the order of the next epoch's samples: DistributedSampler.set_epoch, which
// PyMarlin never calls, so that all its epochs have one order. The trainer does, unless
// [Options].Exact is set.
func (d *DDPTrainerBackend[B]) SetEpoch(epoch int) { d.epoch = epoch }

// TrainSampler is a [DistributedSampler].
func (d *DDPTrainerBackend[B]) TrainSampler() Sampler {
	return DistributedSampler{Rank: d.args.Group.Rank(), WorldSize: d.args.Group.World(), Epoch: d.epoch}
}

// ValSampler is a [SequentialDistributedSampler] by which each sample is visited once. With
// [Options].Exact the end is filled up as in PyMarlin.
func (d *DDPTrainerBackend[B]) ValSampler() Sampler {
	return SequentialDistributedSampler{Rank: d.args.Group.Rank(), WorldSize: d.args.Group.World(),
		Padded: d.args.Exact}
}

// TrainDL is that of TrainerBackend, with the outputs of all processes.
func (d *DDPTrainerBackend[B]) TrainDL(ctx context.Context, loader Dataloader[B],
	train func(Dataloader[B]) error) (Collected, error) {
	own, err := d.TrainerBackend.TrainDL(ctx, loader, train)
	if err != nil || !d.own.collects {
		return own, err
	}
	return d.gather(own, nil)
}

// ValidateDL is that of TrainerBackend, with the outputs of all processes. An error of one ends it
// on all.
func (d *DDPTrainerBackend[B]) ValidateDL(ctx context.Context, loader Dataloader[B], step StepFunc[B]) (Collected,
	error) {
	if err := d.own.parallel.BeforeForward(context.Background(), false); err != nil { // the main process's buffers
		return Collected{}, err
	}
	return d.gather(d.TrainerBackend.ValidateDL(ctx, loader, step))
}

// gather brings the outputs of all processes together: _coalesce_outputs.
func (d *DDPTrainerBackend[B]) gather(own Collected, err error) (all Collected, _ error) {
	if !d.several() {
		return own, err
	}
	defer own.free()
	err = loops.Scoped(func() error {
		shares, err := gatherStates(d.args.Group, own.state(), err)
		if err != nil {
			return err
		}
		var c collector
		defer c.drop()
		for _, share := range shares {
			one, err := readCollected(share)
			if err != nil {
				return err
			}
			c.put(one)
		}
		all.Values = c.values
		for _, list := range c.tensors {
			all.Tensors = append(all.Tensors, join(list).Keep())
		}
		return nil
	})
	if err != nil {
		all.free()
		return Collected{}, fmt.Errorf("gather the outputs of all processes, which must be what a State can hold: %w", err)
	}
	return all, nil
}

// GetState has beside the counts what each process has of its own. All processes call it.
func (d *DDPTrainerBackend[B]) GetState() (State, error) {
	s, err := d.TrainerBackend.GetState()
	if !d.several() || d.args.InexactResume {
		return s, err
	}
	own := State{}
	for _, key := range []string{gradientsKey, outputsKey} {
		if v, ok := s[key]; ok {
			own[key] = v
			delete(s, key)
		}
	}
	shares, err := gatherStates(d.args.Group, own, err)
	if err != nil {
		return nil, err
	}
	s[processesKey] = shares
	return s, nil
}

// UpdateState continues from what GetState returned.
func (d *DDPTrainerBackend[B]) UpdateState(s State) error {
	if !d.args.InexactResume {
		own, err := shareOf(d.args.Group, s)
		if err != nil {
			return err
		}
		s = maps.Clone(s)
		maps.Copy(s, own)
	}
	return d.TrainerBackend.UpdateState(s)
}
