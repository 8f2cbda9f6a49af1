// Package program says what the example commands say about a run that was stopped.
package program

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/trainer"
)

// Explain makes of an error of Trainer.Fit one that names the flag that helps; out is the folder of
// the run. What it was stays in its chain.
func Explain(err error, out string) error {
	var stopped *trainer.InterruptedError
	switch {
	case errors.As(err, &stopped) && stopped.Checkpoint != "":
		return &explained{fmt.Sprintf("stopped after update %d and saved in %s: continue with it by -resume",
			stopped.GlobalStep, stopped.Checkpoint), err}
	case errors.Is(err, trainer.ErrOldRun):
		return &explained{fmt.Sprintf("%s holds an earlier run: continue with it by -resume, delete it by "+
			"-overwrite, or "+
			"choose another folder with -out", out), err}
	}
	return err
}

// explained is an error in the words of the command.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.err }
