package main

import (
	"cmp"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/models/crnn"
)

// options are the command line; the zero value of a number means what Hezar does without it.
type options struct {
	data, base, out string
	render          int
	small, exact    bool
	epochs          int
	rate            float64
}

// usage is what -h prints before the flags.
const usage = `Usage: hezar_plates [flags] DIR                 train a CRNN on the pictures of DIR
       hezar_plates -render N [flags] DIR       render pictures into DIR first

DIR/train.csv and DIR/test.csv have the columns image_path and label.

Flags:
`

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("hezar_plates", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
	}
	f.StringVar(&o.base, "base", "", "folder, or repository of the Hub, with the weights to start from and their "+
		"preprocessor; default: DIR/base")
	f.StringVar(&o.out, "out", "crnn-plate-fa-v1", "the run's folder")
	f.IntVar(&o.render, "render", 0, "render so many plates for training, and a fifth as many for the evaluation, "+
		"into DIR, and leave")
	f.BoolVar(&o.small, "small", false, "a quarter of Hezar's width, for training from nothing on a CPU")
	f.BoolVar(&o.exact, "exact", false, "as Hezar 1.0.0 to the last bit, its defects included")
	f.IntVar(&o.epochs, "epochs", 20, "passes over the training set")
	f.Float64Var(&o.rate, "lr", 0, "learning rate; default: Hezar's, 2e-5")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() != 1 || o.render < 0 {
		return o, fmt.Errorf("want one folder after the flags, and -render at least 1; found folders %q and -render %d",
			f.Args(), o.render)
	}
	o.data = f.Arg(0)
	if o.base == "" {
		o.base = filepath.Join(o.data, baseFolder)
	}
	return o, nil
}

// modelConfig is Hezar's model for pictures as the preprocessor makes them. Its own default is 64
// pixels high.
func (o options) modelConfig(image preprocessors.ImageProcessorConfig) crnn.Config {
	const height, width = 32, 128
	c := crnn.Config{Charset: datasets.DefaultCharset(), ImageHeight: int64(cmp.Or(image.Height, height)),
		ImageWidth: int64(cmp.Or(image.Width, width))}
	if o.small {
		c.ConvChannels, c.RNNDim = []int64{16, 32, 64, 64, 128, 128, 128}, 96
	}
	return c
}

func (o options) rules() hezar.Rules {
	if o.exact {
		return hezar.Exact
	}
	return hezar.Rules{}
}
