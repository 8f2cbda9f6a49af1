package run

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/trainer"
)

// Code is an exit code. If a signal ended the program, it is 128 plus the signal's number: 129 for
// SIGHUP, 130 for SIGINT, 138 for SIGUSR1 and 143 for SIGTERM. The meanings do not change from
// release to release.
type Code int

// The exit codes.
const (
	OK            Code = 0  // the function returned nil: the run is finished, or a hook ended it
	Training      Code = 1  // any other error, and panics
	Configuration Code = 2  // an option or the command line is wrong; trying again will not help
	NoCheckpoint  Code = 3  // there is no complete checkpoint to resume from
	Storage       Code = 4  // a disk is full, read-only or failing
	Locked        Code = 5  // another process is using the run's folder
	ResumeRefused Code = 6  // the checkpoint is from a run with other settings, or of another model
	BadNumbers    Code = 7  // a loss or gradient is not finite, and the policy is to stop
	OutOfMemory   Code = 8  // of the device or the machine
	Distributed   Code = 9  // another process of the run was lost, or the processes disagree
	Device        Code = 10 // a GPU failed: restart the program from its last checkpoint
)

// kinds are the values of [Record.Kind].
var kinds = map[Code]string{
	OK: "ok", Training: "training", Configuration: "configuration", NoCheckpoint: "no_checkpoint", Storage: "storage",
	Locked: "locked", ResumeRefused: "resume_refused", BadNumbers: "bad_numbers", OutOfMemory: "out_of_memory",
	Distributed: "distributed", Device: "device",
}

// signalKinds are the signals that end a program.
var signalKinds = map[syscall.Signal]struct{ name, kind string }{
	syscall.SIGHUP: {"SIGHUP", "hangup"}, syscall.SIGINT: {"SIGINT", "interrupted"},
	syscall.SIGUSR1: {"SIGUSR1", "preempted"}, syscall.SIGTERM: {"SIGTERM", "terminated"},
}

func (e *SignalError) code() Code { return Code(128 + int(e.Signal)) }

func (e *SignalError) kind() string { return signalKinds[e.Signal].kind }

// Error gives an error its own exit code: for example [Configuration] for a mistake in the command
// line.
type Error struct {
	Code Code
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ExitCode returns the code.
func (e *Error) ExitCode() int { return int(e.Code) }

// Usage gives an error about the command line the exit code [Configuration]. Nil stays nil, and
// flag.ErrHelp ends the program without a message.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Configuration, err}
}

// CodeOf returns the exit code for an error. If an error in its chain has a method ExitCode() int,
// such as [*Error] or the failure of a program that was started (*exec.ExitError), that method
// decides. Otherwise the code follows from the types of this module's errors.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[exitCoder](err); ok && e.ExitCode() > 0 {
		return Code(e.ExitCode())
	}
	if e, ok := errors.AsType[deviceFailed](err); ok && e.DeviceFailed() {
		return Device
	}
	if e, ok := errors.AsType[outOfMemory](err); ok && e.OutOfMemory() || errors.Is(err, syscall.ENOMEM) {
		return OutOfMemory
	}
	if e, ok := errors.AsType[*SignalError](err); ok {
		return e.code()
	}
	if _, ok := errors.AsType[*dist.Error](err); ok {
		return Distributed
	}
	if _, ok := errors.AsType[*checkpoint.LockedError](err); ok {
		return Locked
	}
	if storage(err) {
		return Storage
	}
	if errors.Is(err, trainer.ErrOtherRun) || errors.Is(err, trainer.ErrOnlyModel) {
		return ResumeRefused
	}
	if _, ok := errors.AsType[*checkpoint.DamagedError](err); ok || errors.Is(err, checkpoint.ErrNone) {
		return NoCheckpoint
	}
	if _, ok := errors.AsType[*trainer.OptionError](err); ok || errors.Is(err, trainer.ErrOldRun) {
		return Configuration
	}
	return Training
}

type exitCoder interface {
	error
	ExitCode() int
}

// outOfMemory is implemented by package torch's error.
type outOfMemory interface {
	error
	OutOfMemory() bool
}

// deviceFailed is implemented by package torch's error, too.
type deviceFailed interface {
	error
	DeviceFailed() bool
}

// runFolder is implemented by trainer's errors about the run's folder and what is in it.
type runFolder interface {
	error
	RunFolder()
}

// storage reports whether a disk has failed. In a save or in the run's folder, any error about a
// file counts; elsewhere, only errors for which no program can be to blame.
func storage(err error) bool {
	e, ok := errors.AsType[*trainer.StepError](err)
	_, folder := errors.AsType[runFolder](err)
	return checkpoint.IsStorageError(err) || (folder || ok && e.Op == "save") && checkpoint.IsSaveError(err)
}

// recordOf describes how f ended, from its error and the cause of its context.
func recordOf(err, cause error) Record {
	r := Record{ExitCode: CodeOf(err)}
	signal, ok := errors.AsType[*SignalError](cause)
	if ok && r.ExitCode == Training && (errors.Is(err, context.Canceled) || errors.Is(err, cause)) {
		r.ExitCode = signal.code()
	}
	r.Kind = kinds[r.ExitCode]
	if ok && r.ExitCode == signal.code() {
		r.Kind = signal.kind()
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		r.Kind = "program" // the exit codes of other programs can mean anything
	}
	if r.Kind == "" {
		r.Kind = fmt.Sprint("code ", int(r.ExitCode))
	}
	if err == nil {
		return r
	}
	r.Error = err.Error()
	if e, ok := errors.AsType[*panicError](err); ok {
		r.Kind, r.stack = "panic", e.stack
	}
	if e, ok := errors.AsType[*trainer.InterruptedError](err); ok {
		r.Checkpoint, r.Update = e.Checkpoint, &e.GlobalStep
	} else if e, ok := errors.AsType[*trainer.StepError](err); ok {
		r.Update = &e.GlobalStep
	} else if e, ok := errors.AsType[*trainer.HookError](err); ok {
		r.Update = &e.GlobalStep
	}
	return r
}
