package vision

import (
	"fmt"
	"math"
)

// Normalizer turns 8-bit samples into the input of a network: (v*scale - mean) / std, channel by
// channel, written channels first. A sample has 256 possible values, so they are computed once, as
// a table, in float64 like numpy.
type Normalizer struct {
	tables [][256]float32 // one for each channel
}

// NewNormalizer makes a normalizer for images with the given number of channels. mean and std
// hold one value for each channel or a single one for all; nil means 0 and 1. The samples are
// multiplied by scale first; 1/255. brings them to 0..1.
func NewNormalizer(channels int, scale float64, mean, std []float64) (*Normalizer, error) {
	// the inner conversion forbids a fused multiply-add
	return finiteNormalizer(channels, scale, mean, std, func(v, m, s float64) float32 {
		return float32((float64(v*scale) - m) / s)
	})
}

// newNormalizer32 is NewNormalizer in float32, like rescale and normalize of transformers.
func newNormalizer32(channels int, scale float64, mean, std []float64) (*Normalizer, error) {
	return finiteNormalizer(channels, scale, mean, std, func(v, m, s float64) float32 {
		return (float32(v*scale) - float32(m)) / float32(s)
	})
}

// finiteNormalizer checks scale, mean and std, and fills the tables with a formula of a sample, its
// mean and std.
func finiteNormalizer(channels int, scale float64, mean, std []float64,
	formula func(v, mean, std float64) float32) (*Normalizer, error) {
	return newNormalizer(channels, mean, std, func(c int, m, s float64) (func(v int) float32, error) {
		if float32(s) == 0 || math.IsNaN(s) || math.IsNaN(m) || math.IsInf(m, 0) || math.IsNaN(scale) ||
			math.IsInf(scale, 0) {
			return nil, fmt.Errorf("vision: normalize channel %d with scale %v, mean %v, std %v: want finite numbers "+
				"and a std that is not zero", c, scale, m, s)
		}
		return func(v int) float32 { return formula(float64(v), m, s) }, nil
	})
}

// newNormalizer fills the table of each channel with the formula of its mean and std.
func newNormalizer(channels int, mean, std []float64,
	formula func(c int, mean, std float64) (func(v int) float32, error)) (*Normalizer, error) {
	n := &Normalizer{make([][256]float32, channels)}
	for c := range n.tables {
		m, err := perChannel("mean", mean, c, channels, 0)
		if err != nil {
			return nil, err
		}
		s, err := perChannel("std", std, c, channels, 1)
		if err != nil {
			return nil, err
		}
		of, err := formula(c, m, s)
		if err != nil {
			return nil, err
		}
		for v := range n.tables[c] {
			n.tables[c][v] = of(v)
		}
	}
	return n, nil
}

// perChannel returns the value for channel c of a list that may hold one value for all channels.
func perChannel(what string, list []float64, c, channels int, missing float64) (float64, error) {
	switch len(list) {
	case 0:
		return missing, nil
	case 1:
		return list[0], nil
	case channels:
		return list[c], nil
	}
	return 0,
		fmt.Errorf("vision: normalize: %d values of %s for %d channels: want one for each channel or a single one",
			len(list), what, channels)
}

// Normalize writes im into dst: all of the first channel by rows, then the second, and so on. It
// returns an error if dst does not have exactly im's number of samples, or im not the normalizer's
// number of channels.
func (n *Normalizer) Normalize(dst []float32, im *Image) error {
	if len(dst) != len(im.Pix) || im.Channels != len(n.tables) {
		return fmt.Errorf("vision: normalize a %v image into %d values: want %d values and an image of %d channels",
			im, len(dst), len(im.Pix), len(n.tables))
	}
	if im.Channels == 1 {
		table := &n.tables[0]
		for i, v := range im.Pix {
			dst[i] = table[v]
		}
		return nil
	}
	plane := im.Width * im.Height
	for c := range n.tables {
		table, out := &n.tables[c], dst[c*plane:][:plane]
		for i := range out {
			out[i] = table[im.Pix[i*im.Channels+c]]
		}
	}
	return nil
}
