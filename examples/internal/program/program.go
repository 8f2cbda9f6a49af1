// Package program holds the error messages that the example commands share.
package program

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/trainer"
)

// Explain rewords an error of Trainer.Fit so that it names the flag that helps. out is the run's
// folder. The result wraps err.
func Explain(err error, out string) error {
	var stopped *trainer.InterruptedError
	switch {
	case errors.As(err, &stopped) && stopped.Checkpoint != "":
		return &commandError{fmt.Sprintf("stopped after update %d and saved in %s: continue with it by -resume",
			stopped.GlobalStep, stopped.Checkpoint), err}
	case errors.Is(err, trainer.ErrOldRun):
		return &commandError{fmt.Sprintf("%s holds an earlier run: continue with it by -resume, delete it by "+
			"-overwrite, or "+
			"choose another folder with -out", out), err}
	}
	return err
}

// commandError is an error with the command's own message.
type commandError struct {
	text string
	err  error
}

func (e *commandError) Error() string { return e.text }

func (e *commandError) Unwrap() error { return e.err }
