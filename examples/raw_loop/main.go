// Command raw_loop trains a BERT classifier without a trainer: the bare loop of the Hugging Face
// course's chapter 3, which follows the Python line by line (bare.go), and the same loop with the
// few lines that Accelerate changes (accelerated.go), which adds mixed precision.
//
//	# Spam among text messages, with a small random BERT.
//	go run ./examples/raw_loop
//	go run ./examples/raw_loop -accelerate -mixed-precision bf16
//	# The course's example: 459 batches an epoch, 1,377 updates.
//	go run ./examples/raw_loop -model BERT -data MRPC
//
// BERT is a folder saved by transformers, MRPC the folder with GLUE's train.tsv and dev.tsv.
// raw_loop.py is the Python of both loops and prints the same lines.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
)

type options struct {
	model, data       string
	device            string
	accelerate        bool
	precision         amp.Precision
	epochs, maxLength int
	rate              float64
	seed              uint64
}

// usage is printed by -h before the list of flags.
const usage = `Usage: raw_loop [flags]

Trains a BERT classifier without a trainer: a bare loop, or with -accelerate the
same with package accelerate. Without flags it learns to find spam.

Flags:
`

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("raw_loop", flag.ContinueOnError)
	f.StringVar(&o.model, "model", "", "folder of a BERT and its tokenizer; default: a small one with random weights")
	f.StringVar(&o.data, "data", "", "folder of MRPC; default: the SMS Spam Collection")
	f.BoolVar(&o.accelerate, "accelerate", false, "use the loop with package accelerate")
	f.StringVar(&o.device, "device", "auto", "auto (the GPU if there is one), cpu, cuda or cuda:N")
	precision := f.String("mixed-precision", "fp32", "fp32 or bf16, with -accelerate")
	f.IntVar(&o.epochs, "epochs", 3, "passes over the training set")
	f.IntVar(&o.maxLength, "max-length", 128, "most tokens of a text; longer texts are cut")
	f.Float64Var(&o.rate, "lr", 0, "peak learning rate; default: 5e-5, without -model 1e-3")
	f.Uint64Var(&o.seed, "seed", 42, "seed of new weights, order and dropout")
	if err := run.ParseFlags(f, usage, args); err != nil {
		return o, err
	}
	var err error
	if o.precision, err = amp.ParsePrecision(*precision); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is not a flag", f.Arg(0))
	case o.precision != amp.FP32 && !o.accelerate:
		return o, errors.New("-mixed-precision needs -accelerate")
	case o.epochs < 1:
		return o, fmt.Errorf("-epochs is %d; want at least 1", o.epochs)
	case o.rate == 0 && o.model == "":
		o.rate = 1e-3
	case o.rate == 0:
		o.rate = 5e-5
	}
	return o, nil
}

func main() {
	run.Main(func(ctx context.Context) error {
		o, err := parse(os.Args[1:])
		if err != nil {
			return run.Usage(err)
		}
		return execute(ctx, o)
	})
}

func execute(ctx context.Context, o options) error {
	p, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	torch.ManualSeed(o.seed)
	if o.accelerate {
		return accelerated(ctx, o, p)
	}
	return bare(ctx, o, p)
}
