package datasets

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
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
	InvalidCharacters []string // texts with any of them are left out, even if the charset contains it
	ReverseDigits     bool     // learn runs of digits in reverse, as in mirrored pictures

	MaxSamples  int     // max_size as a number: use only the first samples; zero: all
	MaxFraction float64 // max_size as a share, rounded up; zero: all

	Warnings io.Writer // receives messages about rows left out; nil: standard error; io.Discard: none
}

// OCRRow is a picture and the text that it shows.
type OCRRow struct {
	Path string // of the file
	Text string

	// Picture returns the contents of the file. If it is nil or returns nil, the file is at Path.
	Picture func() ([]byte, error)
}

// OCRSample is a prepared picture with the IDs of its text.
type OCRSample struct {
	Pixels []float32 // channels first
	Shape  [3]int    // channels, height, width
	Labels []int64
	Row    OCRRow
}

// OCR is Hezar's OCRDataset with character-level labels: a data set of [OCRSample]. Pictures are
// opened when they are requested, from any number of goroutines.
type OCR struct {
	prepared[OCRRow, OCRSample]
	kept, invalid []OCRRow
}

var _ data.Dataset[OCRSample] = (*OCR)(nil)

// OpenOCR reads a table (CSV or another format of package table) with a column of paths and one of
// texts. Relative paths are resolved against the table's folder.
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
		return OCRRow{Path: inFolder(filepath.Dir(path), file), Text: text}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", path, err)
	}
	return NewOCR(rows, image, o)
}

// inFolder resolves a relative path against a folder.
func inFolder(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// NewOCR makes a data set from rows. Rows whose text is empty, too long or contains characters
// outside the charset are left out, with a message to OCROptions.Warnings; [OCR.Invalid] returns
// them.
func NewOCR(rows []OCRRow, image *preprocessors.ImageProcessor, o OCROptions) (*OCR, error) {
	if image == nil {
		return nil, fmt.Errorf("datasets: OCR without an image processor: Hezar's preprocessor is required")
	}
	charset := o.Charset
	if charset == nil {
		charset = DefaultCharset()
	}
	d, ids := &OCR{}, labelIDs(charset)
	for _, row := range rows {
		_, ok := encode(row.Text, ids, false)
		ok = ok && row.Text != "" && (o.MaxLength <= 0 || utf8.RuneCountInString(row.Text) <= o.MaxLength)
		for _, bad := range o.InvalidCharacters {
			ok = ok && (bad == "" || !strings.Contains(row.Text, bad))
		}
		if ok {
			d.kept = append(d.kept, row)
		} else {
			d.invalid = append(d.invalid, row)
		}
	}
	if n := len(d.invalid); n > 0 {
		first := d.invalid[0]
		warnings := cmp.Or[io.Writer](o.Warnings, os.Stderr)
		fmt.Fprintf(warnings, "datasets: %d of %d rows are left out, since their text is empty, too long or "+
			"has a character that is not to be learnt: the first is %q of %s; OCR.Invalid has them\n", n, len(rows),
			first.Text, cmp.Or(first.Path, "a picture without a name"))
	}
	var err error
	d.prepared, err = prepare(data.Slice[OCRRow](d.kept), o.MaxSamples, o.MaxFraction,
		func(row OCRRow) (OCRSample, error) {
			labels, _ := encode(row.Text, ids, o.ReverseDigits) // succeeded above for all rows that were kept
			var picture any = row.Path
			if row.Picture != nil {
				raw, err := row.Picture()
				if err != nil {
					return OCRSample{}, err
				}
				if raw != nil {
					picture = raw
				}
			}
			pixels, shape, err := image.Read(picture)
			return OCRSample{pixels, shape, labels, row}, err
		})
	return d, err
}

// Rows returns all valid rows, including those after Len.
func (d *OCR) Rows() []OCRRow { return d.kept }

// Invalid returns the rows that were left out.
func (d *OCR) Invalid() []OCRRow { return d.invalid }

// OCRBatch is a batch of pictures and their labels, padded with the blank, 0.
type OCRBatch struct {
	Pixels []float32 // [Shape]
	Shape  []int64   // pictures, channels, height, width
	Labels data.Padded[int64]
}

// Collate is [CollateOCR].
func (d *OCR) Collate(samples []OCRSample) (OCRBatch, error) { return CollateOCR(samples) }

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
