// Command gotrainer installs and checks what a Go program that trains with libtorch needs, and
// starts such programs.
//
//	gotrainer install          install libtorch and build libcgotorch for this user
//	gotrainer install --cuda   the same with CUDA
//	gotrainer doctor           show what a training program finds on this machine
//	gotrainer launch -n 4 PROGRAM ARGUMENTS...   train on several processes
//	gotrainer convert CHECKPOINT FOLDER          make one model.safetensors from a sharded checkpoint
//	gotrainer config           ask how launch starts programs, for a file that accelerate reads too
//
// Without a checkout: go run github.com/gotrainer/gotrainer/cmd/gotrainer@latest install
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gotrainer/gotrainer/run"
)

type commands struct {
	Install installCommand `cmd:"" help:"Install libtorch and build libcgotorch for this user. A second run has nothing left to do."`
	Launch  launchCommand  `cmd:"" help:"Start a program as several processes that train together. Each line of output is prefixed with the rank; when one process fails the others are ended."`
	Convert convertCommand `cmd:"" help:"Turn a sharded checkpoint into a folder with one model.safetensors, which from_pretrained of transformers loads."`
	Config  configCommand  `cmd:"" help:"Ask how programs should be started, and write the answers where gotrainer launch and accelerate launch look for them."`
	Doctor  doctorCommand  `cmd:"" help:"Show what a training program finds on this machine: libtorch, devices, settings, disk. Fails if training could not start."`
}

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "launch" {
		run.Exit(execute(context.Background(), args)) // signals go to the processes that it starts
	}
	run.Main(func(ctx context.Context) error { return execute(ctx, args) })
}

// execute runs a command line. If help is requested, kong prints it and exits.
func execute(ctx context.Context, args []string) error {
	var c commands
	parser := kong.Must(&c,
		kong.Name("gotrainer"),
		kong.Description("Install, check and start what Go programs need to train PyTorch models."),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	args = helpLast(args)
	if err := checkCommand(parser.Model, args); err != nil {
		return run.Usage(err)
	}
	parsed, err := parser.Parse(args)
	if parsing, ok := errors.AsType[*kong.ParseError](err); ok && len(args) == 0 {
		return run.Usage(errors.Join(parsing, parsing.Context.PrintUsage(false)))
	}
	if err != nil { // one line: the flags of launch would hide it
		command := ""
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			command = args[0] + " "
		}
		return run.Usage(fmt.Errorf("%w; see gotrainer %s--help", err, command))
	}
	return parsed.Run()
}

// helpLast turns "help launch" into "launch --help", which kong understands.
func helpLast(args []string) []string {
	if len(args) == 0 || args[0] != "help" {
		return args
	}
	return append(slices.Clone(args[1:]), "--help")
}

// checkCommand returns a clear error for an unknown command; kong would report an unexpected
// argument.
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
	return fmt.Errorf("unknown command %q; the commands are %s, see gotrainer --help", args[0],
		strings.Join(names, ", "))
}
