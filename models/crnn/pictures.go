package crnn

import (
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/vision"
)

// File is a picture file and the text that it shows.
type File struct{ Path, Text string }

// Picture is a decoded picture of the model's size and the text that it shows.
type Picture struct {
	Image *vision.Image
	Text  string
}

// PictureOptions configures [OpenPictures].
type PictureOptions struct {
	Filter vision.Filter // for resizing; zero: bicubic, as in Pillow and Hezar
	// SkipBad is called for each picture that cannot be used; the others are kept. If it is nil, a
	// single bad picture is an error.
	SkipBad func(f File, err error)
}

// BadPicturesError lists the pictures that cannot be used for training, and why.
type BadPicturesError struct {
	Files []File
	Errs  []error // parallel to Files
	Total int     // number of pictures checked
}

func (e *BadPicturesError) Error() string {
	const shown = 5
	var b strings.Builder
	fmt.Fprintf(&b, "crnn: %d of %d pictures cannot be used", len(e.Files), e.Total)
	for i := range min(shown, len(e.Files)) {
		fmt.Fprintf(&b, "\n  %s (label %q): %v", e.Files[i].Path, e.Files[i].Text, e.Errs[i])
	}
	if more := len(e.Files) - shown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *BadPicturesError) Unwrap() []error { return e.Errs }

// OpenPictures decodes files, converts them to the channels of the model and resizes them,
// whatever their aspect ratio. It does so at once and keeps the results, one byte per value, so
// that a file that cannot be read, a character outside the charset or a label too long for the
// frames is found before the first step.
func OpenPictures(files []File, c Config, o PictureOptions) (data.Dataset[Picture], error) {
	c, err := c.resolved()
	if err != nil {
		return nil, err
	}
	index := c.index()
	pictures, errs := make([]Picture, len(files)), make([]error, len(files))
	var wait sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := range next {
				pictures[i], errs[i] = c.open(files[i], index, o.Filter)
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	wait.Wait()
	return collect(files, pictures, errs, o.SkipBad)
}

func collect(files []File, pictures []Picture, errs []error, skip func(File, error)) (data.Dataset[Picture], error) {
	var good []Picture
	bad := &BadPicturesError{Total: len(files)}
	for i, err := range errs {
		switch {
		case err == nil:
			good = append(good, pictures[i])
		case skip != nil:
			skip(files[i], err)
		default:
			bad.Files, bad.Errs = append(bad.Files, files[i]), append(bad.Errs, err)
		}
	}
	if len(bad.Files) > 0 {
		return nil, bad
	}
	if len(good) == 0 {
		return nil, fmt.Errorf("crnn: there is not one picture to learn from (of %d files)", len(files))
	}
	return data.Slice[Picture](good), nil
}

func (c Config) open(f File, index map[string]int64, filter vision.Filter) (Picture, error) {
	ids, err := encode(index, f.Text)
	if err != nil {
		return Picture{}, err
	}
	if err := c.checkLabel(ids); err != nil {
		return Picture{}, err
	}
	image, err := c.OpenImage(f.Path, filter)
	return Picture{image, f.Text}, err
}

// OpenImage decodes a picture file and converts it to the channels and the size of the model.
func (c Config) OpenImage(path string, filter vision.Filter) (*vision.Image, error) {
	return c.FitImage(path, filter)
}

// FitImage converts a picture to the channels and the size of the model. The picture is the path
// of a file, the bytes of one, an image.Image or a *vision.Image.
func (c Config) FitImage(picture any, filter vision.Filter) (*vision.Image, error) {
	image, err := vision.From(picture)
	if err != nil {
		return nil, err
	}
	if image = image.RGB(); c.Channels == 1 {
		image = image.Gray()
	}
	return image.Resized(int(c.ImageWidth), int(c.ImageHeight), filter)
}

// Pixels normalises a picture of the model's size for [Sample].Pixels.
func (c Config) Pixels(image *vision.Image) ([]float32, error) {
	write, err := c.normalizer()
	if err != nil {
		return nil, err
	}
	pixels := make([]float32, c.pixels())
	return pixels, write(pixels, image)
}

// Samples returns a data set of the pictures, each normalised when it is read.
func (c Config) Samples(d data.Dataset[Picture]) (data.Dataset[Sample], error) {
	write, err := c.normalizer()
	if err != nil {
		return nil, err
	}
	return data.Map(d, func(p Picture) (Sample, error) {
		s := Sample{Pixels: make([]float32, c.pixels()), Text: p.Text}
		return s, write(s.Pixels, p.Image)
	}), nil
}

// normalizer returns the function that converts an image to the numbers that the model sees.
func (c Config) normalizer() (func(dst []float32, image *vision.Image) error, error) {
	if c.Standardize {
		return func(dst []float32, image *vision.Image) error {
			return vision.Standardize(dst, image, standardizeFloor)
		}, nil
	}
	n, err := vision.NewNormalizer(int(c.Channels), 1/255., []float64{c.Mean}, []float64{c.Std})
	if err != nil {
		return nil, fmt.Errorf("crnn: %w", err)
	}
	return n.Normalize, nil
}

// standardizeFloor prevents the noise in an image without contrast from being amplified too much.
const standardizeFloor = 4
