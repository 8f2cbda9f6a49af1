package datasets_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/data"
)

// loaded is what Hezar loads for a split: testdata/load.py.
type loaded struct {
	ID2Label []string
	Invalid  []string
	Samples  []struct {
		PixelValues []float32 `json:"pixel_values"`
		TokenIDs    []int64   `json:"token_ids"`
		Labels      json.RawMessage
	}
}

func hezars(t *testing.T, name string) loaded {
	t.Helper()
	raw, err := os.ReadFile("testdata/load.json")
	require.NoError(t, err)
	var all map[string]loaded
	require.NoError(t, json.Unmarshal(raw, &all))
	require.NotEmpty(t, all[name].Samples)
	return all[name]
}

func hub(name string) string { return filepath.Join("testdata", "hub", name) }

func plateProcessor(t *testing.T) *preprocessors.Set {
	t.Helper()
	return &preprocessors.Set{Image: processor(t, preprocessors.ImageProcessorConfig{GrayScale: true, Mirror: true,
		Width: 8, Height: 4, Rescale: new(1 / 255.)})}
}

func samplesOf[S any](t *testing.T, d data.Dataset[S]) (samples []S) {
	t.Helper()
	for i := range d.Len() {
		s, err := d.At(i)
		require.NoError(t, err)
		samples = append(samples, s)
	}
	return samples
}

func TestSplitsAreThoseOfHezar(t *testing.T) {
	var said bytes.Buffer
	plates, err := datasets.Load[*datasets.OCR](hub("ocr"), "train",
		datasets.LoadOptions{Preprocessor: plateProcessor(t), Warnings: &said})
	require.NoError(t, err)
	defer plates.Close()
	want := hezars(t, "ocr")
	samples := samplesOf[datasets.OCRSample](t, plates)
	require.Len(t, samples, len(want.Samples))
	for i, s := range samples {
		var labels []int64
		require.NoError(t, json.Unmarshal(want.Samples[i].Labels, &labels))
		assert.Equal(t, labels, s.Labels)
		assert.Equal(t, want.Samples[i].PixelValues, s.Pixels, "the pixels of %s", s.Row.Text)
	}
	assert.Equal(t, want.ID2Label, plates.Config.ID2Label)
	var invalid []string
	for _, row := range plates.Invalid() {
		invalid = append(invalid, row.Text)
	}
	assert.Equal(t, want.Invalid, invalid)
	assert.Contains(t, said.String(), `2 of 5 rows are left out`)
	assert.Contains(t, said.String(), `the first is "ABC"`)

	text := &preprocessors.Set{Tokenizer: tokenizer(t)}
	texts, err := datasets.Load[*datasets.TextClassification](hub("texts"), "train",
		datasets.LoadOptions{Preprocessor: text})
	require.NoError(t, err)
	defer texts.Close()
	want = hezars(t, "texts")
	assert.Equal(t, want.ID2Label, texts.Config.ID2Label, "the names of the classes are in the files")
	for i, s := range samplesOf[datasets.TextSample](t, texts) {
		var label int64
		require.NoError(t, json.Unmarshal(want.Samples[i].Labels, &label))
		assert.Equal(t, want.Samples[i].TokenIDs, s.TokenIDs)
		assert.Equal(t, label, s.Label)
	}

	tags, err := datasets.Load[*datasets.SequenceLabeling](hub("tags"), "train",
		datasets.LoadOptions{Preprocessor: text})
	require.NoError(t, err)
	defer tags.Close()
	want = hezars(t, "tags")
	assert.Equal(t, want.ID2Label, tags.Config.ID2Label)
	for i, s := range samplesOf[datasets.TagSample](t, tags) {
		var labels []int64
		require.NoError(t, json.Unmarshal(want.Samples[i].Labels, &labels))
		assert.Equal(t, want.Samples[i].TokenIDs, s.TokenIDs)
		assert.Equal(t, labels, s.Labels, "label_all_tokens is false")
	}
}

func TestConfigsOfDataSetsComeBackAsTheyWere(t *testing.T) {
	for _, name := range []string{"ocr", "texts", "tags"} {
		c, err := datasets.ReadConfig(hub(name))
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, c.Write(dir))
		want, err := os.ReadFile(filepath.Join(hub(name), datasets.ConfigFile))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, datasets.ConfigFile))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))
	}
}

