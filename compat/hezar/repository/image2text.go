package repository

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/models/crnn"
)

// crnnKind is the name of CRNNImage2Text.
const crnnKind = "crnn_image2text"

// features is the number of output channels of the last convolution in Hezar's CRNN.
const features = 512

// crnnFields returns the keys of a CRNN's model_config.yaml in Hezar's order. in is map2seq_in_dim.
func crnnFields(c *crnn.Config, blank, in *int64) []configfile.Field {
	return configfile.Fields("name", configfile.Const(crnnKind), "config_type", configfile.Const("model"),
		"id2label", (*configfile.Labels)(&c.Charset), "blank_id", blank, "n_channels", &c.Channels,
		"image_height", &c.ImageHeight, "image_width", &c.ImageWidth, "map2seq_in_dim", in,
		"map2seq_out_dim", &c.Map2SeqDim, "rnn_dim", &c.RNNDim, "reverse_output_digits", &c.ReverseDigits)
}

// CRNNConfig converts the config of one of Hezar's models. Hezar's model ignores image_height and
// image_width: map2seq_in_dim determines the height, up to the remainder of a division by 16. The
// size is therefore that of the image processor, or else image_width and the smallest possible
// height.
func CRNNConfig(m omegaconf.Map, image *preprocessors.ImageProcessor) (crnn.Config, error) {
	c := crnn.Config{Channels: 1, ImageWidth: 128, Map2SeqDim: 64, RNNDim: 256} // Hezar's defaults
	blank, in := int64(0), int64(2048)
	err := configfile.Decode(m, crnnFields(&c, &blank, &in))
	switch {
	case err != nil:
	case in <= 0 || in%features != 0:
		err = fmt.Errorf("map2seq_in_dim is %d; want a multiple of the %d channels of the last convolution", in,
			features)
	case blank != 0:
		err = fmt.Errorf("blank_id is %d; want 0: Hezar's loss takes no other", blank)
	case c.Charset == nil:
		err = fmt.Errorf("id2label is %v; %w", nil, (*configfile.Labels)(nil).Decode(nil))
	}
	if err != nil {
		return crnn.Config{}, err
	}
	c.ImageHeight = in / features * 16
	if image == nil {
		return c, nil
	}
	p := image.Config
	if p.Width > 0 {
		c.ImageWidth = int64(p.Width)
	}
	if p.Height > 0 {
		if int64(p.Height)/16 != c.ImageHeight/16 {
			return crnn.Config{}, fmt.Errorf("map2seq_in_dim is %d, for pictures %d pixels high, but the image "+
				"processor makes them %d", in, c.ImageHeight, p.Height)
		}
		c.ImageHeight = int64(p.Height)
	}
	if len(p.Mean) == 1 && len(p.Std) == 1 {
		c.Mean, c.Std = p.Mean[0], p.Std[0]
	}
	return c, nil
}

// CRNNMap returns the config of a model in Hezar's form.
func CRNNMap(c crnn.Config) omegaconf.Map {
	in := c.ConvChannels[len(c.ConvChannels)-1] * (c.ImageHeight / 16)
	m := configfile.Encode(crnnFields(&c, new(int64(0)), &in))
	if !c.ReverseDigits {
		m = m[:len(m)-1]
	}
	return m
}

// Reader makes a Model from an existing CRNN, such as one in training.
func Reader(model *crnn.Model, set *preprocessors.Set) *Model {
	if set == nil {
		set = &preprocessors.Set{}
	}
	return &Model{Preprocessors: set, CRNN: model, config: CRNNMap(model.Config()), kind: crnnKind}
}

// loadable refuses a CRNN that Hezar's class cannot represent.
func loadable(c crnn.Config) error {
	if widths := []int64{64, 128, 256, 256, 512, 512, 512}; !slices.Equal(c.ConvChannels, widths) {
		return fmt.Errorf("repository: the model's convolutions have %v channels, Hezar's %v; it cannot load this model",
			c.ConvChannels, widths)
	}
	if c.NormalizeAll || c.Standardize {
		return errors.New("repository: the model has NormalizeAll or Standardize set, which Hezar's does not have; it " +
			"would read something else")
	}
	return nil
}
