// Command conformance compares gotrainer with results that other projects computed, and prints one
// line per entry:
//
//	go run ./internal/conformance [-json] [-here] [-device D] [-case NAME] [-traces DIR] DIR...
//	go run ./internal/conformance -expected FILE...
//
// The first form replays recorded training runs and other recorded results (package vectors). It
// searches the folders for cases (folders with a spec.json), runs each with the public API, and
// compares the result with the recording, to the last bit. It uses the code paths that the case was
// recorded on (pins.go). docs/conformance.md describes the format and the comparison. With -device
// auto, cuda or cuda:N on a GPU, numbers may differ by 1e-4 in float32, without TF32, and by 2e-2
// in bf16; cases that draw random numbers, and those not recorded with Hugging Face's trainers, are
// not replayed there. The second form checks JSON files of expected values, whose format it detects
// (package internal/expected).
//
// The exit status is 1 if an entry failed or, on the CPU, could not be run, and 2 if the command
// line is invalid.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/gotrainer/gotrainer/internal/expected"
	"github.com/gotrainer/gotrainer/torch"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the mode that the arguments select and returns the exit status.
func command(args []string, out, problems io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(problems)
	values := flags.Bool("expected", false, "compare with files of expected values, given as arguments")
	var files expected.Options
	flags.StringVar(&files.Data, "data", "../shared/data", "folder of the models and data sets that files of "+
		"expected values and vectors mention")
	flags.StringVar(&files.PlateReader, "plate-reader", "models/platereader/pretrained",
		"folder of the model that reads the licence plates they mention")
	var o caseOptions
	device := flags.String("device", "cpu", "where to replay: cpu, auto (the GPU if there is one), cuda or cuda:N; on a "+
		"GPU numbers are compared instead of bits")
	flags.BoolVar(&o.json, "json", false, "print a JSON object per line")
	flags.StringVar(&o.only, "case", "", "run only the case of this name, or peer/name")
	flags.BoolVar(&o.here, "here", false, "replay on the code paths of this process's environment, not the paths that "+
		"each case was recorded on")
	flags.StringVar(&o.traces, "traces", "", "keep the traces that are made, in a folder peer/name in this one")
	flags.Usage = func() {
		fmt.Fprintln(problems, "usage: conformance [-json] [-here] [-device D] [-case NAME] [-traces FOLDER] "+
			"[-data FOLDER] FOLDER...")
		fmt.Fprintln(problems, "       conformance -expected [-data FOLDER] FILE...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return 2
	}
	if *values {
		return runExpected(flags.Args(), files, out)
	}
	o.data = files.Data
	if *device != "cpu" { // libtorch must be loaded to find other devices
		var err error
		if o.device, err = torch.ParseDevice(*device); err != nil {
			fmt.Fprintln(problems, "conformance: -device:", err)
			return 2
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return runCases(ctx, flags.Args(), o, out, problems)
}
