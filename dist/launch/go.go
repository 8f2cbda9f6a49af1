package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
)

// Environment variables of the processes that [Go] starts: which call of Go they are to run, and
// the folder for their errors.
const (
	callVariable   = "GOTRAINER_LAUNCH_GO"
	errorsVariable = "GOTRAINER_LAUNCH_ERRORS"
)

// calls counts the calls of Go in this process.
var calls atomic.Int64

// Go runs f in n processes that train together, and returns when all have ended: notebook_launcher
// of accelerate, a launcher inside a program. In f, dist.Init finds the group.
//
//	err := launch.Go(ctx, 4, func(ctx context.Context) error {
//		group, err := dist.Init(ctx, dist.Options{})
//		...
//	})
//
// Each process is this program, started again with the same arguments. It reaches the same call of
// Go, runs f there and exits. The code before the call is therefore run in each of them; earlier
// calls of Go return nil there, and only in the original process does the call itself return.
//
// SIGINT and SIGTERM end the context of f, and this process passes them on: Go returns when each f
// has. If f fails in one process, the others are ended. The error joins an [*Error] for each
// process whose f failed, with its rank.
//
// If n is 1, f is called in this process.
func Go(ctx context.Context, n int, f func(context.Context) error) error {
	call := strconv.FormatInt(calls.Add(1), 10)
	// The processes that Go starts are in their own process groups, which Ctrl-C in a terminal does
	// not reach. They are told through the end of the context: only once, even if the program's
	// main function ends it as well.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch mine := os.Getenv(callVariable); {
	case mine == call:
		runCall(ctx, f)
	case mine != "":
		return nil // it had returned before this process was started
	case n < 1:
		return fmt.Errorf("launch: Go is to start %d processes; want at least 1", n)
	case n == 1:
		return f(ctx)
	case os.Getenv("RANK") != "":
		return fmt.Errorf("launch: Go is to start %d processes, but this one was started by a launcher already (RANK "+
			"is "+
			"%s in the environment); start the program by itself", n, os.Getenv("RANK"))
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("launch: Go cannot find this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "gotrainer-launch-")
	if err != nil {
		return fmt.Errorf("launch: Go has no place for errors: %w", err)
	}
	defer os.RemoveAll(dir)
	err = Run(ctx, Options{Processes: n, Command: append([]string{program}, os.Args[1:]...),
		Env: []string{callVariable + "=" + call, errorsVariable + "=" + dir}})
	return errors.Join(collectErrors(dir, n, err)...)
}

// runCall is what a process started by Go does. It does not return.
func runCall(ctx context.Context, f func(context.Context) error) {
	err := f(ctx)
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, err)
	path := filepath.Join(os.Getenv(errorsVariable), os.Getenv("RANK"))
	if err := os.WriteFile(path, []byte(err.Error()), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// collectErrors returns the errors that the processes have written, and the launcher's error for a
// process that has written none.
func collectErrors(dir string, n int, launched error) (list []error) {
	first, failed := errors.AsType[*Error](launched)
	for rank := range n {
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(rank)))
		switch {
		case err == nil:
			list = append(list, &Error{rank, errors.New(string(text))})
		case failed && first.Rank == rank:
			list = append(list, launched)
		}
	}
	if launched != nil && !failed {
		list = append(list, launched)
	}
	return list
}
