package vectors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// recordedOCR is result.json of a data set for OCR.
type recordedOCR struct {
	Rows             [][2]string
	Dataset          json.RawMessage
	ImageProcessor   json.RawMessage `json:"image_processor"`
	Len              int
	Kept, Invalid    [][2]string
	Labels           [][]int64
	FirstBatchLabels [][]int64 `json:"first_batch_labels"`
	Predict          *struct {
		Model   json.RawMessage
		Init    recorded.Formula
		Images  []string
		Outputs []recordedText
	}
}

// ocrConfig are the fields of OCRDatasetConfig that recordings set.
type ocrConfig struct {
	MaxLength         int              `json:"max_length"`
	ReverseDigits     bool             `json:"reverse_digits"`
	ReverseText       bool             `json:"reverse_text"` // Hezar takes it and does nothing with it
	MaxSize           json.Number      `json:"max_size"`
	InvalidCharacters []string         `json:"invalid_characters"` // the same
	ID2Label          *json.RawMessage `json:"id2label"`
}

func (o ocrConfig) options() (datasets.OCROptions, error) {
	options := datasets.OCROptions{MaxLength: o.MaxLength, ReverseDigits: o.ReverseDigits}
	if o.ID2Label != nil {
		var labels map[int]string
		if err := json.Unmarshal(*o.ID2Label, &labels); err != nil {
			return options, err
		}
		options.Charset = make([]string, len(labels))
		for i := range options.Charset {
			options.Charset[i] = labels[i]
		}
	}
	if o.MaxSize == "" {
		return options, nil
	}
	if strings.ContainsAny(o.MaxSize.String(), ".eE") {
		share, err := o.MaxSize.Float64()
		options.MaxFraction = share
		return options, err
	}
	n, err := o.MaxSize.Int64()
	options.MaxSamples = int(n)
	return options, err
}

func ocr(c *check, dir string, text []byte, o Options) error {
	if err := loaded(); err != nil {
		return err
	}
	var r recordedOCR
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	var config ocrConfig
	d := json.NewDecoder(bytes.NewReader(r.Dataset))
	d.DisallowUnknownFields()
	if err := d.Decode(&config); err != nil {
		return spec.Unsupportedf("the data set: %v", err)
	}
	options, err := config.options()
	if err != nil {
		return err
	}
	p, err := processor(r.ImageProcessor)
	if err != nil {
		return err
	}
	rows := make([]datasets.OCRRow, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = datasets.OCRRow{Path: filepath.Join(o.Data, row[0]), Text: row[1]}
		if _, err := os.Stat(rows[i].Path); err != nil {
			return spec.Unsupportedf("the picture %s: %v", row[0], err)
		}
	}
	set, err := datasets.NewOCR(rows, p, options)
	if err != nil {
		return err
	}
	back := func(rows []datasets.OCRRow) (list [][2]string) {
		for _, row := range rows {
			path, err := filepath.Rel(o.Data, row.Path)
			if err != nil {
				path = row.Path
			}
			list = append(list, [2]string{filepath.ToSlash(path), row.Text})
		}
		return list
	}
	c.equal("len", set.Len(), r.Len)
	c.equal("kept", fmt.Sprint(back(set.Rows())), fmt.Sprint(r.Kept))
	c.equal("invalid", fmt.Sprint(back(set.Invalid())), fmt.Sprint(r.Invalid))
	var samples []datasets.OCRSample
	for i := range set.Len() {
		s, err := set.At(i)
		if err != nil {
			return err
		}
		samples = append(samples, s)
		if i < len(r.Labels) {
			c.equal(fmt.Sprintf("labels[%d]", i), s.Labels, r.Labels[i])
		}
	}
	const batch = 4
	b, err := datasets.CollateOCR(samples[:min(batch, len(samples))])
	if err != nil {
		return err
	}
	for i := range b.Labels.Rows {
		c.equal(fmt.Sprintf("first_batch_labels[%d]", i), b.Labels.Row(i), r.FirstBatchLabels[i])
	}
	if err := firstBatch(c, dir, b); err != nil || r.Predict == nil {
		return err
	}
	return predictOCR(c, r, p, o)
}

func firstBatch(c *check, dir string, b datasets.OCRBatch) error {
	f, err := safetensors.Open(filepath.Join(dir, "case.safetensors"))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	want, err := tensorio.Read(f.Reader, "first_batch.pixel_values")
	if err != nil {
		return err
	}
	c.equal("the shape of the first batch", b.Shape, append([]int64{}, want.Shape()...))
	c.equal("the pixels of the first batch", sum(b.Pixels), sum(torch.Values[float32](want)))
	return nil
}

func predictOCR(c *check, r recordedOCR, p *preprocessors.ImageProcessor, o Options) error {
	config, err := mapping(r.Predict.Model)
	if err != nil {
		return err
	}
	m, err := newCRNN(config, r.Predict.Init, p)
	if err != nil {
		return err
	}
	reader := repository.Image2Text{Model: m, Preprocessors: &preprocessors.Set{Image: p}}
	paths := make([]string, len(r.Predict.Images))
	for i, path := range r.Predict.Images {
		paths[i] = filepath.Join(o.Data, path)
	}
	readings, err := reader.Predict(paths...)
	if err != nil {
		return err
	}
	c.equal("the number of predictions", len(readings), len(r.Predict.Outputs))
	for i, want := range r.Predict.Outputs {
		c.equal(fmt.Sprintf("predict[%d]", i), readings[i].Text, want.Text)
		c.hex(fmt.Sprintf("the score of predict[%d]", i), readings[i].Score, want.Score)
	}
	return nil
}
