package datasets

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/parquet"
	"github.com/gotrainer/gotrainer/data/table"
)

// Set is one of Hezar's data sets.
type Set interface {
	*OCR | *TextClassification | *SequenceLabeling | *TextSummarization
}

// LoadOptions are the arguments of Dataset.load.
type LoadOptions struct {
	Preprocessor *preprocessors.Set // of the model; required

	Config *Config              // instead of dataset_config.yaml
	Change func(config *Config) // modifies the config: the keyword arguments of Dataset.load

	// Warnings receives messages about rows that are left out. Nil means standard error; io.Discard
	// means none.
	Warnings io.Writer
}

// Load reads a split of a data set from its folder: dataset_config.yaml, and the Parquet, CSV, TSV
// and JSONL files whose names or folders indicate the split, in the order of their names. The type
// parameter determines which data set it must be. Pictures are in Parquet files, or in files next
// to a table; they are read when a sample is requested.
func Load[D Set](dir, split string, o LoadOptions) (d D, err error) {
	var c Config
	if o.Config != nil {
		c, err = *o.Config, o.Config.check()
	} else if c, err = ReadConfig(dir); errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; give LoadOptions.Config with the name of the data set", err)
	}
	if err == nil && o.Change != nil {
		o.Change(&c)
		err = c.check()
	}
	if err == nil && o.Preprocessor == nil {
		err = errors.New("datasets: LoadOptions.Preprocessor is nil; want that of the model, from preprocessors.Load")
	}
	if err != nil {
		return nil, err
	}
	l := loader{dir: dir, split: split, config: c, options: o}
	if l.files, err = SplitFiles(dir, split); err != nil {
		return nil, err
	}
	var set any
	switch any(d).(type) {
	case *OCR:
		set, err = l.ocr()
	case *TextClassification:
		set, err = l.texts()
	case *SequenceLabeling:
		set, err = l.tags()
	case *TextSummarization:
		set, err = l.summaries()
	}
	if err != nil {
		for _, c := range l.closers {
			err = errors.Join(err, c.Close())
		}
		return nil, fmt.Errorf("datasets: the split %s of %s: %w", split, dir, err)
	}
	set.(interface{ loaded(Config, []io.Closer) }).loaded(l.config, l.closers)
	return set.(D), nil
}

// splits maps the names of splits to the words for them in file names, as in the library datasets.
var splits = map[string][]string{"train": {"train", "training"}, "test": {"test", "testing", "eval", "evaluation"},
	"validation": {"validation", "valid", "dev", "val"}}

// SplitWords returns the words in file names that indicate a split.
func SplitWords(split string) []string {
	if words, ok := splits[split]; ok {
		return words
	}
	return []string{split}
}

var formats = []string{".parquet", ".csv", ".tsv", ".jsonl"}

// SplitFiles returns the files of a split in a folder.
func SplitFiles(dir, split string) (files []string, err error) {
	var others []string
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains(formats, filepath.Ext(path)) {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		others = append(others, name)
		words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
		if slices.ContainsFunc(SplitWords(split), func(word string) bool { return slices.Contains(words, word) }) {
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no file of the split %q; want one with that word in its name and one of the endings %s; "+
			"there are %q", split, strings.Join(formats, ", "), others)
	}
	if err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", dir, err)
	}
	return files, nil
}

// loader reads the files of a split.
type loader struct {
	dir, split string
	files      []string
	config     Config
	options    LoadOptions
	closers    []io.Closer
	features   string // Hugging Face's features as JSON, from the first Parquet file
}

// column is a column of the files: its key in the rows, the setting that holds its name, and the
// name.
type column struct{ key, setting, name string }