func TestTablesAreSplitsToo(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	picture(t, filepath.Join(dir, "a.png"), 8, 4, 51)
	write("plates_dev.csv", "image_path,label\na.png,۱۲\n")
	write("train.csv", "text,label\nکتاب خوب,yes\nبد,0\n")
	write("test/tags.tsv", "words\ttags\nکتاب خوب\tB-x O\n")
	o := datasets.LoadOptions{Preprocessor: plateProcessor(t), Config: &datasets.Config{Name: datasets.OCRName}}
	plates, err := datasets.Load[*datasets.OCR](dir, "validation", o)
	require.NoError(t, err)
	defer plates.Close()
	assert.Equal(t, []int64{35, 36}, samplesOf[datasets.OCRSample](t, plates)[0].Labels)
	plates, err = datasets.Load[*datasets.OCR](dir, "validation", datasets.LoadOptions{Preprocessor: o.Preprocessor,
		Config: o.Config, Change: func(c *datasets.Config) { c.ReverseDigits = new(true) }})
	require.NoError(t, err)
	defer plates.Close()
	assert.Equal(t, []int64{36, 35}, samplesOf[datasets.OCRSample](t, plates)[0].Labels)

	o = datasets.LoadOptions{Preprocessor: &preprocessors.Set{Tokenizer: tokenizer(t)}, Config: &datasets.Config{
		Name: datasets.TextClassificationName, TextField: "text", LabelField: "label", ID2Label: []string{"no", "yes"}}}
	texts, err := datasets.Load[*datasets.TextClassification](dir, "train", o)
	require.NoError(t, err)
	defer texts.Close()
	rows := samplesOf[datasets.TextSample](t, texts)
	assert.Equal(t, []int64{1, 0}, []int64{rows[0].Label, rows[1].Label}, "a class by its text, and by its number")

	o.Config = &datasets.Config{Name: datasets.SequenceLabelingName, TokensField: "words", TagsField: "tags",
		ID2Label: []string{"O", "B-x"}, MaxSize: 1}
	tags, err := datasets.Load[*datasets.SequenceLabeling](dir, "test", o)
	require.NoError(t, err)
	defer tags.Close()
	assert.Equal(t, []int64{-100, 1, 0, -100}, samplesOf[datasets.TagSample](t, tags)[0].Labels)
}

func TestMistakesInDataSetsAreNamed(t *testing.T) {
	image, text := plateProcessor(t), &preprocessors.Set{Tokenizer: tokenizer(t)}
	bare := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bare, "train.csv"), []byte("text,label\na,2\n"), 0o600))
	ocr := func(dir, split string, p *preprocessors.Set, change func(*datasets.Config)) error {
		_, err := datasets.Load[*datasets.OCR](dir, split, datasets.LoadOptions{Preprocessor: p, Change: change,
			Warnings: io.Discard})
		return err
	}
	texts := func(c datasets.Config) error {
		d, err := datasets.Load[*datasets.TextClassification](bare, "train", datasets.LoadOptions{Preprocessor: text,
			Config: &c})
		if err == nil {
			_, err = d.At(0)
		}
		return err
	}
	for claim, c := range map[string]struct {
		err  error
		want string
	}{
		"no config":        {ocr(bare, "train", image, nil), "give LoadOptions.Config"},
		"no preprocessor":  {ocr(hub("ocr"), "train", nil, nil), "LoadOptions.Preprocessor is nil"},
		"no split":         {ocr(hub("ocr"), "validation", image, nil), `no file of the split "validation"`},
		"another data set": {ocr(hub("tags"), "train", image, nil), "a data set sequence_labeling; want ocr"},
		"no such column": {ocr(hub("ocr"), "train", image, func(c *datasets.Config) { c.TextColumn = "text" }),
			`no column "text"`},
		"labels of tokens": {ocr(hub("ocr"), "train", image,
			func(c *datasets.Config) { c.TextSplitType = "tokenize" }), "want char_split"},
		"a size of a word": {ocr(hub("ocr"), "train", image, func(c *datasets.Config) { c.MaxSize = "few" }),
			"max_size is no number"},
		"no kind":  {texts(datasets.Config{}), `name is ""; want ocr`},
		"no field": {texts(datasets.Config{Name: "text_classification", TextField: "text"}), "no label_field"},
		"no names": {texts(datasets.Config{Name: "text_classification", TextField: "text",
			LabelField: "label"}), "can set ID2Label"},
		"an unknown class": {texts(datasets.Config{Name: "text_classification", TextField: "text", LabelField: "label",
			ID2Label: []string{"a", "b"}}), "the class 2; there are 2"},
		"no table's column": {texts(datasets.Config{Name: "text_classification", TextField: "body",
			LabelField: "label"}), `no column "body"; there are ["text" "label"]`},
	} {
		require.ErrorContains(t, c.err, c.want, claim)
	}
	require.NoError(t, os.WriteFile(filepath.Join(bare, datasets.ConfigFile), []byte("name: ocr\nmax_length: -1"),
		0o600))
	_, err := datasets.ReadConfig(bare)
	require.ErrorContains(t, err, "max_length is -1; want a number of at least 0")
	require.True(t, strings.Contains(err.Error(), datasets.ConfigFile))
}
