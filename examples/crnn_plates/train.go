package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/examples/crnn_plates/plates"
	"github.com/gotrainer/gotrainer/examples/internal/program"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// task holds the data sets and the configuration of the model.
type task struct {
	config       crnn.Config
	train, valid pictures
	name         string // describes the evaluation images in tables
	steps        int
	rate         float64 // peak learning rate
}

// updates returns the number of updates of the run: -steps, or needed if that is not set.
func (o options) updates(needed int) int {
	switch {
	case o.steps > 0:
		return o.steps
	case o.quick:
		return 800
	}
	return needed
}

// renderedTask is the task on rendered plates, each training plate seen once.
func renderedTask(o options) task {
	t := task{config: modelConfig(o, plates.Charset()), steps: o.updates(6000), rate: 0.0015,
		name: "rendered plates that training never saw"}
	t.train = rendered(t.steps*o.batch, o.seed, plates.Options{Part: plates.Train})
	t.valid = rendered(500, o.seed, plates.Options{Part: plates.HeldOut})
	return t
}

// folderTask is the task on the images of a folder, which are augmented again each time they are
// seen.
func folderTask(o options) (task, error) {
	files, err := labeledFiles(o)
	if err != nil {
		return task{}, err
	}
	charset, err := charsetOf(o.charset, files)
	if err != nil {
		return task{}, err
	}
	t := task{config: modelConfig(o, charset), steps: o.updates(2500), rate: 0.002,
		name: fmt.Sprintf("pictures set aside from %s", o.train)}
	all, err := crnn.OpenPictures(files, t.config, crnn.PictureOptions{SkipBad: o.skip()})
	if err != nil {
		return task{}, err
	}
	if t.train, t.valid, err = data.Split(all, 1-o.holdOut, o.seed); err != nil {
		return task{}, err
	}
	if o.augment > 0 {
		t.train = data.Augment(t.train, o.seed, augmentation(o.augment))
	}
	return t, nil
}

func (o options) skip() func(crnn.File, error) {
	if !o.skipBad {
		return nil
	}
	return func(f crnn.File, err error) { fmt.Fprintf(os.Stderr, "left out: %s: %v\n", f.Path, err) }
}

// augmentation returns a function that changes an image as if it had been photographed again:
// slightly shifted, rotated, blurred, darker or brighter. At strength 1 corners move by up to 3 %
// of the width and 10 % of the height.
func augmentation(strength float64) func(*rand.Rand, crnn.Picture) (crnn.Picture, error) {
	return func(r *rand.Rand, p crnn.Picture) (crnn.Picture, error) {
		w, h := float64(p.Image.Width), float64(p.Image.Height)
		within := func(limit float64) float64 { return strength * limit * (2*r.Float64() - 1) }
		corner := func(x, y float64) vision.Point {
			return vision.Point{X: x + within(0.03*w), Y: y + within(0.1*h)}
		}
		from := vision.Quad{corner(0, 0), corner(w, 0), corner(w, h), corner(0, h)}
		image := vision.NewImage(p.Image.Width, p.Image.Height, p.Image.Channels)
		if err := vision.WarpPerspective(image, vision.RectQuad(0, 0, w, h), p.Image, from); err != nil {
			return crnn.Picture{}, err
		}
		if r.Float64() < 0.3*strength {
			vision.GaussianBlur(image, 0.3+0.5*r.Float64())
		}
		vision.AdjustLight(image, 1+within(0.3), within(20), 1)
		vision.AddNoise(image, strength*6*r.Float64(), r)
		return crnn.Picture{Image: image, Text: p.Text}, nil
	}
}

// modelConfig returns a model of Hezar's architecture that trains in minutes. For rendered plates,
// whose supply is unlimited, it has a quarter of Hezar's width. For the images of a folder it is
// narrower still, with dropout and batch normalization in every block, because a wider model would
// memorize them. -full is Hezar's own configuration.
func modelConfig(o options, charset []string) crnn.Config {
	c := crnn.Config{Charset: charset, ImageWidth: int64(o.width), ImageHeight: int64(o.height)}
	switch {
	case o.full:
	case o.train == "":
		c.Standardize = true
		c.ConvChannels, c.RNNDim = []int64{16, 32, 64, 64, 128, 128, 128}, 96
	default:
		c.Standardize, c.NormalizeAll, c.Dropout = true, true, 0.2
		c.ConvChannels, c.RNNDim = []int64{16, 32, 32, 32, 64, 64, 64}, 32
	}
	return c
}

func train(ctx context.Context, o options) error {
	if o.batch == 0 {
		o.batch = 16
	}
	precision, err := amp.ParsePrecision(o.precision)
	if err != nil {
		return run.Usage(fmt.Errorf("-precision: %w", err))
	}
	if o.predict != "" { // the folder is read after training, but must exist now
		if _, err := os.ReadDir(o.predict); err != nil {
			return err
		}
	}
	t := renderedTask(o)
	if o.train != "" {
		if t, err = folderTask(o); err != nil {
			return err
		}
	}
	if o.rate > 0 {
		t.rate = o.rate
	}
	torch.ManualSeed(o.seed)
	model, err := crnn.New(t.config)
	if err != nil {
		return err
	}
	model.UseChannelsLast()
	if !o.full {
		model.InitFromScratch()
	}
	device, err := torch.ParseDevice(o.device)
	if err != nil {
		return run.Usage(err)
	}
	photos, err := photographs(o, model.Config())
	if err != nil {
		return err
	}
	step, err := crnn.NewStep(model, engine.Options{Optimizer: optim.AdamW{LR: t.rate}, MaxGradNorm: 5,
		Precision: precision, Device: device})
	if err != nil {
		return err
	}
	samples, err := model.Config().Samples(t.train)
	if err != nil {
		return err
	}
	unseen, err := model.Config().Samples(t.valid)
	if err != nil {
		return err
	}
	every := max(t.steps/8, 1)
	options := trainer.Options{
		OutputDir: o.out, MaxSteps: t.steps, BatchSize: o.batch, EvalBatchSize: 50, Seed: o.seed,
		Schedule: lr.Cosine{Warmup: 0.05},
		Workers:  1, Eval: trainer.Every(every, trainer.Update), Save: trainer.Every(every, trainer.Update),
		Log:             trainer.Every(max(every/10, 1), trainer.Update),
		KeepCheckpoints: 2, MetricForBest: "exact_match", LoadBestAtEnd: true, Overwrite: o.overwrite,
	}
	if o.resume {
		options.ResumeFrom = trainer.Latest
	}
	fit, err := trainer.New(step, options)
	if err != nil {
		return err
	}
	begin := time.Now()
	result, err := fit.Fit(ctx, samples, unseen)
	if err != nil {
		return program.Explain(err, o.out)
	}
	nn.To(model, torch.TensorOptions{Device: torch.CPU}) // the report runs the model on the CPU
	return report(o, model, t, photos, result, time.Since(begin))
}
