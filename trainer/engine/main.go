package engine

import (
	"context"
	"flag"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Main is the main function of a program that trains one model: [NewFromInit], [trainer.New] and
// Fit under [run.Main]. A signal saves a checkpoint and ends the program, the exit code says what
// failed, and the last line on standard error is a JSON record. The function task makes the task
// and its model, whose initial weights are determined by t.Seed. Valid may be nil. The trainer
// writes the progress of the run to t.Progress, and then a table of its evaluations with the best
// one marked.
//
// On the command line, -device auto, cpu, cuda or cuda:N replaces o.Device, as parsed by
// torch.ParseDevice. If the program has already parsed its command line with package flag, Main
// reads no flags.
//
// If the program was started as one of several processes, by gotrainer launch, torchrun, srun or
// mpirun, it trains with the others ([dist.Init]); with -device auto, each uses the GPU of its
// local rank.
//
// Main does not return, so functions deferred by main do not run. A program that does more than
// this calls the parts itself, as examples/mlp does.
func Main[S, B any](task func() Task[S, B], train, valid data.Dataset[S], o Options, t trainer.Options) {
	device := "" // as o says
	if !flag.Parsed() {
		flag.StringVar(&device, "device", device, "where to train: auto (the GPU if there is one), cpu, cuda or cuda:N")
		flag.Parse()
	}
	run.Main(func(ctx context.Context) (err error) {
		if device != "" {
			if o.Device, err = torch.ParseDevice(device); err != nil {
				return run.Usage(fmt.Errorf("-device: %w", err))
			}
		}
		if t.Group == nil && t.Process == (trainer.Process{}) {
			if t.Group, err = dist.Init(ctx, dist.Options{}); err != nil {
				return err
			}
			defer t.Group.Close() //nolint:errcheck // the run is over
		}
		step, err := NewFromInit(func() (Task[S, B], error) { return task(), nil }, o)
		if err != nil {
			return err
		}
		tr, err := trainer.New(step, t)
		if err != nil {
			return err
		}
		_, err = tr.Fit(ctx, train, valid)
		return err
	})
}
