package repository

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// crnnName is the name in Hezar's registry.
const crnnName = "crnn_image2text"

// Image2Text is a model that reads pictures, with its preprocessors.
type Image2Text struct {
	Model         *crnn.Model
	Preprocessors *preprocessors.Set
}

// LoadImage2Text reads the folder of a CRNN.
func LoadImage2Text(dir string) (*Image2Text, error) {
	m, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	set, err := preprocessors.Load(dir)
	if err != nil {
		return nil, err
	}
	c, err := CRNNConfig(m, set.Image)
	if err != nil {
		return nil, fmt.Errorf("repository: %s: %w", filepath.Join(dir, ConfigFile), err)
	}
	model, err := crnn.New(c)
	if err != nil {
		return nil, fmt.Errorf("repository: %s: %w", filepath.Join(dir, ConfigFile), err)
	}
	return &Image2Text{model, set}, loadWeights(dir, model)
}

// Save writes the folder, for Hezar's Model.load and [LoadImage2Text] to read.
func (r *Image2Text) Save(dir string) error {
	m, err := crnnMap(r.Model.Config())
	if err != nil {
		return err
	}
	if err := WriteModel(dir, r.Model, m); err != nil {
		return err
	}
	if r.Preprocessors == nil {
		return nil
	}
	return r.Preprocessors.Save(dir)
}

// Predict reads picture files, in one batch: Model.predict. A model that is being trained must not
// be asked at the same time.
func (r *Image2Text) Predict(paths ...string) (readings []crnn.Reading, err error) {
	if r.Preprocessors == nil || r.Preprocessors.Image == nil {
		return nil, errors.New("repository: the model has no image processor to open pictures with")
	}
	if len(paths) == 0 {
		return nil, nil
	}
	var all []float32
	var first [3]int
	for i, path := range paths {
		pixels, shape, err := r.Preprocessors.Image.Open(path)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = shape
		}
		if shape != first {
			return nil, fmt.Errorf("repository: %s becomes %v values, the first picture %v; want one size for all, "+
				"as the image processor's size gives", path, shape, first)
		}
		all = append(all, pixels...)
	}
	nn.SetTraining(r.Model, false)
	err = torch.Try(func() {
		torch.InferenceMode(func() {
			torch.Scope(func() {
				x := torch.From(all, int64(len(paths)), int64(first[0]), int64(first[1]), int64(first[2]))
				readings = r.Model.Readings(r.Model.Forward(x.ToDevice(r.Model.Map2Seq.Weight.Device())))
			})
		})
	})
	return readings, err
}

// features are the channels that the last convolution of Hezar's CRNN has.
const features = 512

// CRNNConfig makes the config of a model of Hezar's. Hezar's image_height and image_width mean
// nothing to its model, whose map2seq_in_dim says for which height it is made; the width is that of
// the image processor, or else image_width.
func CRNNConfig(m omegaconf.Map, image *preprocessors.ImageProcessor) (crnn.Config, error) {
	v := values{m: m}
	if name, ok := m.Get("name"); ok && name != crnnName {
		return crnn.Config{}, fmt.Errorf("name is %v; want %s", name, crnnName)
	}
	in := v.integer("map2seq_in_dim", 2048)
	if in <= 0 || in%features != 0 {
		v.fail("map2seq_in_dim", fmt.Sprintf("a multiple of the %d channels of the last convolution", features))
	}
	if v.integer("blank_id", 0) != 0 {
		v.fail("blank_id", "0: Hezar's loss takes no other")
	}
	c := crnn.Config{
		Charset: v.labels(), Channels: v.integer("n_channels", 1), ImageHeight: in / features * 16,
		ImageWidth: v.integer("image_width", 128),
		Map2SeqDim: v.integer("map2seq_out_dim", 64), RNNDim: v.integer("rnn_dim", 256),
		ReverseDigits: v.boolean("reverse_output_digits"),
	}
	if v.err != nil {
		return crnn.Config{}, v.err
	}
	if image == nil {
		return c, nil
	}
	p := image.Config
	if p.Width > 0 {
		c.ImageWidth = int64(p.Width) / 4 * 4 // what is left over when it is halved twice is not seen
	}
	if p.Height > 0 && int64(p.Height)/16 != c.ImageHeight/16 {
		return crnn.Config{}, fmt.Errorf("map2seq_in_dim is %d, for pictures %d pixels high, but the image processor "+
			"makes them %d", in, c.ImageHeight, p.Height)
	}
	if len(p.Mean) == 1 && len(p.Std) == 1 {
		c.Mean, c.Std = p.Mean[0], p.Std[0]
	}
	return c, nil
}

// crnnMap is the config as Hezar writes it. It refuses a model that Hezar cannot build.
func crnnMap(c crnn.Config) (omegaconf.Map, error) {
	widths := []int64{64, 128, 256, 256, 512, 512, 512}
	for i, w := range c.ConvChannels {
		if w != widths[i] {
			return nil, fmt.Errorf("repository: the model's convolutions have %v channels, Hezar's %v; it cannot "+
				"load this model", c.ConvChannels, widths)
		}
	}
	if c.NormalizeAll || c.Standardize {
		return nil, errors.New("repository: the model has NormalizeAll or Standardize set, which Hezar's does not " +
			"have; it would read something else")
	}
	m := omegaconf.Map{
		{Key: "name", Value: crnnName}, {Key: "config_type", Value: "model"},
		{Key: "id2label", Value: labelMap(c.Charset)}, {Key: "blank_id", Value: 0},
		{Key: "n_channels", Value: c.Channels}, {Key: "image_height", Value: c.ImageHeight},
		{Key: "image_width", Value: c.ImageWidth},
		{Key: "map2seq_in_dim", Value: c.ImageHeight / 16 * features}, {Key: "map2seq_out_dim", Value: c.Map2SeqDim},
		{Key: "rnn_dim", Value: c.RNNDim},
	}
	if c.ReverseDigits {
		m.Set("reverse_output_digits", true)
	}
	return m, nil
}