// open reads the files of a data set as rows. For a table of texts (CSV), parse converts the rows.
func open[T any](l *loader, set string, columns []column, parse func(dir string, row map[string]string) (T, error),
) (data.Dataset[T], error) {
	if l.config.Name != set {
		return nil, fmt.Errorf("the config is of a data set %s; want %s, or the type of that one", l.config.Name, set)
	}
	names := map[string]string{}
	for _, c := range columns {
		if names[c.key] = c.name; c.name == "" {
			return nil, fmt.Errorf("the config has no %s; LoadOptions.Change can say which column it is", c.setting)
		}
	}
	var parts []data.Dataset[T]
	for _, path := range l.files {
		if filepath.Ext(path) != ".parquet" {
			rows, err := table.OpenRows[map[string]string](path, table.Format{})
			if err != nil {
				return nil, err
			}
			l.closers = append(l.closers, rows)
			for _, c := range columns {
				if !slices.Contains(rows.Columns(), c.name) {
					return nil, fmt.Errorf("%s: no column %q; there are %q", path, c.name, rows.Columns())
				}
			}
			parts = append(parts, data.Map(rows, func(row map[string]string) (T, error) {
				return parse(filepath.Dir(path), row)
			}))
			continue
		}
		rows, err := parquet.Open[T](path, parquet.Options{Names: names})
		if err != nil {
			return nil, err
		}
		l.closers = append(l.closers, rows)
		if text, ok := rows.Metadata("huggingface"); ok && l.features == "" {
			l.features = text
		}
		parts = append(parts, rows)
	}
	return data.Concat(parts...)
}

// classes returns the texts of the classes in a column, from the config or the features.
func (l *loader) classes(name string) ([]string, error) {
	if l.config.ID2Label != nil {
		return l.config.ID2Label, nil
	}
	type class struct {
		Names   []string
		Feature struct{ Names []string } // for a list
	}
	var about struct {
		Info struct{ Features map[string]json.RawMessage }
	}
	var c class
	if json.Unmarshal([]byte(l.features), &about) == nil && json.Unmarshal(about.Info.Features[name], &c) == nil {
		if c.Names == nil {
			c.Names = c.Feature.Names
		}
	}
	if c.Names == nil {
		return nil, fmt.Errorf("the files do not say what the classes of the column %q are called; "+
			"LoadOptions.Change can set ID2Label", name)
	}
	return c.Names, nil
}

