// Package program is what the example commands have in common around their own work: how they
// begin, how they end, and what they say about a run that was stopped.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Main is the main function of a command: it reads the command line, loads libtorch and runs.
// Ctrl-C and SIGTERM cancel the context, a second one ends the process; an error goes to standard
// error, and the process ends with status 1.
func Main[O any](name string, parse func(args []string) (O, error), run func(ctx context.Context, o O) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = torch.Load()
	}
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Explain makes of an error of Trainer.Fit one that names the flag that helps; out is the folder of
// the run.
func Explain(err error, out string) error {
	var stopped *trainer.InterruptedError
	switch {
	case errors.As(err, &stopped) && stopped.Checkpoint != "":
		return fmt.Errorf("stopped after update %d and saved in %s: go on with it by -resume", stopped.GlobalStep,
			stopped.Checkpoint)
	case errors.Is(err, trainer.ErrOldRun):
		return fmt.Errorf("%s holds an earlier run: go on with it by -resume, delete it by -overwrite, or choose "+
			"another folder with -out", out)
	}
	return err
}
