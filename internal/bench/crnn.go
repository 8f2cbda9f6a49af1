package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

func trainCRNN(o settings, w workload, r *recorder) error {
	folder := filepath.Join(o.data, "cn_plates")
	charset, err := readCharset(filepath.Join(folder, "lprnet_charset.txt"))
	if err != nil {
		return err
	}
	torch.ManualSeed(seed)
	model, err := crnn.New(crnn.Config{Charset: charset})
	if err != nil {
		return err
	}
	model.UseChannelsLast()
	set, err := table.Open(filepath.Join(folder, "train.tsv"), table.Options{Header: true})
	if err != nil {
		return err
	}
	samples := make(data.Slice[crnn.Sample], set.Len())
	for i := range samples {
		row, err := set.At(i)
		if err != nil {
			return err
		}
		image, err := plate(row.Path)
		if err != nil {
			return err
		}
		pixels, err := model.Config().Pixels(image)
		if err != nil {
			return err
		}
		samples[i] = crnn.Sample{Pixels: pixels, Text: row.Label}
	}
	return fit(o, w, r, crnn.NewTask(model), samples)
}

// readCharset reads the classes of the plates: the blank, then one character per line; the last
// line of the file is its own blank.
func readCharset(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	characters := strings.Fields(string(text))
	if len(characters) < 2 {
		return nil, fmt.Errorf("%s has %d characters; want some, and a blank", path, len(characters))
	}
	return append([]string{""}, characters[:len(characters)-1]...), nil
}

// plate makes a picture with a height of 32 pixels and the original aspect ratio, padded with black
// on the right.
func plate(path string) (*vision.Image, error) {
	image, err := vision.Open(path, vision.DecodeOptions{Gray: true})
	if err != nil {
		return nil, err
	}
	width := min(128, max(1, int(math.RoundToEven(float64(image.Width)*32/float64(image.Height)))))
	if image, err = image.Resized(width, 32, vision.Bilinear); err != nil {
		return nil, err
	}
	return image.Pad(0, 0, 128-width, 0, 0)
}