// class returns the number of a class in a table, which holds either the number or the class's
// text.
func class(labels []string, text string) (int64, error) {
	if i := slices.Index(labels, text); i >= 0 {
		return int64(i), nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	return 0, fmt.Errorf("the class %q is none of %q", text, labels)
}

// The two parts of a row with a picture: everything but the picture, and the picture.
type (
	shown struct {
		Picture struct {
			Path *string `table:"path,optional"`
		} `table:"picture"`
		Text string `table:"text"`
	}
	content struct {
		Picture struct {
			Bytes *[]byte `table:"bytes,optional"`
		} `table:"picture"`
	}
)

func (l *loader) ocr() (*OCR, error) {
	c := &l.config
	c.TextColumn, c.ImagesPathsColumn = cmp.Or(c.TextColumn, "label"), cmp.Or(c.ImagesPathsColumn, "image_path")
	c.TextSplitType = cmp.Or(c.TextSplitType, "char_split")
	if c.ID2Label == nil {
		c.ID2Label = DefaultCharset()
	}
	columns := []column{{"picture", "images_paths_column", c.ImagesPathsColumn}, {"text", "text_column", c.TextColumn}}
	texts, err := open(l, OCRName, columns, func(dir string, row map[string]string) (s shown, err error) {
		path, err := filepath.Abs(inFolder(dir, row[c.ImagesPathsColumn]))
		s.Text, s.Picture.Path = row[c.TextColumn], &path
		return s, err
	})
	if err != nil {
		return nil, err
	}
	pictures, err := open(l, OCRName, columns,
		func(string, map[string]string) (none content, _ error) { return none, nil })
	if err != nil {
		return nil, err
	}
	rows := make([]OCRRow, texts.Len())
	for i := range rows {
		s, err := texts.At(i)
		if err != nil {
			return nil, err
		}
		rows[i].Text = s.Text
		if s.Picture.Path != nil {
			rows[i].Path = inFolder(filepath.Dir(l.files[0]), *s.Picture.Path)
		}
		rows[i].Picture = func() ([]byte, error) {
			p, err := pictures.At(i)
			if err != nil || p.Picture.Bytes == nil {
				return nil, err
			}
			return *p.Picture.Bytes, nil
		}
	}
	o := OCROptions{Charset: c.ID2Label, MaxLength: c.MaxLength, InvalidCharacters: c.InvalidCharacters,
		ReverseDigits: c.ReverseDigits != nil && *c.ReverseDigits, Warnings: l.options.Warnings}
	o.MaxSamples, o.MaxFraction, _ = c.size()
	return NewOCR(rows, l.options.Preprocessor.Image, o)
}

func (l *loader) texts() (*TextClassification, error) {
	c := &l.config
	rows, err := open(l, TextClassificationName, []column{{"text", "text_field", c.TextField},
		{"label", "label_field", c.LabelField}}, func(_ string, row map[string]string) (r TextRow, err error) {
		r.Text = row[c.TextField]
		r.Label, err = class(c.ID2Label, row[c.LabelField])
		return r, err
	})
	if err != nil {
		return nil, err
	}
	if c.ID2Label, err = l.classes(c.LabelField); err != nil {
		return nil, err
	}
	o := TextOptions{MaxLength: c.MaxLength}
	o.MaxSamples, o.MaxFraction, _ = c.size()
	rows = data.Map(rows, func(r TextRow) (TextRow, error) { return r, known(c.ID2Label, r.Label) })
	return NewTextClassification(rows, l.options.Preprocessor.Tokenizer, o)
}

func (l *loader) tags() (*SequenceLabeling, error) {
	c := &l.config
	// In a table of texts, words and tags are separated by spaces.
	rows, err := open(l, SequenceLabelingName, []column{{"words", "tokens_field", c.TokensField},
		{"tags", "tags_field", c.TagsField}}, func(_ string, row map[string]string) (r TagRow, err error) {
		r.Words = strings.Fields(row[c.TokensField])
		for _, tag := range strings.Fields(row[c.TagsField]) {
			id, err := class(c.ID2Label, tag)
			if err != nil {
				return r, err
			}
			r.Tags = append(r.Tags, id)
		}
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	if c.ID2Label, err = l.classes(c.TagsField); err != nil {
		return nil, err
	}
	o := TagOptions{MaxLength: c.MaxLength, FirstTokenOnly: c.LabelAllTokens != nil && !*c.LabelAllTokens}
	o.MaxSamples, o.MaxFraction, _ = c.size()
	rows = data.Map(rows, func(r TagRow) (TagRow, error) { return r, known(c.ID2Label, r.Tags...) })
	return NewSequenceLabeling(rows, l.options.Preprocessor.Tokenizer, o)
}

func (l *loader) summaries() (*TextSummarization, error) {
	c := &l.config
	rows, err := open(l, TextSummarizationName, []column{{"text", "text_field", c.TextField},
		{"summary", "summary_field", c.SummaryField}}, func(_ string, row map[string]string) (SummaryRow, error) {
		return SummaryRow{row[c.TextField], row[c.SummaryField]}, nil
	})
	if err != nil {
		return nil, err
	}
	o := SummaryOptions{Prefix: c.Prefix, MaxLength: c.MaxLength, LabelsMaxLength: c.LabelsMaxLength}
	o.MaxSamples, o.MaxFraction, _ = c.size()
	return NewTextSummarization(rows, l.options.Preprocessor.Tokenizer, o)
}

// known returns an error for a class that has no text.
func known(labels []string, classes ...int64) error {
	for _, class := range classes {
		if class < 0 || class >= int64(len(labels)) {
			return fmt.Errorf("datasets: the class %d; there are %d, %q", class, len(labels), labels)
		}
	}
	return nil
}
