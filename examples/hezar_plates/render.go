package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/examples/crnn_plates/plates"
	"github.com/gotrainer/gotrainer/models/platereader"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

const (
	seed       = 42
	evalShare  = 5 // training images per evaluation image
	maxLength  = 8 // of the labels that the data sets keep, in characters
	imagesName = "images"
)

// render creates the folder that the program trains from: rendered plates, their tables, and a base
// model. No label of the evaluation set occurs in the training set.
func render(o options) error {
	for _, split := range []struct {
		table string
		n     int
		plate plates.Options
	}{
		{trainTable, o.render, plates.Options{MaxLength: maxLength}},
		{testTable, max(1, o.render/evalShare), plates.Options{MaxLength: maxLength, Part: plates.HeldOut}},
	} {
		if err := writeSplit(o.data, split.table, split.n, split.plate); err != nil {
			return err
		}
	}
	return writeBase(o)
}

// writeSplit writes the images of a split and their table.
func writeSplit(dir, table string, n int, o plates.Options) error {
	if err := os.MkdirAll(filepath.Join(dir, imagesName), 0o777); err != nil {
		return err
	}
	set := plates.Dataset(n, seed, o)
	rows := [][]string{{"image_path", "label"}}
	for i := range set.Len() {
		s, err := set.At(i)
		if err != nil {
			return err
		}
		name := filepath.Join(imagesName, fmt.Sprintf("%s%05d.png", strings.TrimSuffix(table, filepath.Ext(table)), i))
		if err := writePNG(filepath.Join(dir, name), s.Image); err != nil {
			return err
		}
		rows = append(rows, []string{name, s.Label})
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(rows); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, table), text.Bytes(), 0o644, renameio.WithTempDir(dir))
}

// writePNG writes a grayscale image.
func writePNG(path string, im *vision.Image) error {
	var b bytes.Buffer
	if err := png.Encode(&b, &image.Gray{Pix: im.Pix, Stride: im.Width, Rect: image.Rect(0, 0, im.Width,
		im.Height)}); err != nil {
		return err
	}
	return renameio.WriteFile(path, b.Bytes(), 0o644, renameio.WithTempDir(filepath.Dir(path)))
}

// writeBase writes a model, and a preprocessor like that of hezarai/crnn-fa-printed-96-long, which
// mirrors images because Persian is read from the right. A narrow model has the mirrored weights of
// package platereader, except for the classifier, so that there is something left to learn; one of
// Hezar's width has random weights.
func writeBase(o options) error {
	image, err := preprocessors.NewImageProcessor(preprocessors.ImageProcessorConfig{
		Mean: []float64{0.5}, Std: []float64{0.5}, Rescale: new(1.0 / 255), Width: plates.Width, Height: plates.Height,
		Mirror: true, GrayScale: true,
	})
	if err != nil {
		return err
	}
	torch.ManualSeed(seed)
	set := &preprocessors.Set{Image: image}
	if !o.small {
		model, err := hezar.NewModel("crnn_image2text", hezar.Settings{"id2label": datasets.DefaultCharset(),
			"map2seq_in_dim": plates.Height / 16 * 512}, set)
		if err != nil {
			return err
		}
		model.CRNN.InitFromScratch()
		return model.Save(o.base)
	}
	model, err := narrow(datasets.DefaultCharset(), image.Config)
	if err != nil {
		return err
	}
	model.InitFromScratch()
	trained, err := platereader.Load()
	if err != nil {
		return err
	}
	trained.Mirror()
	trained.Classifier = model.Classifier
	if err := repository.WriteModel(o.base, trained, repository.CRNNMap(model.Config())); err != nil {
		return err
	}
	return set.Save(o.base)
}
