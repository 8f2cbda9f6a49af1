package preprocessors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// Names of Hezar's files.
const (
	Folder             = "preprocessor"
	ImageProcessorFile = "image_processor_config.yaml"
	NormalizerFile     = "normalizer_config.yaml"
	TokenizerFile      = "tokenizer_config.yaml"
)

// Set are the preprocessors of a model; nil for one that it does not have. Hezar calls it
// PreprocessorsContainer.
type Set struct {
	Image      *ImageProcessor
	Normalizer *hezar.Normalizer
	Tokenizer  *hezar.Tokenizer

	tokenizerConfig omegaconf.Map // all of its file, most of which is about training a vocabulary
}

// Load reads the folder preprocessor/ of a model's folder. A file that is not there leaves its
// field nil; one of another kind, such as an audio feature extractor, is passed over.
func Load(dir string) (*Set, error) {
	s := &Set{}
	dir = filepath.Join(dir, Folder)
	m, err := read(filepath.Join(dir, ImageProcessorFile))
	if err != nil {
		return nil, err
	}
	if m != nil {
		c, err := ParseImageProcessor(m)
		if err == nil {
			s.Image, err = NewImageProcessor(c)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ImageProcessorFile), err)
		}
	}
	if m, err = read(filepath.Join(dir, NormalizerFile)); err != nil {
		return nil, err
	} else if m != nil {
		if s.Normalizer, err = hezar.LoadNormalizer(dir); err != nil {
			return nil, err
		}
	}
	if s.tokenizerConfig, err = read(filepath.Join(dir, TokenizerFile)); err != nil {
		return nil, err
	} else if s.tokenizerConfig != nil {
		if s.Tokenizer, err = hezar.LoadTokenizer(dir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// maxConfig is far above any config.
const maxConfig = 1 << 20

// read reads a YAML file; nil without an error if there is none.
func read(path string) (omegaconf.Map, error) {
	text, err := regularfile.ReadFile(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("preprocessors: %w", err)
	}
	m, err := omegaconf.Unmarshal(text)
	if err != nil {
		return nil, fmt.Errorf("preprocessors: %s: %w", path, err)
	}
	if m == nil {
		m = omegaconf.Map{}
	}
	return m, nil
}

// Save writes the folder preprocessor/ into a model's folder, for Hezar and [Load] to read.
func (s *Set) Save(dir string) error {
	dir = filepath.Join(dir, Folder)
	if s.Image == nil && s.Normalizer == nil && s.Tokenizer == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("preprocessors: %w", err)
	}
	if s.Image != nil {
		if err := write(filepath.Join(dir, ImageProcessorFile), s.Image.Config.Map()); err != nil {
			return err
		}
	}
	if s.Normalizer != nil {
		if err := write(filepath.Join(dir, NormalizerFile), normalizerMap(s.Normalizer.Config)); err != nil {
			return err
		}
	}
	if s.Tokenizer == nil {
		return nil
	}
	if err := write(filepath.Join(dir, TokenizerFile), s.tokenizerMap()); err != nil {
		return err
	}
	return s.Tokenizer.Save(dir)
}

func write(path string, m omegaconf.Map) error {
	text, err := omegaconf.Marshal(m)
	if err == nil {
		err = renameio.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("preprocessors: %s: %w", path, err)
	}
	return nil
}

func normalizerMap(c hezar.NormalizerConfig) omegaconf.Map {
	m := omegaconf.Map{{Key: "name", Value: "text_normalizer"}, {Key: "config_type", Value: "preprocessor"}}
	if c.ReplacePatterns != nil {
		patterns := []any{}
		for _, p := range c.ReplacePatterns {
			patterns = append(patterns, []any{p[0], p[1]})
		}
		m.Set("replace_patterns", patterns)
	}
	m.Set("nfkd", c.NFKD == nil || *c.NFKD)
	m.Set("nfkc", c.NFKC == nil || *c.NFKC)
	return m
}

// tokenizerMap is the file's content, with what the tokenizer's config says now. Without a file it
// is Hezar's defaults of the kind.
func (s *Set) tokenizerMap() omegaconf.Map {
	c := s.Tokenizer.Config
	m := append(omegaconf.Map{}, s.tokenizerConfig...)
	if len(m) == 0 {
		m = omegaconf.Map{{Key: "name", Value: c.Name}, {Key: "config_type", Value: "preprocessor"}}
		if c.Name == "wordpiece_tokenizer" {
			for _, token := range [][2]string{{"unk_token", "[UNK]"}, {"sep_token", "[SEP]"}, {"cls_token", "[CLS]"},
				{"mask_token", "[MASK]"}} {
				m.Set(token[0], token[1])
			}
			m.Set("wordpieces_prefix", "##")
		}
	}
	m.Set("name", c.Name)
	for _, item := range []struct {
		key   string
		value any
		set   bool
	}{
		{"truncation_side", c.TruncationSide, c.TruncationSide != ""}, {"padding_side", c.PaddingSide,
			c.PaddingSide != ""}, {"stride", c.Stride, true},
		{"pad_token_type_id", c.PadTokenTypeID, true}, {"pad_token", c.PadToken, c.PadToken != ""},
		{"vocab_size", s.Tokenizer.VocabSize(), true},
	} {
		if item.set {
			m.Set(item.key, item.value)
		}
	}
	return m
}
