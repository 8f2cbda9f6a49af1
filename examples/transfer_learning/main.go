// Command transfer_learning fine-tunes a ResNet-18 on images with one folder per class, as the
// image examples of pytorch-accelerated do (pytorch_tutorial_finetune.py, pets_finetune.py): first
// a new head on a frozen network, then all of it.
//
//	# Three kinds of shapes, which it draws, from random weights: seconds.
//	go run ./examples/transfer_learning
//	# Ants and bees, from torchvision's weights.
//	go run ./examples/transfer_learning -data hymenoptera_data -weights resnet18-f37072fd.pth \
//	    -size 224 -lr 0.01
//
// The data has a folder train and a folder val, each with one folder of images per class.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/folder"
	"github.com/gotrainer/gotrainer/examples/internal/shapes"
	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision/transforms"
)

// seed is the one that pytorch-accelerated sets by default.
const seed = 42

type options struct {
	data, weights, out, device string
	size, batch, epochs        int
	rate                       float64
}

// usage is printed by -h before the list of flags.
const usage = `Usage: transfer_learning [flags]

Fine-tunes a ResNet-18 on a folder of pictures for each class; without -data on shapes that it draws.

Flags:
`

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("transfer_learning", flag.ContinueOnError)
	f.StringVar(&o.data, "data", "", "folder with train and val; default: shapes, which are drawn into OUT/pictures")
	f.StringVar(&o.weights, "weights", "", "weight file of torchvision's resnet18, .pth or .safetensors; default: "+
		"random weights")
	f.StringVar(&o.out, "out", "runs/transfer_learning", "where model.safetensors is written")
	f.StringVar(&o.device, "device", "auto", "auto (the GPU if there is one), cpu, cuda or cuda:N")
	f.IntVar(&o.size, "size", 40, "sides of the pictures that the network sees")
	f.IntVar(&o.batch, "batch-size", 16, "pictures in a batch")
	f.IntVar(&o.epochs, "epochs", 6, "passes over the pictures with the whole network; there are two with the head "+
		"alone")
	f.Float64Var(&o.rate, "lr", 0.01, "the highest rate of the head; that of the whole network is a tenth of it")
	if err := run.ParseFlags(f, usage, args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.size < 1 || o.batch < 1 || o.epochs < 1 || !(o.rate > 0) {
		return o, fmt.Errorf("want flags alone, -size, -batch-size and -epochs of at least 1, and -lr above 0; found %q, "+
			"%d, %d, %d and %v", f.Args(), o.size, o.batch, o.epochs, o.rate)
	}
	return o, nil
}

func main() {
	run.Main(func(ctx context.Context) error {
		o, err := parse(os.Args[1:])
		if err != nil {
			return run.Usage(err)
		}
		_, err = execute(ctx, o, os.Stdout)
		return err
	})
}

// execute trains, and returns the history of both runs.
func execute(ctx context.Context, o options, out io.Writer) (pa.RunHistory, error) {
	device, err := torch.ParseDevice(o.device)
	if err != nil {
		return nil, err
	}
	if o.data == "" {
		o.data = filepath.Join(o.out, "pictures")
		if err := shapes.Draw(o.data, 30, 10); err != nil {
			return nil, err
		}
	}
	// transforms.Compose([transforms.RandomResizedCrop(224), ...])
	trainSet, classes, err := pictures(filepath.Join(o.data, "train"), transforms.Compose{
		transforms.RandomResizedCrop{Size: o.size, Scale: [2]float64{0.5, 1}},
		transforms.RandomHorizontalFlip{},
		transforms.ColorJitter{Brightness: transforms.By(0.2), Contrast: transforms.By(0.2)},
		transforms.ToTensor{},
		transforms.Normalize{Mean: transforms.ImageNetMean, Std: transforms.ImageNetStd},
	})
	if err != nil {
		return nil, err
	}
	// transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), ...])
	evalSet, evalClasses, err := pictures(filepath.Join(o.data, "val"), transforms.Compose{
		transforms.Resize{Size: o.size * 8 / 7},
		transforms.CenterCrop{Size: o.size},
		transforms.ToTensor{},
		transforms.Normalize{Mean: transforms.ImageNetMean, Std: transforms.ImageNetStd},
	})
	if err != nil {
		return nil, err
	}
	if !slices.Equal(classes, evalClasses) {
		return nil, fmt.Errorf("%s has the classes %q in train and %q in val: want the same", o.data, classes,
			evalClasses)
	}
	// model = models.resnet18(weights=...)
	torch.ManualSeed(seed)
	model := resnet.ResNet18(nil)
	if o.weights != "" {
		if _, err := nn.Load(o.weights, model, nn.LoadOptions{}); err != nil {
			return nil, err
		}
	}
	// model.fc = nn.Linear(model.fc.in_features, len(classes))
	model.FC = nn.NewLinear(model.NumFeatures, int64(len(classes)), nil)
	// freezer = ModelFreezer(model); freezer.freeze()
	freezer := pa.NewModelFreezer(model, false)
	if err := freezer.Freeze(0, -2, false); err != nil {
		return nil, err
	}
	history := &pa.InMemoryRunHistory{}
	settings := pa.Options[pa.Sample, pa.Batch]{
		Callbacks: append([]any{&pa.ClassificationMetrics{}}, pa.DefaultCallbacks()...),
		History:   history, Device: device, Output: out,
	}
	fit := func(rate float64, epochs int) error {
		// trainer = Trainer(model=model, loss_func=loss_func, optimizer=optimizer, callbacks=[...])
		trainer, err := pa.New(model, functional.CrossEntropy, optim.Adam{LR: rate / 25}, settings)
		if err != nil {
			return err
		}
		// trainer.train(train_dataset=..., eval_dataset=..., num_epochs=...,
		// create_scheduler_fn=...)
		return trainer.Train(ctx, trainSet, pa.TrainOptions[pa.Sample, pa.Batch]{
			NumEpochs: epochs, EvalDataset: evalSet, PerDeviceBatchSize: o.batch, KeepRunHistory: true,
			CreateSchedulerFn: func(p pa.Placeholders) (lr.Schedule, error) {
				return lr.OneCycleLR{MaxLR: rate, TotalSteps: p.NumEpochs * p.NumUpdateStepsPerEpoch}, nil
			},
		})
	}
	if err := fit(o.rate, 2); err != nil {
		return nil, err
	}
	// param_groups = freezer.unfreeze()
	if _, err := freezer.Unfreeze(-1, 0, true); err != nil {
		return nil, err
	}
	if err := fit(o.rate/10, o.epochs); err != nil {
		return nil, err
	}
	err = errors.Join(os.MkdirAll(o.out, 0o777), nn.Save(filepath.Join(o.out, "model.safetensors"), model, nil))
	return history, err
}

// pictures returns the samples and classes of a folder with one folder per class, like
// datasets.ImageFolder(dir, transform).
func pictures(dir string, transform transforms.Compose) (data.Dataset[pa.Sample], []string, error) {
	files, err := folder.Images(dir)
	if err != nil {
		return nil, nil, err
	}
	return data.Augment(files, seed, func(r *rand.Rand, f folder.File) (pa.Sample, error) {
		p, err := transform.Open(f.Path, r)
		return pa.Sample{Inputs: p.Pixels, Shape: p.Shape, Class: f.Class}, err
	}), files.Classes, nil
}
