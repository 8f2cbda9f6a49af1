// Command image_classification fine-tunes a ViT, DINOv2, ResNet or ConvNeXt on images with one folder
// per class, as transformers' run_image_classification.py does.
//
//	# Three kinds of shapes, which it draws, and a small ViT of random weights: seconds.
//	go run ./examples/image_classification
//	# Ants and bees, from a model of the Hub.
//	go run ./examples/image_classification -data hymenoptera_data -model google/vit-base-patch16-224-in21k
//	# What it learned.
//	go run ./examples/image_classification -predict photo.jpg
//
// The data has a folder train and a folder val, each with one folder of images per class; without
// val a share of train is held out. The folder -out gets the checkpoints and a model that
// transformers loads (AutoModelForImageClassification.from_pretrained).
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/folder"
	"github.com/gotrainer/gotrainer/examples/internal/program"
	"github.com/gotrainer/gotrainer/examples/internal/shapes"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
	"github.com/gotrainer/gotrainer/vision/transforms"
)

type options struct {
	data, model, out, device string
	batch                    int
	epochs, rate, split      float64
	seed                     uint64
	predict, overwrite       bool
	resume                   bool
	pictures                 []string
}

// usage is printed by -h before the list of flags.
const usage = `Usage: image_classification [flags]                    teach a model to classify pictures
       image_classification -predict [-out DIR] FILE...  classify pictures with what it learnt

Flags:
`

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("image_classification", flag.ContinueOnError)
	f.StringVar(&o.data, "data", "", "folder with train and val; default: shapes, which are drawn into OUT/pictures")
	f.StringVar(&o.model, "model", "", "folder or Hub name of a ViT, DeiT, ResNet or ConvNeXt to begin with; "+
		"default: a small ViT of random weights")
	f.StringVar(&o.out, "out", "runs/image_classification", "where checkpoints and the model go")
	f.StringVar(&o.device, "device", "auto", "auto (the GPU if there is one), cpu, cuda or cuda:N")
	f.IntVar(&o.batch, "batch-size", 0, "pictures behind one update; default: 8, without -model 20")
	f.Float64Var(&o.epochs, "epochs", 0, "passes over the pictures; default: 5, without -model 10")
	f.Float64Var(&o.rate, "lr", 0, "peak learning rate; default: 2e-5, without -model 2e-3")
	f.Float64Var(&o.split, "train-val-split", 0.15, "share of train that is set aside where there is no val")
	f.Uint64Var(&o.seed, "seed", 1337, "of weights, order, crops and what is set aside")
	f.BoolVar(&o.resume, "resume", false, "continue with the run in -out")
	f.BoolVar(&o.overwrite, "overwrite", false, "delete an earlier run in -out")
	f.BoolVar(&o.predict, "predict", false, "classify the files after the flags with the model in -out")
	if err := run.ParseFlags(f, usage, args); err != nil {
		return o, err
	}
	o.pictures = f.Args()
	switch {
	case o.predict == (len(o.pictures) == 0):
		return o, fmt.Errorf("want picture files after -predict, and none without it; found %q", o.pictures)
	case o.batch < 0 || !(o.epochs >= 0) || !(o.rate >= 0) || !(o.split > 0 && o.split < 1):
		return o, fmt.Errorf("want -batch-size, -epochs and -lr above 0, and -train-val-split between 0 and 1; found "+
			"%d, %g, %g and %g", o.batch, o.epochs, o.rate, o.split)
	}
	defaults := options{batch: 20, epochs: 10, rate: 2e-3}
	if o.model != "" {
		defaults = options{batch: 8, epochs: 5, rate: 2e-5}
	}
	o.batch, o.epochs = cmp.Or(o.batch, defaults.batch), cmp.Or(o.epochs, defaults.epochs)
	o.rate = cmp.Or(o.rate, defaults.rate)
	return o, nil
}

func main() {
	run.Main(func(ctx context.Context) error {
		o, err := parse(os.Args[1:])
		if err != nil {
			return run.Usage(err)
		}
		if o.predict {
			return predict(ctx, o, os.Stdout)
		}
		_, err = train(ctx, o, os.Stdout)
		return program.Explain(err, o.out)
	})
}

