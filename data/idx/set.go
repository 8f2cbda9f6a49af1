package idx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/gotrainer/gotrainer/data"
)

// Sample is an image with its label.
type Sample struct {
	Image []byte // Height*Width gray values, row by row, 0 to 255; shared with the set, not to be changed
	Label int
}

// Set is a data set of labelled gray images, held in memory.
type Set struct {
	Height, Width int
	Classes       int // one more than the largest label
	prefix        string
	images        []byte
	labels        []byte
}

// Open reads the images and labels whose file names begin with prefix. For the files as they are
// distributed, prefix is "mnist/train" or "mnist/t10k". The names continue with -images-idx3-ubyte
// and -labels-idx1-ubyte, with a dot or a dash before idx, and with or without .gz.
func Open(prefix string) (*Set, error) {
	images, err := open(prefix+"-images", 3)
	if err != nil {
		return nil, err
	}
	labels, err := open(prefix+"-labels", 1)
	if err != nil {
		return nil, err
	}
	s, err := NewSet(images, labels)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", prefix, err)
	}
	s.prefix = prefix
	return s, nil
}

// NewSet makes a data set from an array of images, uint8[n, height, width], and one of labels,
// uint8[n].
func NewSet(images, labels *Array) (*Set, error) {
	if images.Type != Uint8 || len(images.Shape) != 3 {
		return nil, fmt.Errorf("idx: images are %s of shape %v, expected uint8 of [n, height, width]", images.Type,
			images.Shape)
	}
	if labels.Type != Uint8 || len(labels.Shape) != 1 {
		return nil, fmt.Errorf("idx: labels are %s of shape %v, expected uint8 of [n]", labels.Type, labels.Shape)
	}
	if images.Shape[0] != labels.Shape[0] {
		return nil, fmt.Errorf("idx: %d images but %d labels", images.Shape[0], labels.Shape[0])
	}
	s := &Set{Height: images.Shape[1], Width: images.Shape[2], images: images.Data, labels: labels.Data}
	for _, label := range s.labels {
		s.Classes = max(s.Classes, int(label)+1)
	}
	return s, nil
}

// Len returns the number of images.
func (s *Set) Len() int { return len(s.labels) }

// At returns image i.
func (s *Set) At(i int) (Sample, error) {
	n := s.Height * s.Width
	return Sample{Image: s.images[i*n : (i+1)*n : (i+1)*n], Label: int(s.labels[i])}, nil
}

// Examples returns the images as vectors of Height*Width numbers from 0 (black) to 1, with their
// labels as classes, which is what engine.Classify takes.
func (s *Set) Examples() data.Dataset[data.Example] {
	return data.Map(s, func(sample Sample) (data.Example, error) {
		e := data.Example{Features: make([]float32, len(sample.Image)), Class: int64(sample.Label)}
		for i, grey := range sample.Image {
			e.Features[i] = float32(grey) / 255
		}
		return e, nil
	})
}

// Describe says where sample i comes from.
func (s *Set) Describe(i int) string { return fmt.Sprintf("%s, image %d", s.prefix, i) }

// open reads the first of a file's usual names that exists.
func open(stem string, dims int) (*Array, error) {
	var tried []string
	for _, name := range []string{
		fmt.Sprintf("%s-idx%d-ubyte", stem, dims), fmt.Sprintf("%s-idx%d-ubyte.gz", stem, dims),
		fmt.Sprintf("%s.idx%d-ubyte", stem, dims), fmt.Sprintf("%s.idx%d-ubyte.gz", stem, dims),
	} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			tried = append(tried, name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("idx: %w", err)
		}
		defer f.Close()
		a, err := Read(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return a, nil
	}
	return nil, fmt.Errorf("idx: %w: tried %s", fs.ErrNotExist, strings.Join(tried, ", "))
}
