package datasets

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// ConfigFile is Hezar's name for the file.
const ConfigFile = "dataset_config.yaml"

// Names of the data sets in their configs.
const (
	OCRName                = "ocr"
	TextClassificationName = "text_classification"
	SequenceLabelingName   = "sequence_labeling"
	TextSummarizationName  = "text_summarization"
)

// Config is dataset_config.yaml: OCRDatasetConfig, TextClassificationDatasetConfig,
// SequenceLabelingDatasetConfig or TextSummarizationDatasetConfig.
type Config struct {
	Name         string // OCRName, TextClassificationName, SequenceLabelingName or TextSummarizationName
	Path         string
	Task         any           // a name or several
	MaxSize      any           // use only the first samples: their number, or a share of at most 1; nil: all
	HFLoadKwargs omegaconf.Map // read and written, but not used

	// ID2Label holds the texts of the classes. Nil means Hezar's characters for OCR, and otherwise
	// the classes in the files of the data set.
	ID2Label  []string
	MaxLength int // of a text in characters, otherwise in tokens; zero: any

	// For OCR.
	TextSplitType     string // "char_split", the only supported value; empty means the same
	TextColumn        string // empty: label
	ImagesPathsColumn string // empty: image_path
	InvalidCharacters []string
	ReverseText       *bool // read and written; Hezar does not use it
	ReverseDigits     *bool

	LabelField, TextField  string // of text classification; TextField also of text summarization
	TagsField, TokensField string // of sequence labeling
	IgnoreIndex            *int   // read and written: it is -100
	LabelAllTokens         *bool  // nil: true
	// IsIOBSchema says whether tags mark the beginnings of entities, for the metric of a Trainer
	// with this training set; otherwise each token is an entity. Nil means that the model's labels
	// decide, where Hezar assumes false.
	IsIOBSchema *bool

	// For text summarization.
	Prefix          string // prepended to each text
	SummaryField    string
	TitleField      string // read and written; Hezar does not use it
	LabelsMaxLength int    // of a summary in tokens; zero: any
}

// ReadConfig reads the dataset_config.yaml in a folder.
func ReadConfig(dir string) (c Config, err error) {
	path := filepath.Join(dir, ConfigFile)
	m, err := configfile.Load(path)
	if err != nil {
		return c, fmt.Errorf("datasets: %w", err)
	}
	if err = configfile.Decode(m, configfile.Fields("name", &c.Name)); err == nil {
		err = configfile.Decode(m, c.fields())
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return c, fmt.Errorf("datasets: %s: %w", path, err)
	}
	return c, nil
}

func (c *Config) check() error {
	switch {
	case c.Name != OCRName && c.Name != TextClassificationName && c.Name != SequenceLabelingName &&
		c.Name != TextSummarizationName:
		return fmt.Errorf("name is %q; want %s, %s, %s or %s", c.Name, OCRName, TextClassificationName,
			SequenceLabelingName, TextSummarizationName)
	case c.TextSplitType != "" && c.TextSplitType != "char_split":
		return fmt.Errorf("text_split_type is %q; want char_split: labels of tokens are for models that are not here",
			c.TextSplitType)
	case c.IgnoreIndex != nil && *c.IgnoreIndex != IgnoreIndex:
		return fmt.Errorf("ignore_index is %d; want %d, which the loss leaves out", *c.IgnoreIndex, IgnoreIndex)
	}
	_, _, err := c.size()
	return err
}

// fields returns the keys of the file in Hezar's order.
func (c *Config) fields() []configfile.Field {
	fields := configfile.Fields("name", &c.Name, "config_type", configfile.Const("dataset"), "path", &c.Path,
		"task", &c.Task, "max_size", &c.MaxSize, "hf_load_kwargs", &c.HFLoadKwargs)
	labels, length := (*configfile.Labels)(&c.ID2Label), (*configfile.Count)(&c.MaxLength)
	switch c.Name {
	case OCRName:
		return append(fields, configfile.Fields("text_split_type", &c.TextSplitType, "id2label", labels,
			"text_column", &c.TextColumn, "images_paths_column", &c.ImagesPathsColumn, "max_length", length,
			"invalid_characters", &c.InvalidCharacters, "reverse_text", &c.ReverseText,
			"reverse_digits", &c.ReverseDigits)...)
	case TextClassificationName:
		return append(fields, configfile.Fields("label_field", &c.LabelField, "text_field", &c.TextField,
			"max_length", length, "id2label", labels)...)
	case TextSummarizationName:
		return append(fields, configfile.Fields("prefix", &c.Prefix, "text_field", &c.TextField,
			"summary_field", &c.SummaryField, "title_field", &c.TitleField, "max_length", length,
			"labels_max_length", (*configfile.Count)(&c.LabelsMaxLength))...)
	}
	return append(fields, configfile.Fields("tags_field", &c.TagsField, "tokens_field", &c.TokensField,
		"max_length", length, "ignore_index", &c.IgnoreIndex, "label_all_tokens", &c.LabelAllTokens,
		"is_iob_schema", &c.IsIOBSchema, "id2label", labels)...)
}

// Map returns the config as it is in the file, for Options.DatasetConfig of the Trainer.
func (c Config) Map() omegaconf.Map { return configfile.Encode(c.fields()) }

// Write writes dataset_config.yaml into a folder.
func (c Config) Write(dir string) error {
	if err := configfile.Save(filepath.Join(dir, ConfigFile), c.Map()); err != nil {
		return fmt.Errorf("datasets: %w", err)
	}
	return nil
}

// size returns MaxSize as a number or as a share. There is no error if the config was checked.
func (c Config) size() (most int, share float64, err error) {
	switch n := c.MaxSize.(type) {
	case nil:
		return 0, 0, nil
	case int:
		return n, 0, nil
	case int64:
		return int(n), 0, nil
	case float64:
		return 0, n, nil
	}
	return 0, 0, errors.New("max_size is no number; want a number of samples or a share of at most 1")
}
