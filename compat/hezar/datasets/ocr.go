package datasets

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
)

// OCROptions are the settings of OCRDatasetConfig.
type OCROptions struct {
	Charset           []string // the text of each label, id2label; nil: [DefaultCharset]
	TextColumn        string   // zero: label
	ImagesPathsColumn string   // zero: image_path
	MaxLength         int      // of a text, in characters; longer ones are left out; zero: any length
	InvalidCharacters []string // texts with one of them are left out, even if the charset has it
	ReverseDigits     bool     // runs of digits are learnt in reverse, as they stand in mirrored pictures

	MaxSamples  int     // max_size as a number: use the first ones only; zero: all
	MaxFraction float64 // max_size as a share, rounded up; zero: all
}

// OCRRow is a picture file and the text that it shows.
type OCRRow struct {
	Path string
	Text string
}

// OCRSample is a prepared picture and the ids of its text.
type OCRSample struct {
	Pixels []float32 // channels first
	Shape  [3]int    // channels, height, width
	Labels []int64
	Row    OCRRow
}

// OCR is Hezar's OCRDataset, character by character: a data set of [OCRSample]. Pictures are opened
// when they are asked for, by any number of goroutines.
type OCR struct {
	image   *preprocessors.ImageProcessor
	rows    []OCRRow
	labels  [][]int64
	invalid []OCRRow
	length  int
}

var _ data.Dataset[OCRSample] = (*OCR)(nil)

// OpenOCR reads a table, CSV or what else package table reads, with a column of paths and one of
// texts. Relative paths begin at the table's folder.
func OpenOCR(path string, image *preprocessors.ImageProcessor, o OCROptions) (*OCR, error) {
	t, err := table.OpenRows[map[string]string](path, table.Format{})
	if err != nil {
		return nil, fmt.Errorf("datasets: %w", err)
	}
	defer t.Close() //nolint:errcheck // it was only read
	paths, texts := cmp.Or(o.ImagesPathsColumn, "image_path"), cmp.Or(o.TextColumn, "label")
	rows, err := data.Collect(context.Background(), t, func(row map[string]string) (OCRRow, error) {
		file, ok1 := row[paths]
		text, ok2 := row[texts]
		if !ok1 || !ok2 {
			return OCRRow{}, fmt.Errorf("there is no column %q or %q, only %q", paths, texts, t.Columns())
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		return OCRRow{file, text}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", path, err)
	}
	return NewOCR(rows, image, o)
}

// NewOCR makes a data set of rows. Rows whose text is empty, too long or has other characters than
// the charset are left out; [OCR.Invalid] has them.
func NewOCR(rows []OCRRow, image *preprocessors.ImageProcessor, o OCROptions) (*OCR, error) {
	if image == nil {
		return nil, fmt.Errorf("datasets: OCR without an image processor: Hezar's preprocessor is required")
	}
	charset := o.Charset
	if charset == nil {
		charset = DefaultCharset()
	}
	d := &OCR{image: image}
	ids := labelIDs(charset)
	for _, row := range rows {
		list, ok := encode(row.Text, ids, o.ReverseDigits)
		ok = ok && isValid(row.Text, charset) && (o.MaxLength <= 0 || utf8.RuneCountInString(row.Text) <= o.MaxLength)
		for _, bad := range o.InvalidCharacters {
			ok = ok && (bad == "" || !strings.Contains(row.Text, bad))
		}
		if !ok {
			d.invalid = append(d.invalid, row)
			continue
		}
		d.rows, d.labels = append(d.rows, row), append(d.labels, list)
	}
	var err error
	d.length, err = limit(len(d.rows), o.MaxSamples, o.MaxFraction)
	return d, err
}

// Len is how many samples are used.
func (d *OCR) Len() int { return d.length }

// Rows are all rows that are kept, those behind Len too.
func (d *OCR) Rows() []OCRRow { return d.rows }

// Invalid are the rows that are left out.
func (d *OCR) Invalid() []OCRRow { return d.invalid }

// At opens and prepares a picture.
func (d *OCR) At(i int) (OCRSample, error) {
	if i < 0 || i >= d.length {
		return OCRSample{}, fmt.Errorf("datasets: there is no sample %d of %d", i, d.length)
	}
	pixels, shape, err := d.image.Open(d.rows[i].Path)
	return OCRSample{pixels, shape, d.labels[i], d.rows[i]}, err
}

// OCRBatch is a batch of pictures and their labels, padded with the blank, 0.
type OCRBatch struct {
	Pixels []float32 // [Shape]
	Shape  []int64   // pictures, channels, height, width
	Labels data.Padded[int64]
}

// CollateOCR is CharLevelOCRDataCollator. All pictures must have the same shape.
func CollateOCR(samples []OCRSample) (OCRBatch, error) {
	if len(samples) == 0 {
		return OCRBatch{}, data.ErrEmptyBatch
	}
	first := samples[0].Shape
	b := OCRBatch{Shape: []int64{int64(len(samples)), int64(first[0]), int64(first[1]), int64(first[2])}}
	for i, s := range samples {
		if s.Shape != first {
			return OCRBatch{}, fmt.Errorf("datasets: picture %d of the batch is %v, the first is %v; want one size "+
				"for all, as the image processor's size gives", i, s.Shape, first)
		}
		b.Pixels = append(b.Pixels, s.Pixels...)
	}
	var err error
	b.Labels, err = data.PadField(samples, func(s OCRSample) []int64 { return s.Labels }, 0, data.Padding{})
	return b, err
}
