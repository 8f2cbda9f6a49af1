package crnn_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// A model learns to distinguish a vertical bar from a horizontal one.
func Example() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	dir, err := os.MkdirTemp("", "crnn")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	files := []crnn.File{{Path: filepath.Join(dir, "standing.png"), Text: "1"}, {Path: filepath.Join(dir, "lying.png"),
		Text: "-"}}
	check(writeBar(files[0].Path, image.Rect(14, 2, 18, 30)))
	check(writeBar(files[1].Path, image.Rect(2, 14, 30, 18)))

	torch.ManualSeed(1)
	model, err := crnn.New(crnn.Config{
		Charset: []string{"", "1", "-"}, ImageWidth: 32, ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}, Map2SeqDim: 8,
		RNNDim: 8, NormalizeAll: true,
	})
	check(err)
	pictures, err := crnn.OpenPictures(files, model.Config(), crnn.PictureOptions{})
	check(err)
	samples, err := model.Config().Samples(pictures)
	check(err)
	step, err := crnn.NewStep(model, engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 100, Schedule: lr.Constant{}, BatchSize: 2,
		Progress: io.Discard})
	check(err)
	_, err = t.Fit(context.Background(), samples, nil)
	check(err)

	for _, f := range files {
		picture, err := model.Config().OpenImage(f.Path, vision.Bicubic)
		check(err)
		pixels, err := model.Config().Pixels(picture)
		check(err)
		readings, err := model.Read(pixels)
		check(err)
		fmt.Printf("%s: %s\n", filepath.Base(f.Path), readings[0].Text)
	}
	// Output:
	// standing.png: 1
	// lying.png: -
}

// writeBar draws a dark bar on white.
func writeBar(path string, bar image.Rectangle) error {
	picture := image.NewGray(image.Rect(0, 0, 32, 32))
	for i := range picture.Pix {
		picture.Pix[i] = 255
	}
	for y := bar.Min.Y; y < bar.Max.Y; y++ {
		for x := bar.Min.X; x < bar.Max.X; x++ {
			picture.SetGray(x, y, color.Gray{Y: 20})
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := png.Encode(f, picture); err != nil {
		return err
	}
	return f.Close()
}
