// Command crnn_plates trains Hezar's CRNN to read license plates, from scratch, and reads images
// with it.
//
//	go run ./examples/crnn_plates                                # rendered Persian plates: five minutes on two cores
//	go run ./examples/crnn_plates -read plate.png                # what the trained model reads
//	go run ./examples/crnn_plates -train DIR -table labels.tsv   # your own images and labels
//	go run ./examples/crnn_plates -train DIR -labels-from-names  # an image's name is its label
//
// The run's folder (-out) holds checkpoints, metrics.jsonl, metrics.csv, curves.png,
// predictions.tsv and predictions.png. Ctrl-C saves and exits; -resume continues.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
)

// options are the values of the flags.
type options struct {
	out, train, table, test, predict, charset, model, precision, device string
	labelsFromNames, skipBad, full, quick, resume, overwrite, read      bool
	steps, batch, width, height, threads                                int
	rate, holdOut, augment                                              float64
	seed                                                                uint64
	files                                                               []string
}

// usage is printed by -h before the list of flags.
const usage = `Usage: crnn_plates [flags]                  teach a CRNN to read licence plates
       crnn_plates -read [flags] PICTURE... read pictures with what it learnt

Without flags it learns rendered Persian plates, from nothing: about five minutes
on two cores. Ctrl-C saves and leaves; -resume continues.

Flags:
`

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("crnn_plates", flag.ContinueOnError)
	f.StringVar(&o.out, "out", "runs/crnn_plates", "folder of the run")
	f.BoolVar(&o.read, "read", false, "read the pictures named after the flags with the model of -out, and train "+
		"nothing")
	f.StringVar(&o.model, "model", "", "folder of the model for -read; default: the best of -out, or without a run "+
		"the model that comes with the command")
	f.StringVar(&o.train, "train", "", "folder of pictures to train on; default: rendered plates")
	f.StringVar(&o.table, "table", "", "table of file<TAB>label for -train; default: DIR/../train.tsv or DIR/train.tsv")
	f.BoolVar(&o.labelsFromNames, "labels-from-names", false, "the name of each file in -train, without its "+
		"extension, is its label")
	f.StringVar(&o.charset, "charset", "", "file with all characters of the labels, one a line; default: all that "+
		"occur")
	f.Float64Var(&o.holdOut, "hold-out", 0.1, "share of -train that is set aside for the evaluation")
	f.Float64Var(&o.augment, "augment", 0.3, "how much the pictures of -train are bent, blurred and shaded each time "+
		"they are seen: 0 (not at all) to 1")
	f.BoolVar(&o.skipBad, "skip-bad", false, "leave out pictures that cannot be used, instead of refusing to start, "+
		"or, those of -predict, instead of ending with an error")
	f.StringVar(&o.test, "test", "", "table of file<TAB>label: pictures to read at the end and compare")
	f.StringVar(&o.predict, "predict", "", "folder of pictures without labels: what is read goes to predicted.tsv")
	f.BoolVar(&o.full, "full", false, "Hezar's own width and batch normalisation; much slower")
	f.BoolVar(&o.quick, "quick", false, "about a minute, to see that it works; the model will not be good")
	f.IntVar(&o.steps, "steps", 0, "updates; default: 6000, with -train 2500")
	f.IntVar(&o.batch, "batch", 0, "pictures per update; default: 16")
	f.IntVar(&o.width, "width", 0, "width of the pictures that the model sees, in pixels, with -train; default: 128. "+
		"Four pixels are one frame of the reader")
	f.IntVar(&o.height, "height", 0, "height of the pictures that the model sees, in pixels, with -train; default: 32")
	f.Float64Var(&o.rate, "lr", 0, "peak learning rate; default: 0.0015, with -train 0.002")
	f.StringVar(&o.device, "device", "auto", "where to train: auto (the GPU if there is one), cpu, cuda or cuda:N")
	f.StringVar(&o.precision, "precision", "fp32", "fp32 or bf16")
	f.IntVar(&o.threads, "threads", 0, "threads within one operator; default: one per core")
	f.Uint64Var(&o.seed, "seed", 42, "seed of weights, plates and their order")
	f.BoolVar(&o.resume, "resume", false, "continue with the run in -out")
	f.BoolVar(&o.overwrite, "overwrite", false, "delete an earlier run in -out")
	if err := run.ParseFlags(f, usage, args); err != nil {
		return o, err
	}
	o.files = f.Args()
	for _, n := range []struct {
		name  string
		value float64
	}{{"steps", float64(o.steps)}, {"batch", float64(o.batch)}, {"width", float64(o.width)},
		{"height", float64(o.height)}, {"lr", o.rate}, {"threads", float64(o.threads)}} {
		if !(n.value >= 0) {
			return o, fmt.Errorf("-%s is %g; want a positive number, or none for the default", n.name, n.value)
		}
	}
	switch {
	case o.read && len(o.files) == 0:
		return o, errors.New("-read needs the names of pictures after it")
	case !o.read && len(o.files) > 0:
		return o, fmt.Errorf("%q is not a flag; give pictures to read after -read", o.files[0])
	case o.read && (o.train != "" || o.test != "" || o.predict != ""):
		return o, errors.New("-read trains nothing; -train, -test and -predict are for training")
	case !o.read && o.model != "":
		return o, errors.New("-model is for -read; training starts from random weights")
	case o.train == "" && (o.table != "" || o.labelsFromNames):
		return o, errors.New("-table and -labels-from-names describe the folder -train, which is missing")
	case o.train == "" && o.charset != "":
		return o, errors.New("-charset is for the labels of -train, which is missing")
	case o.train == "" && (o.width != 0 || o.height != 0):
		return o, errors.New("rendered plates are 128 x 32 pixels; -width and -height are for -train")
	case o.table != "" && o.labelsFromNames:
		return o, errors.New("labels come either from -table or from the names of the files")
	case o.full && o.quick:
		return o, errors.New("-full and -quick cannot both be")
	case !(o.augment >= 0 && o.augment <= 1):
		return o, fmt.Errorf("-augment is %g; want 0 to 1", o.augment)
	case !(o.holdOut > 0 && o.holdOut < 1):
		return o, fmt.Errorf("-hold-out is %g; want a share between 0 and 1", o.holdOut)
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
	if o.threads > 0 {
		torch.SetThreads(o.threads)
	}
	if o.read {
		return readFiles(o)
	}
	return train(ctx, o)
}
