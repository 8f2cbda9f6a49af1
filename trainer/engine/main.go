package engine

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

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
// torch.ParseDevice; -h lists the flags, and anything else that is not a flag of package flag is
// refused. If the program has already parsed its command line with package flag, Main does not look
// at it.
//
// If the program was started as one of several processes, by gotrainer launch, torchrun, srun or
// mpirun, it trains with the others ([dist.Init]); with -device auto, each uses the GPU of its
// local rank.
//
// Main does not return, so functions deferred by main do not run. A program that does more than
// this calls the parts itself, as examples/mlp does.
func Main[S, B any](task func() Task[S, B], train, valid data.Dataset[S], o Options, t trainer.Options) {
	run.Main(func(ctx context.Context) (err error) {
		if !flag.Parsed() {
			if err := parseFlags(&o); err != nil {
				return err
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

// defaultUsage is the address of package flag's own function Usage.
var defaultUsage = reflect.ValueOf(flag.Usage).Pointer()

// parseFlags reads the command line of [Main].
func parseFlags(o *Options) error {
	device := "" // as o says
	flag.StringVar(&device, "device", device, "where to train: auto (the GPU if there is one), cpu, cuda or cuda:N")
	usage := "" // the program's own
	if reflect.ValueOf(flag.Usage).Pointer() == defaultUsage {
		usage = fmt.Sprintf("Usage: %s [flags]\n\nTrains a model. Ctrl-C ends the run.\n\nFlags:\n",
			filepath.Base(os.Args[0]))
	}
	if err := run.ParseFlags(flag.CommandLine, usage, os.Args[1:]); err != nil {
		return err
	}
	if flag.NArg() > 0 {
		return run.Usage(fmt.Errorf("%q is not a flag; -h lists the flags", flag.Arg(0)))
	}
	if device == "" {
		return nil
	}
	var err error
	if o.Device, err = torch.ParseDevice(device); err != nil {
		return run.Usage(fmt.Errorf("-device: %w", err))
	}
	return nil
}