// train trains a model and saves it in -out. It returns the accuracy of the best evaluation.
func train(ctx context.Context, o options, out io.Writer) (accuracy float64, err error) {
	if o.data == "" {
		o.data = filepath.Join(o.out, "pictures")
		if err := shapes.Draw(o.data, 200, 20); err != nil {
			return 0, err
		}
	}
	device, err := torch.ParseDevice(o.device)
	if err != nil {
		return 0, err
	}
	trainFiles, evalFiles, classes, err := files(o)
	if err != nil {
		return 0, err
	}
	torch.ManualSeed(o.seed)
	model, err := load(ctx, o, classes)
	if err != nil {
		return 0, err
	}
	step, err := engine.New(model.Task(), engine.Options{Optimizer: optim.AdamW{LR: o.rate}, Device: device})
	if err != nil {
		return 0, err
	}
	settings := trainer.Options{OutputDir: o.out, Epochs: o.epochs, BatchSize: o.batch, Seed: o.seed,
		Log: trainer.Every(1, trainer.Epoch), Save: trainer.Every(1, trainer.Epoch), KeepCheckpoints: 3,
		LoadBestAtEnd: true, MetricForBest: "accuracy", Overwrite: o.overwrite, Progress: out}
	if o.resume {
		settings.ResumeFrom = trainer.Latest
	}
	fit, err := trainer.New(step, settings)
	if err != nil {
		return 0, err
	}
	result, err := fit.Fit(ctx, augmented(model, trainFiles, o), data.Map(evalFiles,
		func(f folder.File) (classify.ImageSample, error) { return model.EncodeFile(f.Path, f.Class) }))
	if err != nil {
		return 0, err
	}
	return result.Best.Value, model.Save(o.out)
}

// files returns the training and evaluation images, and their classes.
func files(o options) (train, eval data.Dataset[folder.File], classes []string, err error) {
	all, err := folder.Images(filepath.Join(o.data, "train"))
	if err != nil {
		return nil, nil, nil, err
	}
	val := filepath.Join(o.data, "val")
	if _, err := os.Stat(val); errors.Is(err, fs.ErrNotExist) {
		train, eval, err = data.TrainTestSplit[folder.File](all, o.split, o.seed)
		return train, eval, all.Classes, err
	}
	held, err := folder.Images(val)
	if err == nil && !slices.Equal(all.Classes, held.Classes) {
		err = fmt.Errorf("%s has the classes %q in train and %q in val: want the same", o.data, all.Classes, held.Classes)
	}
	return all, held, all.Classes, err
}

// load loads -model with a new head, or creates a small model.
func load(ctx context.Context, o options, classes []string) (*auto.ImageClassifier, error) {
	if o.model != "" {
		m, err := auto.ImageClassification(ctx, o.model, auto.Options{ID2Label: classes, InitMismatched: true})
		if err == nil && m.ImageProcessor == nil {
			err = fmt.Errorf("%s has no %s, which says how pictures are prepared", o.model, vision.ProcessorConfigName)
		}
		return m, err
	}
	const side = 40
	half := []float64{0.5, 0.5, 0.5}
	p, err := vision.NewProcessor(vision.ProcessorOptions{Width: side, Height: side, Filter: vision.Bilinear,
		Rescale: 1 / 255., Mean: half, Std: half, Float32: true})
	if err != nil {
		return nil, err
	}
	return auto.NewImageClassification(vit.Config{HiddenSize: 64, NumLayers: 3, NumHeads: 4, IntermediateSize: 128,
		ImageSize: vit.Size{Height: side, Width: side}, PatchSize: vit.Size{Height: 8, Width: 8}, InitializerRange: 0.1,
		Head: classify.Head{ID2Label: classes}}, p)
}

// augmented returns the files as samples, randomly cropped and flipped each time, with the size and
// normalization of the model's image processor.
func augmented(m *auto.ImageClassifier, files data.Dataset[folder.File], o options) data.Dataset[classify.ImageSample] {
	limits, p := m.ImageLimits(), m.ImageProcessor.Options()
	_, height, width := m.ImageProcessor.Shape(vision.NewImage(int(limits.Width), int(limits.Height), 3))
	var scale [2]float64 // torchvision's, from 0.08
	if o.model == "" {   // such small crops are too hard for a model trained from scratch
		scale = [2]float64{0.6, 1}
	}
	steps := transforms.Compose{
		transforms.RandomResizedCrop{Height: height, Width: width, Scale: scale},
		transforms.RandomHorizontalFlip{},
		transforms.ToTensor{},
	}
	if len(p.Mean) > 0 {
		steps = append(steps, transforms.Normalize{Mean: p.Mean, Std: p.Std})
	}
	return data.Augment(files, o.seed, func(r *rand.Rand, f folder.File) (classify.ImageSample, error) {
		p, err := steps.Open(f.Path, r)
		return classify.ImageSample{Pixels: p.Pixels, Shape: p.Shape, Label: f.Class}, err
	})
}

// predict classifies images with the model in -out.
func predict(ctx context.Context, o options, out io.Writer) error {
	model, err := auto.ImageClassification(ctx, o.out, auto.Options{})
	if err != nil {
		return err
	}
	for _, path := range o.pictures {
		classes, err := model.PredictFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s %.3f\n", path, classes[0].Label, classes[0].Score)
	}
	return nil
}
