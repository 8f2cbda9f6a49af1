package segment_test

import (
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/folder"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/segformer"
	"github.com/gotrainer/gotrainer/models/segment"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
	"github.com/gotrainer/gotrainer/vision/transforms"
)

// landscape makes a picture with sky above ground, at a random height, and the classes of its
// pixels.
func landscape(random *rand.Rand) (*vision.Image, *vision.LabelMap) {
	im, labels := vision.NewImage(40, 32, 3), vision.NewLabelMap(40, 32)
	horizon := 8 + random.IntN(16)
	for i := range labels.Pix {
		color := []uint8{90, 150, 220} // sky
		if i/im.Width >= horizon {
			labels.Pix[i], color = 1, []uint8{120, 90, 40}
		}
		for c, v := range color {
			im.Pix[3*i+c] = v + uint8(random.IntN(30))
		}
	}
	return im, labels
}

// A small SegFormer of random weights learns to tell sky from ground, from a folder of images and
// one of masks. Programs name a model of the Hub in auto.SemanticSegmentation instead.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "segformer")
	check(err)
	defer os.RemoveAll(dir)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 24 {
		im, labels := landscape(random)
		write(filepath.Join(dir, "images"), i, im)
		write(filepath.Join(dir, "masks"), i, labels)
	}

	processor, err := vision.NewProcessor(vision.ProcessorOptions{Width: 32, Height: 32, Filter: vision.Bilinear,
		Rescale: 1. / 255, Mean: transforms.ImageNetMean, Std: transforms.ImageNetStd, Float32: true})
	check(err)
	torch.ManualSeed(1)
	m, err := auto.NewSemanticSegmentation(segformer.Config{HiddenSizes: []int64{16, 32}, Depths: []int64{1, 1},
		NumHeads: []int64{1, 2}, SRRatios: []int64{4, 1}, PatchSizes: []int64{7, 3}, Strides: []int64{4, 2},
		MLPRatios: []int64{2, 2}, DecoderHiddenSize: 32,
		Head: classify.Head{ID2Label: []string{"sky", "ground"}}}, processor)
	check(err)

	files, err := folder.Masks(filepath.Join(dir, "images"), filepath.Join(dir, "masks"), nil)
	check(err)
	first, err := data.Range(files, 0, 20)
	check(err)
	rest, err := data.Range(files, 20, 24)
	check(err)
	flip := transforms.Compose{transforms.RandomHorizontalFlip{}}
	train := data.Augment(first, 1, func(r *rand.Rand, f folder.MaskedImage) (segment.Sample, error) {
		im, err := vision.Open(f.Image, vision.DecodeOptions{})
		if err != nil {
			return segment.Sample{}, err
		}
		labels, err := vision.OpenLabelMap(f.Mask, vision.DecodeOptions{})
		if err != nil {
			return segment.Sample{}, err
		}
		p, err := flip.RunLabeled(im, labels, uint16(m.IgnoreIndex()), r)
		if err != nil {
			return segment.Sample{}, err
		}
		return m.Encode(p.Image, p.Labels)
	})
	valid := data.Map(rest, func(f folder.MaskedImage) (segment.Sample, error) {
		return m.EncodeFile(f.Image, f.Mask)
	})
	step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 3e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 8, BatchSize: 4, Save: trainer.Never, Progress: io.Discard})
	check(err)
	_, err = t.Fit(ctx, train, nil)
	check(err)
	metrics, err := t.Evaluate(ctx, valid)
	check(err)
	fmt.Println("mean IoU above 0.8:", metrics["mean_iou"] > 0.8)
	check(m.Save(filepath.Join(dir, "model"))) // for SegformerForSemanticSegmentation of transformers, too

	m, err = auto.SemanticSegmentation(ctx, filepath.Join(dir, "model"), auto.Options{})
	check(err)
	im, _ := landscape(random)
	labels, err := m.Predict(im)
	check(err)
	names := m.Head().ID2Label
	fmt.Println(labels, names[labels.Row(1)[20]], names[labels.Row(30)[20]])
	// Output:
	// mean IoU above 0.8: true
	// 40x32 labels sky ground
}

// write writes a picture or a label map as PNG.
func write[P interface{ Std() image.Image }](dir string, i int, picture P) {
	check(os.MkdirAll(dir, 0o777))
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%02d.png", i)))
	check(err)
	check(png.Encode(f, picture.Std()))
	check(f.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
