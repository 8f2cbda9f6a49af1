package pymarlin

import (
	"fmt"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
)

// DDPTrainerBackend trains one model on the processes of [Options].Group: the backends "ddp" and
// "ddp-amp". New copies the weights of rank 0 to all processes. Gradients are averaged after the
// last batch of a window. Each process has its own batches if the module's loaders use the sampler
// they are given.
//
// Hooks run on all processes. OnEndTrainStep gets the outputs of its own process. The hooks of an
// epoch and of a validation get those of all: position by position, concatenated in the order of
// the ranks. Values are gathered too, and must be of the types that a [State] can hold. The stat
// loss is the mean over the processes.
type DDPTrainerBackend[B any] struct {
	// TrainerBackend runs the passes of each process: a [SingleProcess], a [SingleProcessAmp] or a
	// type that embeds one. Nil means a SingleProcess.
	TrainerBackend[B]

	own *SingleProcess[B] // the SingleProcess in TrainerBackend
}

// process gives [DDPTrainerBackend] access to the SingleProcess; types that embed one inherit it.
func (b *SingleProcess[B]) process() *SingleProcess[B] { return b }

// Init makes TrainerBackend train on all processes, and copies the model of rank 0 to them.
func (d *DDPTrainerBackend[B]) Init(args BackendArguments[B]) error {
	if d.TrainerBackend == nil {
		d.TrainerBackend = &SingleProcess[B]{}
	}
	inner, ok := d.TrainerBackend.(interface{ process() *SingleProcess[B] })
	if !ok {
		return argumentf("DDPTrainerBackend.TrainerBackend is a %T; want a SingleProcess, a SingleProcessAmp, or a "+
			"type that embeds one", d.TrainerBackend)
	}
	d.own = inner.process()
	d.own.distributed = true
	return d.TrainerBackend.Init(args)
}

// SetEpoch selects the order of the next epoch's samples: DistributedSampler.set_epoch. PyMarlin
// never calls it, so all its epochs have the same order. The trainer does, unless [Options].Exact
// is set.
func (d *DDPTrainerBackend[B]) SetEpoch(epoch int) { d.own.order = epoch }

// Close stops averaging gradients. [Trainer.Close] calls it.
func (d *DDPTrainerBackend[B]) Close() error {
	if d.own != nil && d.own.parallel != nil {
		d.own.parallel.Close()
	}
	return nil
}

func (b *SingleProcess[B]) several() bool { return b.args.Group.World() > 1 }

// gather returns the outputs of all processes concatenated, or the error of one of them:
// _coalesce_outputs.
func (b *SingleProcess[B]) gather(own Collected, err error) (all Collected, _ error) {
	if !b.several() {
		return own, err
	}
	defer own.free()
	err = loops.Scoped(func() error {
		shares, err := gatherStates(b.args.Group, own.state(), err)
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
