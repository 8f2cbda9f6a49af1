package vectors

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
)

// recordedOCR is the result.json of a data set for OCR.
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

// ocrConfig holds the fields of OCRDatasetConfig that recordings set.
type ocrConfig struct {
	MaxLength         int            `json:"max_length"`
	ReverseDigits     bool           `json:"reverse_digits"`
	ReverseText       bool           `json:"reverse_text"` // accepted and ignored by Hezar
	MaxSize           json.Number    `json:"max_size"`
	InvalidCharacters []string       `json:"invalid_characters"` // accepted and ignored by Hezar
	ID2Label          map[int]string `json:"id2label"`
}

func ocrOptions(raw json.RawMessage) datasets.OCROptions {
	var config ocrConfig
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&config); err != nil {
		spec.Refusef("the data set: %v", err)
	}
	options := datasets.OCROptions{MaxLength: config.MaxLength, ReverseDigits: config.ReverseDigits}
	if config.ID2Label != nil {
		options.Charset = make([]string, len(config.ID2Label))
		for i := range options.Charset {
			options.Charset[i] = config.ID2Label[i]
		}
	}
	switch size := config.MaxSize; {
	case size == "":
	case strings.ContainsAny(size.String(), ".eE"):
		options.MaxFraction = spec.Must(size.Float64())
	default:
		options.MaxSamples = int(spec.Must(size.Int64()))
	}
	return options
}

func ocr(c *check, dir string, r recordedOCR, folder string) {
	load()
	options := ocrOptions(r.Dataset)
	config, _ := imageConfig(r.ImageProcessor)
	p := spec.Must(preprocessors.NewImageProcessor(config))
	rows := make([]datasets.OCRRow, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = datasets.OCRRow{Path: filepath.Join(folder, row[0]), Text: row[1]}
		if _, err := os.Stat(rows[i].Path); err != nil {
			spec.Refusef("the picture %s: %v", row[0], err)
		}
	}
	set := spec.Must(datasets.NewOCR(rows, p, options))
	back := func(rows []datasets.OCRRow) (list [][2]string) {
		for _, row := range rows {
			path := spec.Must(filepath.Rel(folder, row.Path))
			list = append(list, [2]string{filepath.ToSlash(path), row.Text})
		}
		return list
	}
	c.equal("len", set.Len(), r.Len)
	c.equal("kept", fmt.Sprint(back(set.Rows())), fmt.Sprint(r.Kept))
	c.equal("invalid", fmt.Sprint(back(set.Invalid())), fmt.Sprint(r.Invalid))
	var samples []datasets.OCRSample
	for i := range set.Len() {
		samples = append(samples, spec.Must(set.At(i)))
		if i < len(r.Labels) {
			c.equal(fmt.Sprintf("labels[%d]", i), samples[i].Labels, r.Labels[i])
		}
	}
	const batch = 4
	b := spec.Must(datasets.CollateOCR(samples[:min(batch, len(samples))]))
	for i := range b.Labels.Rows {
		c.equal(fmt.Sprintf("first_batch_labels[%d]", i), b.Labels.Row(i), r.FirstBatchLabels[i])
	}
	want := tensorsOf(dir)["first_batch.pixel_values"]
	c.equal("the shape of the first batch", b.Shape, append([]int64{}, want.Shape()...))
	pixels := torch.Named{Tensor: torch.From(b.Pixels)}
	c.equal("the pixels of the first batch", recorded.Hash(pixels), recorded.Hash(torch.Named{Tensor: want}))
	if r.Predict == nil {
		return
	}
	reader := model(recorded.CRNN, r.Predict.Model, r.Predict.Init, &preprocessors.Set{Image: p})
	paths := make([]any, len(r.Predict.Images))
	for i, path := range r.Predict.Images {
		paths[i] = filepath.Join(folder, path)
	}
	readings := spec.Must(reader.Predict(context.Background(), paths...))
	c.equal("the number of predictions", len(readings), len(r.Predict.Outputs))
	for i, want := range r.Predict.Outputs {
		c.equal(fmt.Sprintf("predict[%d]", i), readings[i].Text, want.Text)
		c.hex(fmt.Sprintf("the score of predict[%d]", i), readings[i].Score, want.Score, 0)
	}
}
