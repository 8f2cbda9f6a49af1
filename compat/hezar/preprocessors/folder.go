package preprocessors

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// Hezar's file names.
const (
	Folder             = "preprocessor"
	ImageProcessorFile = "image_processor_config.yaml"
	NormalizerFile     = "normalizer_config.yaml"
	TokenizerFile      = "tokenizer_config.yaml"
)

// configType is an entry in the files of all preprocessors.
var configType = omegaconf.Item{Key: "config_type", Value: "preprocessor"}

// Set holds the preprocessors of a model; those that it lacks are nil: Hezar's
// PreprocessorsContainer.
type Set struct {
	Image      *ImageProcessor
	Normalizer *hezar.Normalizer
	Tokenizer  *hezar.Tokenizer

	tokenizerConfig omegaconf.Map // the whole file, most of which concerns training a vocabulary
}

// Load reads the folder preprocessor/ in a model's folder. If a file is missing, its field is nil;
// unknown kinds of preprocessors, such as an audio feature extractor, are ignored.
func Load(dir string) (*Set, error) {
	s := &Set{}
	dir = filepath.Join(dir, Folder)
	for _, part := range []struct {
		file string
		make func(m omegaconf.Map) error
	}{
		{ImageProcessorFile, func(m omegaconf.Map) error {
			c, err := ParseImageProcessor(m)
			if err == nil {
				s.Image, err = NewImageProcessor(c)
			}
			return err
		}},
		{NormalizerFile, func(omegaconf.Map) (err error) {
			s.Normalizer, err = hezar.LoadNormalizer(dir)
			return err
		}},
		{TokenizerFile, func(m omegaconf.Map) (err error) {
			s.tokenizerConfig = m
			s.Tokenizer, err = hezar.LoadTokenizer(dir)
			return err
		}},
	} {
		path := filepath.Join(dir, part.file)
		m, err := configfile.Load(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("preprocessors: %w", err)
		}
		if err := part.make(m); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return s, nil
}

// Save writes the folder preprocessor/ into a model's folder, in the form that Hezar and [Load]
// read.
func (s *Set) Save(dir string) error {
	dir = filepath.Join(dir, Folder)
	files := map[string]omegaconf.Map{}
	if s.Image != nil {
		files[ImageProcessorFile] = s.Image.Config.Map()
	}
	if s.Normalizer != nil {
		files[NormalizerFile] = normalizerMap(s.Normalizer.Config)
	}
	if s.Tokenizer != nil {
		files[TokenizerFile] = s.tokenizerMap()
	}
	for name, m := range files {
		if err := configfile.Save(filepath.Join(dir, name), m); err != nil {
			return fmt.Errorf("preprocessors: %w", err)
		}
	}
	if s.Tokenizer == nil {
		return nil
	}
	return s.Tokenizer.Save(dir)
}

func normalizerMap(c hezar.NormalizerConfig) omegaconf.Map {
	m := omegaconf.Map{{Key: "name", Value: "text_normalizer"}, configType}
	if c.ReplacePatterns != nil {
		patterns := []any{}
		for _, p := range c.ReplacePatterns {
			patterns = append(patterns, p[:])
		}
		m.Set("replace_patterns", patterns)
	}
	m.Set("nfkd", c.NFKD == nil || *c.NFKD)
	m.Set("nfkc", c.NFKC == nil || *c.NFKC)
	return m
}

// tokenizerMap returns the content of the tokenizer's file, or Hezar's defaults, updated with the
// tokenizer's config.
func (s *Set) tokenizerMap() omegaconf.Map {
	c := s.Tokenizer.Config
	m := append(omegaconf.Map{}, s.tokenizerConfig...)
	if len(m) == 0 {
		m = omegaconf.Map{{Key: "name", Value: c.Name}, configType}
		if c.Name == "wordpiece_tokenizer" {
			m = append(m, omegaconf.Map{
				{Key: "unk_token", Value: "[UNK]"}, {Key: "sep_token", Value: "[SEP]"}, {Key: "cls_token", Value: "[CLS]"},
				{Key: "mask_token", Value: "[MASK]"}, {Key: "wordpieces_prefix", Value: "##"},
			}...)
		}
	}
	size := s.Tokenizer.VocabSize()
	for _, item := range configfile.Encode(configfile.Fields("name", &c.Name, "truncation_side", &c.TruncationSide,
		"padding_side", &c.PaddingSide, "stride", &c.Stride, "pad_token_type_id", &c.PadTokenTypeID,
		"pad_token", &c.PadToken, "vocab_size", &size)) {
		m.Set(item.Key.(string), item.Value)
	}
	return m
}
