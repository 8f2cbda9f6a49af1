package crnn

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Config describes a model. The zero value of a field means Hezar's default, given in its comment.
type Config struct {
	// Charset is the text of each class. Class 0 is CTC's blank and its text is empty. Required.
	// Two classes may have the same text, as the letter ه has in Hezar's plates: both are read as
	// that text, and labels use the later class.
	Charset []string

	Channels    int64 // of the pictures: 1 (grey), or 3; zero: 1
	ImageHeight int64 // in pixels, at least 16; zero: 32. Rows beyond a multiple of 16 are ignored
	ImageWidth  int64 // in pixels, at least 4; zero: 128. Columns beyond a multiple of 4 are ignored

	// ConvChannels are the widths of the seven convolutions; nil: 64, 128, 256, 256, 512, 512, 512.
	ConvChannels []int64
	// NormalizeAll applies the batch normalisation of every block. In Hezar's model each of the
	// seven blocks has one, but only those of the fifth and sixth are applied.
	NormalizeAll bool

	Map2SeqDim int64 // width of the sequence that the LSTMs read; zero: 64
	RNNDim     int64 // width of each direction of the LSTMs; zero: 256

	// Dropout zeroes this share of the sequence before each LSTM and before the classifier while
	// training; zero, as in Hezar: none. Without it, a few hundred pictures are memorized.
	Dropout float64

	// ReverseDigits says that runs of digits are learned in reverse and reversed back in what Read
	// returns.
	ReverseDigits bool

	// Mean and Std of pixel values from 0 to 1; both zero: 0.5 and 0.5.
	Mean, Std float64
	// Standardize subtracts each picture's own mean and divides by its own standard deviation plus
	// 4 grey levels, instead of using Mean and Std. Dark and bright pictures then look alike, and
	// models learn to read them in fewer updates.
	Standardize bool
}

var hezarChannels = []int64{64, 128, 256, 256, 512, 512, 512}

// blank is CTC's class for "no new character".
const blank = 0

func (c Config) resolved() (Config, error) {
	for _, f := range []struct {
		value    *int64
		fallback int64
		name     string
	}{
		{&c.Channels, 1, "Channels"}, {&c.ImageHeight, 32, "ImageHeight"}, {&c.ImageWidth, 128, "ImageWidth"},
		{&c.Map2SeqDim, 64, "Map2SeqDim"}, {&c.RNNDim, 256, "RNNDim"},
	} {
		if *f.value == 0 {
			*f.value = f.fallback
		}
		if *f.value < 0 {
			return c, fmt.Errorf("crnn: Config.%s is %d; want a positive number", f.name, *f.value)
		}
	}
	if c.ConvChannels == nil {
		c.ConvChannels = hezarChannels
	}
	if c.Std == 0 && c.Mean != 0 {
		return c, fmt.Errorf("crnn: Config.Mean is %g, but Std is 0; set both, or none for 0.5 and 0.5", c.Mean)
	}
	if c.Std == 0 {
		c.Mean, c.Std = 0.5, 0.5
	}
	switch {
	case len(c.Charset) < 2:
		return c, fmt.Errorf("crnn: Config.Charset has %d classes; want the blank and at least one character",
			len(c.Charset))
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return c, fmt.Errorf("crnn: Config.Dropout is %g; want 0 to less than 1", c.Dropout)
	case len(c.ConvChannels) != len(hezarChannels):
		return c, fmt.Errorf("crnn: Config.ConvChannels has %d widths; the model has %d convolutions",
			len(c.ConvChannels), len(hezarChannels))
	case c.ImageHeight < 16:
		return c, fmt.Errorf("crnn: Config.ImageHeight is %d; four poolings halve it, so it must be at least 16",
			c.ImageHeight)
	case c.ImageWidth < 4:
		return c, fmt.Errorf("crnn: Config.ImageWidth is %d; two poolings halve it, so it must be at least 4",
			c.ImageWidth)
	}
	return c, nil
}

// Frames returns how many steps the LSTMs read. That is the length of the longest label a picture
// can have, less one for each character that repeats the previous one.
func (c Config) Frames() int64 { return c.ImageWidth / 4 }

// pixels returns the number of values of an image.
func (c Config) pixels() int { return int(c.Channels * c.ImageHeight * c.ImageWidth) }

// index maps each character to its class. If a character occurs twice, the later class is used.
func (c Config) index() map[string]int64 {
	index := make(map[string]int64, len(c.Charset))
	for i, t := range c.Charset {
		index[t] = int64(i)
	}
	return index
}

