package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/run"
)

// Files in the folder that -render creates.
const (
	trainTable = "train.csv"
	testTable  = "test.csv"
	baseFolder = "base"
)

// options are the values of the flags. A number of zero means Hezar's default.
type options struct {
	data, base, out, device string
	render                  int
	small, exact            bool
	epochs                  int
	rate                    float64
}

// usage is printed by -h before the list of flags.
const usage = `Usage: hezar_plates [flags] DIR                 train a CRNN on the pictures of DIR
       hezar_plates -render N [flags] DIR       render pictures into DIR first

DIR is a data set of the Hub, or a folder: DIR/train.csv and DIR/test.csv have the
columns image_path and label.

Flags:
`

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("hezar_plates", flag.ContinueOnError)
	f.StringVar(&o.base, "base", "", "folder, or repository of the Hub, with the weights to start from and their "+
		"preprocessor; default: DIR/base")
	f.StringVar(&o.out, "out", "crnn-plate-fa-v1", "the run's folder")
	f.StringVar(&o.device, "device", "auto", "where to train: auto (the GPU if there is one), cpu, cuda or cuda:N")
	f.IntVar(&o.render, "render", 0, "render this many plates for training, and a fifth as many for the evaluation, "+
		"into DIR, then exit")
	f.BoolVar(&o.small, "small", false, "a quarter of Hezar's width, for a CPU")
	f.BoolVar(&o.exact, "exact", false, "match Hezar 1.0.0 to the last bit, including its defects")
	f.IntVar(&o.epochs, "epochs", 20, "passes over the training set")
	f.Float64Var(&o.rate, "lr", 0, "learning rate; default: Hezar's, 2e-5")
	if err := run.ParseFlags(f, usage, args); err != nil {
		return o, err
	}
	if f.NArg() != 1 || o.render < 0 {
		return o, fmt.Errorf("want one folder after the flags, and -render at least 1; found folders %q and -render %d",
			f.Args(), o.render)
	}
	if o.data = f.Arg(0); o.device == "auto" {
		o.device = "cuda" // in Hezar this means the CPU if there is no GPU
	}
	if o.base == "" {
		o.base = filepath.Join(o.data, baseFolder)
	}
	return o, nil
}

// model returns a model like the base, for other labels. A narrow one is built directly, because
// Hezar's configs cannot describe it.
func (o options) model(ctx context.Context, labels []string, p *preprocessors.Set) (*repository.Model, error) {
	if !o.small {
		return hezar.NewModelLike(ctx, o.base, hezar.Settings{"id2label": labels}, p)
	}
	model, err := narrow(labels, p.Image.Config)
	if err != nil {
		return nil, err
	}
	return repository.Reader(model, p), nil
}

// narrow returns a model with a quarter of Hezar's width.
func narrow(labels []string, image preprocessors.ImageProcessorConfig) (*crnn.Model, error) {
	return crnn.New(crnn.Config{Charset: labels, ImageHeight: int64(image.Height), ImageWidth: int64(image.Width),
		ConvChannels: []int64{16, 32, 64, 64, 128, 128, 128}, RNNDim: 96})
}

// datasetOptions returns max_length=8 and reverse_digits=True, and a config if the data set is a
// folder of tables without one.
func (o options) datasetOptions(p *preprocessors.Set) hezar.DatasetOptions {
	d := hezar.DatasetOptions{Preprocessor: p, Change: func(c *datasets.Config) {
		c.MaxLength, c.ReverseDigits = maxLength, new(true)
	}}
	folder, err := os.Stat(o.data)
	_, none := os.Stat(filepath.Join(o.data, datasets.ConfigFile))
	if err == nil && folder.IsDir() && none != nil {
		files := omegaconf.Map{{Key: "train", Value: filepath.Join(o.data, trainTable)},
			{Key: "test", Value: filepath.Join(o.data, testTable)}}
		d.Config = &datasets.Config{Name: datasets.OCRName, Path: "csv", Task: "image2text",
			HFLoadKwargs: omegaconf.Map{{Key: "data_files", Value: files}}}
	}
	return d
}

func (o options) rules() hezar.Rules {
	if o.exact {
		return hezar.Exact
	}
	return hezar.Rules{}
}
