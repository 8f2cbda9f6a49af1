// Command conformance holds gotrainer against what other projects computed, and prints a line for every entry:
//
//	go run ./internal/conformance -expected FILE...
//
// Each mode is a flag with a file of its own. -expected reads JSON files of expected values (package internal/expected) by their form.
// The exit status is 1 if an entry failed or could not be tried, 2 if the command line makes no sense.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the mode that the arguments ask for and returns the exit status.
func command(args []string, out, errors io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(errors)
	expected := flags.Bool("expected", false, "compare with files of expected values, given as arguments")
	data := flags.String("data", "../shared/data", "folder of the models and data sets that files mention")
	flags.Usage = func() {
		fmt.Fprintln(errors, "usage: conformance -expected [-data FOLDER] FILE...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if !*expected || flags.NArg() == 0 {
		flags.Usage()
		return 2
	}
	return runExpected(flags.Args(), *data, out)
}
