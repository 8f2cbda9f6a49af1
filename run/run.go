// Package run provides the main function of a training program. On a signal, the run saves and
// ends; errors become exit codes that a job system can act on.
//
//	func main() {
//		run.Main(func(ctx context.Context) error {
//			...
//			_, err := t.Fit(ctx, train, valid)
//			return err
//		})
//	}
//
// # Signals
//
// SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGUSR1 (which Slurm sends ahead of a time limit) cancel the
// context with a [*SignalError] as its cause. Fit of package trainer then finishes the update,
// saves and returns.
//
// A second signal ends the process at once. This is safe, because at every instant a checkpoint is
// either whole or not there. The same signal within 2 seconds does not count as a second one,
// unless it is SIGINT: systemd and Slurm signal both the launcher and its processes, and the
// launcher passes the signal on.
//
// If the function has not returned 20 seconds after the first signal, the process ends with a line
// that names what holds it. A signal that was ignored when the program started, as nohup ignores
// SIGHUP, stays ignored.
//
// # Exit codes
//
// See [Code]. With any code, the last line on standard error is a [Record] as JSON. Under torchrun,
// a failure is also written to TORCHELASTIC_ERROR_FILE, and torchrun prints it from there.
package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/internal/terminal"
)

// Main runs f and ends the process with the exit code for the error that f returns, or for a
// signal. It does not return, so functions deferred by main do not run: defer them in f.
//
// A panic in f is printed with its stack and gives the exit code of a training error. A panic of
// package torch is treated as an error.
func Main(f func(ctx context.Context) error) { Program{}.Main(f) }

// Program is a program with other settings than those of the function [Main].
type Program struct {
	// Name is the prefix of the messages; empty means the name of the executable.
	Name string

	// Grace is how long the function may take to return after a signal. Zero means 20 seconds,
	// which is less than torchrun and Kubernetes wait before they kill a process.
	Grace time.Duration
}

const defaultGrace = 20 * time.Second

// Main is the function [Main] with the settings of p.
func (p Program) Main(f func(ctx context.Context) error) {
	if p.Grace <= 0 {
		p.Grace = defaultGrace
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	e := p.ending()
	go e.watch(signals(), p.Grace, cancel)
	e.after(call(ctx, f), context.Cause(ctx))
}

// Exit ends the process as [Main] does when its function returns err. It is for programs that
// handle signals themselves.
func Exit(err error) { Program{}.ending().after(err, nil) }

func (p Program) ending() *ending {
	if p.Name == "" {
		p.Name = filepath.Base(os.Args[0])
	}
	return &ending{name: p.Name, stderr: os.Stderr, exit: os.Exit, errorFile: os.Getenv("TORCHELASTIC_ERROR_FILE")}
}

// call runs f. A panic of package torch becomes an error, any other a *panicError.
func call(ctx context.Context, f func(ctx context.Context) error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case torchError:
			err = p
		default:
			err = &panicError{p, debug.Stack()}
		}
	}()
	return f(ctx)
}

// torchError is implemented by the panics of package torch.
type torchError interface {
	error
	TorchError()
}

// panicError is a panic, which is a bug of the program.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// signals returns the signals that end the program and are not ignored.
func signals() <-chan os.Signal {
	c := make(chan os.Signal, 2)
	for s := range signalKinds {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// SignalError is the cause of a context cancelled by a signal.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return "received " + signalKinds[e.Signal].name }

// ending ends the process, once.
type ending struct {
	once   sync.Once
	name   string
	stderr io.Writer
	exit   func(int)

	printing sync.Mutex
	over     bool // the record is being printed or has been

	errorFile string // file from which torchrun reads why a process failed; empty: none
}

// sameRequest is the time within which a repeated signal counts as the same request: a job system
// sends the signal to every process of a group, and a launcher in the group passes it on. For SIGINT
// it is sameKey, since a person may press Ctrl-C again to leave at once; but "timeout -s INT" sends
// it twice, too.
var (
	sameRequest = 2 * time.Second
	sameKey     = 100 * time.Millisecond
)

// watch waits for signals.
func (e *ending) watch(signals <-chan os.Signal, grace time.Duration, cancel context.CancelCauseFunc) {
	first := &SignalError{(<-signals).(syscall.Signal)}
	came := time.Now()
	// Of "program 2>&1 | tee log", Ctrl-C ends tee as well. The next line would then end the program
	// with SIGPIPE while it saves; now writing it fails.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	cancel(first)
	e.announce(first, grace)
	late := time.After(grace)
	for {
		select {
		case s := <-signals:
			second := &SignalError{s.(syscall.Signal)}
			if *second == *first && time.Since(came) < first.sameRequest() {
				continue
			}
			e.end(Record{ExitCode: second.code(), Kind: second.kind(),
				Error: fmt.Sprintf("%v, then %v: left at once; the last checkpoint is the one before the first signal, or "+
					"newer", first, second)})
		case <-late:
			e.end(Record{ExitCode: first.code(), Kind: first.kind(),
				Error: fmt.Sprintf("%v: not left within %v, so the process was ended; the last checkpoint is the one "+
					"before the signal, or newer. It is held by %s", first, grace, holders())})
		}
		return
	}
}

// sameRequest is the time within which the same signal does not count as a second one.
func (e *SignalError) sameRequest() time.Duration {
	if e.Signal == syscall.SIGINT {
		return sameKey
	}
	return sameRequest
}

// announce reports that a signal has arrived, unless the record has been printed already, which
// must be the last line.
func (e *ending) announce(s *SignalError, grace time.Duration) {
	e.printing.Lock()
	defer e.printing.Unlock()
	if !e.over {
		fmt.Fprintf(e.stderr, "%s%s: %v: the run is saved and left within %v; a second signal leaves at once\n",
			terminal.ClearLine(e.stderr), e.name, s, grace)
	}
}

// after ends the process when the function has returned err; cause is that of its context.
func (e *ending) after(err, cause error) {
	if errors.Is(err, flag.ErrHelp) { // help was asked for and printed; nothing was run
		e.exit(int(OK))
	}
	e.end(recordOf(err, cause))
	select {} // another goroutine is ending the process
}

// end prints why the process ends, and ends it.
func (e *ending) end(r Record) {
	e.once.Do(func() {
		e.printing.Lock()
		defer e.printing.Unlock()
		e.over = true
		r.Time = time.Now().UTC().Truncate(time.Millisecond)
		if r.Error != "" {
			fmt.Fprintf(e.stderr, "%s%s: %s\n", terminal.ClearLine(e.stderr), e.name, r.Error)
		}
		if r.stack != nil {
			fmt.Fprintf(e.stderr, "\n%s\n", r.stack)
		}
		if err := r.writeTorchrunError(e.errorFile); err != nil {
			fmt.Fprintf(e.stderr, "%s: torchrun is not told why (TORCHELASTIC_ERROR_FILE): %v\n", e.name, err)
		}
		fmt.Fprintf(e.stderr, "%s\n", r.line())
		e.exit(int(r.ExitCode))
	})
}
