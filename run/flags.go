package run

import (
	"flag"
	"fmt"
	"io"
	"os"
)

// ParseFlags parses args, the command line without the program's name, with f. For -h it writes
// usage and the flags to standard output and returns flag.ErrHelp, with which [Main] ends the
// program; if usage is empty, it calls f.Usage. The error about a wrong flag is one line that says
// what is wrong, where f.Parse would write all flags and their descriptions. Its exit code is
// [Configuration].
//
//	f := flag.NewFlagSet("train", flag.ContinueOnError)
//	rate := f.Float64("lr", 5e-5, "peak learning rate")
//	err := run.ParseFlags(f, "Usage: train [flags]\n\n", os.Args[1:])
func ParseFlags(f *flag.FlagSet, usage string, args []string) error {
	help, output := f.Usage, f.Output()
	f.Init(f.Name(), flag.ContinueOnError)
	f.Usage = func() {}
	f.SetOutput(io.Discard) // of the error, which the caller gets
	err := f.Parse(args)
	f.Usage = help
	f.SetOutput(output)
	switch {
	case err == nil:
		return nil
	case err != flag.ErrHelp: //nolint:errorlint // as package flag compares it
		return Usage(fmt.Errorf("%w; -h lists the flags", err))
	}
	f.SetOutput(os.Stdout)
	defer f.SetOutput(output)
	if usage == "" && help != nil {
		help()
		return Usage(err)
	}
	fmt.Fprint(f.Output(), usage)
	f.PrintDefaults()
	return Usage(err)
}
