package datasets_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text/hezar"
)

func processor(t testing.TB, c preprocessors.ImageProcessorConfig) *preprocessors.ImageProcessor {
	t.Helper()
	p, err := preprocessors.NewImageProcessor(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// picture writes a PNG file with a single grey level.
func picture(t testing.TB, path string, width, height int, level uint8) {
	t.Helper()
	im := image.NewGray(image.Rect(0, 0, width, height))
	for i := range im.Pix {
		im.Pix[i] = color.Gray{Y: level}.Y
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(png.Encode(f, im), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func plates(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	picture(t, filepath.Join(dir, "a.png"), 8, 4, 51)
	picture(t, filepath.Join(dir, "b.png"), 6, 6, 255)
	path := filepath.Join(dir, "plates.csv")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRowsThatCannotBeLearntAreLeftOut(t *testing.T) {
	path := plates(t, "label,image_path", "۱۲ب,a.png", "ABC,a.png", ",a.png", "۱۲۳۴۵,b.png", "\"۱,۲\",b.png",
		"۷-۸,b.png")
	set, err := datasets.OpenOCR(path, processor(t, preprocessors.ImageProcessorConfig{}),
		datasets.OCROptions{MaxLength: 4, InvalidCharacters: []string{"-"}})
	if err != nil {
		t.Fatal(err)
	}
	var kept, invalid []string
	for _, row := range set.Rows() {
		kept = append(kept, row.Text)
	}
	for _, row := range set.Invalid() {
		invalid = append(invalid, row.Text)
	}
	if want := []string{"۱۲ب"}; !slices.Equal(kept, want) || set.Len() != 1 {
		t.Errorf("kept %q, want %q", kept, want)
	}
	if want := []string{"ABC", "", "۱۲۳۴۵", "۱,۲", "۷-۸"}; !slices.Equal(invalid, want) {
		t.Errorf("left out %q, want %q", invalid, want)
	}
}

func TestPicturesBecomeBatches(t *testing.T) {
	path := plates(t, "text,file", "۱۲ب۳۴۵,a.png", "۷,b.png")
	p := processor(t, preprocessors.ImageProcessorConfig{GrayScale: true, Width: 3, Height: 2, Rescale: new(1 / 255.)})
	set, err := datasets.OpenOCR(path, p, datasets.OCROptions{TextColumn: "text", ImagesPathsColumn: "file",
		ReverseDigits: true})
	if err != nil {
		t.Fatal(err)
	}
	var samples []datasets.OCRSample
	for i := range set.Len() {
		s, err := set.At(i)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, s)
	}
	b, err := datasets.CollateOCR(samples)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{39, 38, 37, 3, 36, 35, 41, 0, 0, 0, 0, 0}; !slices.Equal(b.Labels.Values, want) {
		t.Errorf("labels %v, want %v", b.Labels.Values, want)
	}
	if want := []int64{2, 1, 2, 3}; !slices.Equal(b.Shape, want) || b.Pixels[0] != 0.2 || b.Pixels[11] != 1 ||
		len(b.Pixels) != 12 {
		t.Errorf("shape %v with pixels %v, want %v, 0.2 to 1", b.Shape, b.Pixels, want)
	}
	if _, err := set.At(2); err == nil {
		t.Error("reading past the end succeeded")
	}
}

func TestOCRMistakesAreNamed(t *testing.T) {
	p := processor(t, preprocessors.ImageProcessorConfig{})
	two := plates(t, "label,image_path", "۱,a.png", "۲,b.png", "۳,none.png")
	set, err := datasets.OpenOCR(two, p, datasets.OCROptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.At(2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing picture: error %v", err)
	}
	a, err1 := set.At(0)
	b, err2 := set.At(1)
	if _, err := datasets.CollateOCR([]datasets.OCRSample{a, b}); err1 != nil || err2 != nil || err == nil ||
		!strings.Contains(err.Error(), "one size for all") {
		t.Errorf("pictures of two sizes: error %v", err)
	}
	if _, err := datasets.CollateOCR(nil); !errors.Is(err, data.ErrEmptyBatch) {
		t.Errorf("an empty batch: error %v", err)
	}
	for claim, c := range map[string]struct {
		image *preprocessors.ImageProcessor
		o     datasets.OCROptions
		want  string
	}{
		"no image processor":  {nil, datasets.OCROptions{}, "image processor"},
		"another column":      {p, datasets.OCROptions{TextColumn: "caption"}, `"caption"`},
		"a share of two":      {p, datasets.OCROptions{MaxFraction: 2}, "MaxFraction 2"},
		"a share and a count": {p, datasets.OCROptions{MaxFraction: 0.5, MaxSamples: 1}, "want one of them"},
	} {
		if _, err := datasets.OpenOCR(two, c.image, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", claim, err, c.want)
		}
	}
	if _, err := datasets.OpenOCR("none.csv", p, datasets.OCROptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing table: error %v", err)
	}
}

func TestMaxSizeIsACountOrAShareRoundedUp(t *testing.T) {
	p := processor(t, preprocessors.ImageProcessorConfig{})
	rows := make([]datasets.OCRRow, 5)
	for i := range rows {
		rows[i].Text = "۱"
	}
	for _, c := range []struct {
		o    datasets.OCROptions
		want int
	}{{datasets.OCROptions{}, 5}, {datasets.OCROptions{MaxSamples: 3}, 3}, {datasets.OCROptions{MaxSamples: 9}, 5},
		{datasets.OCROptions{MaxFraction: 0.5}, 3}, {datasets.OCROptions{MaxFraction: 1}, 5}} {
		set, err := datasets.NewOCR(rows, p, c.o)
		if err != nil || set.Len() != c.want {
			t.Errorf("%+v: %d samples (%v), want %d", c.o, set.Len(), err, c.want)
		}
	}
}

func tokenizer(t testing.TB) *hezar.Tokenizer {
	t.Helper()
	tok, err := hezar.LoadTokenizer("../preprocessors/testdata/model")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestTruncationKeepsTheSeparatorUnlessHezarsIsAskedFor(t *testing.T) {
	rows := data.Slice[datasets.TextRow]{{Text: "کتاب خوب بد dog .", Label: 1}, {Text: "dog"}}
	for _, c := range []struct {
		o    datasets.TextOptions
		want [][]int64
	}{
		{datasets.TextOptions{MaxLength: 4}, [][]int64{{3, 5, 6, 2}, {0, 3, 12, 2}}},
		{datasets.TextOptions{MaxLength: 4, CutLikeHezar: true}, [][]int64{{3, 5, 6, 7}, {0, 3, 12, 2}}},
		{datasets.TextOptions{}, [][]int64{{3, 5, 6, 7, 12, 11, 2}, {0, 0, 0, 0, 3, 12, 2}}},
	} {
		set, err := datasets.NewTextClassification(rows, tokenizer(t), c.o)
		if err != nil {
			t.Fatal(err)
		}
		var samples []datasets.TextSample
		for i := range set.Len() {
			s, err := set.At(i)
			if err != nil {
				t.Fatal(err)
			}
			samples = append(samples, s)
		}
		b, err := set.Collate(samples)
		if diff := cmp.Diff(c.want, b.TokenIDs); err != nil || diff != "" {
			t.Errorf("%+v: %v %s", c.o, err, diff)
		}
		if want := []int64{1, 0}; !slices.Equal(b.Labels, want) || b.AttentionMask[1][0] != 0 {
			t.Errorf("%+v: labels %v and mask %v", c.o, b.Labels, b.AttentionMask)
		}
	}
	if _, err := datasets.NewTextClassification(rows, nil, datasets.TextOptions{}); err == nil {
		t.Error("a data set without a tokenizer was accepted")
	}
}

func TestTagsAreThoseOfHezar(t *testing.T) {
	raw, err := os.ReadFile("testdata/tags.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Rows [][2]json.RawMessage
		Runs []struct {
			All    bool `json:"label_all_tokens"`
			Labels [][]int64
			Batch  struct {
				TokenIDs      [][]int64 `json:"token_ids"`
				AttentionMask [][]int64 `json:"attention_mask"`
				Labels        [][]int64
			}
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	var rows data.Slice[datasets.TagRow]
	for _, r := range golden.Rows {
		var row datasets.TagRow
		if err := errors.Join(json.Unmarshal(r[0], &row.Words), json.Unmarshal(r[1], &row.Tags)); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if len(golden.Runs) != 2 {
		t.Fatalf("%d runs, want 2", len(golden.Runs))
	}
	for _, run := range golden.Runs {
		set, err := datasets.NewSequenceLabeling(rows, tokenizer(t), datasets.TagOptions{FirstTokenOnly: !run.All})
		if err != nil {
			t.Fatal(err)
		}
		var samples []datasets.TagSample
		for i := range set.Len() {
			s, err := set.At(i)
			if err != nil || !slices.Equal(s.Labels, run.Labels[i]) {
				t.Errorf("label_all_tokens %v: labels of row %d are %v (%v), want %v", run.All, i, s.Labels, err,
					run.Labels[i])
			}
			samples = append(samples, s)
		}
		b, err := set.Collate(samples)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(run.Batch.TokenIDs, b.TokenIDs) + cmp.Diff(run.Batch.AttentionMask,
			b.AttentionMask) + cmp.Diff(run.Batch.Labels, b.Labels); diff != "" {
			t.Errorf("label_all_tokens %v: %s", run.All, diff)
		}
	}
	short, err := datasets.NewSequenceLabeling(rows, tokenizer(t), datasets.TagOptions{MaxLength: 3})
	if err != nil {
		t.Fatal(err)
	}
	s, err := short.At(0)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := short.Collate([]datasets.TagSample{s}); err != nil || len(b.Labels[0]) != 3 ||
		len(b.TokenIDs[0]) != 3 {
		t.Errorf("cut off at 3: %v (%v)", b, err)
	}
	wrong, err := datasets.NewSequenceLabeling(data.Slice[datasets.TagRow]{{Words: []string{"a"}}}, tokenizer(t),
		datasets.TagOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.At(0); err == nil || !strings.Contains(err.Error(), "1 words and 0 tags") {
		t.Errorf("a word without a tag: error %v", err)
	}
}

func TestPaddedRowsHaveOneLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(1, 9), 0, 6), 1, 5).Draw(t, "inputs")
		o := datasets.PadOptions{
			Padding: rapid.SampledFrom([]string{"", "longest", "max_length"}).Draw(t, "padding"),
			Left:    rapid.Bool().Draw(t, "left"),
			PadID:   -1, MaxLength: rapid.IntRange(0, 8).Draw(t, "max_length"), NoTruncation: rapid.Bool().Draw(t,
				"no truncation"),
		}
		out, err := datasets.PadBatch(inputs, o)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range out {
			if len(row) != len(out[0]) {
				t.Fatalf("%v", out)
			}
			kept := slices.DeleteFunc(slices.Clone(row), func(id int64) bool { return id == -1 })
			if !slices.Equal(kept, inputs[i][:min(len(inputs[i]), len(row))]) {
				t.Fatalf("row %d of %v became %v", i, inputs, row)
			}
		}
	})
	if _, err := datasets.PadBatch([][]int64{{1}}, datasets.PadOptions{MaxLength: -1}); err == nil {
		t.Error("a negative length was accepted")
	}
}

// FuzzOpenOCR reads damaged tables.
func FuzzOpenOCR(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // also of its workers, which may be killed
	f.Add([]byte("label,image_path\n۱۲ب,a.png\n\"x\"\"y\",b.png\n"))
	f.Add([]byte("image_path,label\r\na,\xff\r\n"))
	f.Add([]byte("label\n"))
	p := processor(f, preprocessors.ImageProcessorConfig{})
	f.Fuzz(func(t *testing.T, table []byte) {
		path := filepath.Join(t.TempDir(), "t.csv")
		if err := os.WriteFile(path, table, 0o666); err != nil {
			t.Fatal(err)
		}
		set, err := datasets.OpenOCR(path, p, datasets.OCROptions{MaxLength: 5, ReverseDigits: true})
		if err != nil {
			return
		}
		for _, row := range set.Rows() {
			if !datasets.IsTextValid(row.Text, datasets.DefaultCharset()) {
				t.Fatalf("kept %q", row.Text)
			}
		}
	})
}

func ExampleNewOCR() {
	p, err := preprocessors.NewImageProcessor(preprocessors.ImageProcessorConfig{GrayScale: true, Width: 96,
		Height: 32})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows := []datasets.OCRRow{{Path: "1.png", Text: "۱۲ب۳۴۵۶۷"}, {Path: "2.png", Text: "ABC"}}
	set, err := datasets.NewOCR(rows, p, datasets.OCROptions{MaxLength: 8, ReverseDigits: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(set.Len(), set.Invalid()[0].Text)
	// Output: 1 ABC
}

func TestPadBatchCutsToNothingWhereTheLengthIsZero(t *testing.T) {
	rows := [][]int64{{24}, {73, 84, 3}}
	for _, c := range []struct {
		claim string
		o     datasets.PadOptions
		want  string // from Hezar's pad_batch_items
	}{
		{"max_length=0", datasets.PadOptions{ZeroLength: true}, "[[] []]"},
		{"max_length=0, padding=longest", datasets.PadOptions{ZeroLength: true, Padding: "longest"}, "[[] []]"},
		{"max_length=0, truncation=False", datasets.PadOptions{ZeroLength: true, NoTruncation: true},
			"[[24 0 0] [73 84 3]]"},
		{"max_length=None", datasets.PadOptions{}, "[[24 0 0] [73 84 3]]"},
	} {
		if got, err := datasets.PadBatch(rows, c.o); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, %v; want %s", c.claim, got, err, c.want)
		}
	}
}