// encode returns the classes of a text, or an error that names the first character that has none.
func encode(index map[string]int64, text string) ([]int64, error) {
	ids := make([]int64, 0, len(text))
	for _, r := range text {
		id, ok := index[string(r)]
		if !ok || id == blank {
			return nil, fmt.Errorf("the charset has no character %q (U+%04X)", r, r)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// checkLabel returns an error for a label that cannot be aligned with the frames of an image.
func (c Config) checkLabel(ids []int64) error {
	need := int64(len(ids))
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			need++
		}
	}
	if len(ids) == 0 {
		return fmt.Errorf("the label is empty")
	}
	if need > c.Frames() {
		return fmt.Errorf("the label needs %d frames (one for each of its %d characters and one between equal "+
			"neighbours), but a picture %d pixels wide has %d", need, len(ids), c.ImageWidth, c.Frames())
	}
	return nil
}

// file is the content of config.json, with Hezar's keys if it has the setting.
type file struct {
	Name          string            `json:"name"`
	ID2Label      map[string]string `json:"id2label"`
	BlankID       int               `json:"blank_id"`
	Channels      int64             `json:"n_channels"`
	ImageHeight   int64             `json:"image_height"`
	ImageWidth    int64             `json:"image_width"`
	Map2SeqIn     int64             `json:"map2seq_in_dim"`
	Map2SeqOut    int64             `json:"map2seq_out_dim"`
	RNNDim        int64             `json:"rnn_dim"`
	ReverseDigits bool              `json:"reverse_output_digits"`
	ConvChannels  []int64           `json:"conv_channels,omitempty"`
	NormalizeAll  bool              `json:"normalize_all,omitempty"`
	Mean          float64           `json:"mean"`
	Std           float64           `json:"std"`
	Standardize   bool              `json:"standardize,omitempty"`
	Dropout       float64           `json:"dropout,omitempty"`
}

const (
	configName = "config.json"
	kindName   = "crnn_image2text"
	maxConfig  = 4 << 20 // far above the size of any config file
)

// WriteConfig writes config.json into dir.
func (c Config) WriteConfig(dir string) error {
	f := file{
		Name: kindName, ID2Label: map[string]string{}, BlankID: blank, Channels: c.Channels, ImageHeight: c.ImageHeight,
		ImageWidth: c.ImageWidth,
		Map2SeqIn:  c.map2SeqIn(), Map2SeqOut: c.Map2SeqDim, RNNDim: c.RNNDim, ReverseDigits: c.ReverseDigits,
		ConvChannels: c.ConvChannels, NormalizeAll: c.NormalizeAll, Mean: c.Mean, Std: c.Std,
		Standardize: c.Standardize, Dropout: c.Dropout,
	}
	for i, text := range c.Charset {
		f.ID2Label[strconv.Itoa(i)] = text
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("crnn: %w", err)
	}
	return renameio.WriteFile(filepath.Join(dir, configName), append(text, '\n'), 0o644, renameio.WithTempDir(dir))
}

// ReadConfig reads config.json from dir.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, configName)
	text, err := regularfile.ReadFile(path, maxConfig)
	if err != nil {
		return Config{}, fmt.Errorf("crnn: %w", err)
	}
	return parseConfig(text, path)
}

// parseConfig decodes the content of a config file. path is for errors.
func parseConfig(text []byte, path string) (Config, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return Config{}, fmt.Errorf("crnn: %s: %w", path, err)
	}
	if f.Name != kindName {
		return Config{}, fmt.Errorf("crnn: %s describes a model of kind %q; want %q", path, f.Name, kindName)
	}
	c := Config{
		Charset: make([]string, len(f.ID2Label)), Channels: f.Channels, ImageHeight: f.ImageHeight,
		ImageWidth:   f.ImageWidth,
		ConvChannels: f.ConvChannels, NormalizeAll: f.NormalizeAll, Map2SeqDim: f.Map2SeqOut, RNNDim: f.RNNDim,
		ReverseDigits: f.ReverseDigits, Mean: f.Mean, Std: f.Std, Standardize: f.Standardize, Dropout: f.Dropout,
	}
	if f.BlankID != blank {
		return Config{}, fmt.Errorf("crnn: %s: blank_id is %d; only %d is supported", path, f.BlankID, blank)
	}
	for key, text := range f.ID2Label {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(c.Charset) {
			return Config{}, fmt.Errorf("crnn: %s: id2label has the key %q; want the numbers 0 to %d", path, key,
				len(c.Charset)-1)
		}
		c.Charset[i] = text
	}
	c, err := c.resolved()
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	if f.Map2SeqIn != 0 && f.Map2SeqIn != c.map2SeqIn() {
		return Config{}, fmt.Errorf("crnn: %s: map2seq_in_dim is %d, but pictures %d pixels high give %d", path,
			f.Map2SeqIn, c.ImageHeight, c.map2SeqIn())
	}
	return c, nil
}

// map2SeqIn returns the number of features of a column: the channels of the last convolution times
// the height after four halvings.
func (c Config) map2SeqIn() int64 {
	return c.ConvChannels[len(c.ConvChannels)-1] * (c.ImageHeight / 16)
}
