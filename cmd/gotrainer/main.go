// Command gotrainer looks after what a Go program that trains with libtorch needs around it.
//
//	gotrainer install          install libtorch and build libcgotorch for this user
//	gotrainer install --cuda   the same with CUDA
//	gotrainer doctor           tell what a training program finds on this machine
//	gotrainer launch -n 4 PROGRAM ARGUMENTS...   train on several processes
//
// Without a checkout: go run github.com/gotrainer/gotrainer/cmd/gotrainer@latest install
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

type commands struct {
	Install installCommand `cmd:"" help:"Install libtorch and build libcgotorch for this user. A second run finds its work done."`
	Launch  launchCommand  `cmd:"" help:"Start a program as several processes that train together. Their output is prefixed by the rank; when one fails the others are ended."`
	Doctor  doctorCommand  `cmd:"" help:"Tell what a training program finds on this machine: libtorch, devices, settings, disk. Fails if training could not start."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c commands
	parser := kong.Must(&c,
		kong.Name("gotrainer"),
		kong.Description("Train PyTorch models in Go: what a program needs around it."),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	args := os.Args[1:]
	parser.FatalIfErrorf(checkCommand(parser.Model, args))
	parsed, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	if err := parsed.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "gotrainer:", err)
		os.Exit(exitCode(err))
	}
}

// checkCommand refuses a command that does not exist in the words of this program; kong takes it
// for an argument too many.
func checkCommand(app *kong.Application, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil
	}
	var names []string
	for _, command := range app.Children {
		names = append(names, command.Name)
	}
	if slices.Contains(names, args[0]) {
		return nil
	}
	return fmt.Errorf("there is no command %q; there are %s, which gotrainer --help explains", args[0],
		strings.Join(names, ", "))
}

// exitCode is that of the program which failed, so that a caller's script sees the same as without
// us.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
