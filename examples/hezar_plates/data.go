package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/models/crnn"
)

// Files of the folder that -render makes.
const (
	trainTable = "train.csv"
	testTable  = "test.csv"
	baseFolder = "base"
)

// fetch returns the folder of a model: a folder as it is, a repository of the Hub from the cache.
func fetch(ctx context.Context, base string) (string, error) {
	if info, err := os.Stat(base); err == nil && info.IsDir() {
		return base, nil
	}
	repo, err := hub.Fetch(ctx, base, nil)
	if err != nil {
		return "", fmt.Errorf("%s is no folder, and as a repository: %w", base, err)
	}
	return repo.Dir, nil
}

// OCRDataset is Hezar's data set in the form that the model takes: pixels and a text, in the order
// in which it is read from the picture.
type OCRDataset struct {
	*datasets.OCR
	charset []string
}

func samples(d *datasets.OCR) data.Dataset[crnn.Sample] {
	return OCRDataset{d, datasets.DefaultCharset()}
}

// At opens and prepares a picture.
func (d OCRDataset) At(i int) (crnn.Sample, error) {
	s, err := d.OCR.At(i)
	if err != nil {
		return crnn.Sample{}, err
	}
	var text strings.Builder
	for _, id := range s.Labels {
		text.WriteString(d.charset[id])
	}
	return crnn.Sample{Pixels: s.Pixels, Text: text.String()}, nil
}

// datasetConfig is the dataset_config.yaml of a data set that Hezar reads from the same files.
func datasetConfig(dir string, o datasets.OCROptions) omegaconf.Map {
	labels := omegaconf.Map{}
	for id, text := range datasets.DefaultCharset() {
		labels = append(labels, omegaconf.Item{Key: id, Value: text})
	}
	files := omegaconf.Map{{Key: "train", Value: filepath.Join(dir, trainTable)},
		{Key: "test", Value: filepath.Join(dir, testTable)}}
	return omegaconf.Map{
		{Key: "name", Value: "ocr"}, {Key: "config_type", Value: "dataset"}, {Key: "path", Value: "csv"},
		{Key: "task", Value: "image2text"},
		{Key: "hf_load_kwargs", Value: omegaconf.Map{{Key: "data_files", Value: files}}}, {Key: "text_split_type",
			Value: "char_split"}, {Key: "id2label", Value: labels},
		{Key: "text_column", Value: "label"}, {Key: "images_paths_column", Value: "image_path"},
		{Key: "max_length", Value: o.MaxLength}, {Key: "reverse_digits", Value: o.ReverseDigits},
	}
}
