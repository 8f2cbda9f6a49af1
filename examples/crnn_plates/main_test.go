package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/models/platereader"
	"github.com/gotrainer/gotrainer/vision"
	"github.com/gotrainer/gotrainer/vision/sheet"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// printed runs the command and returns its output.
func printed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	o, err := parse(args)
	if err != nil {
		return "", err
	}
	return testenv.Stdout(t, func() error { return execute(context.Background(), o) })
}

// picture writes a small image whose brightness depends on shade.
func picture(t *testing.T, path string, shade uint8) {
	t.Helper()
	im := image.NewGray(image.Rect(0, 0, 64, 16))
	for i := range im.Pix {
		im.Pix[i] = uint8(i)*shade + shade
	}
	im.SetGray(3, 3, color.Gray{255})
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		t.Fatal(err)
	}
	write(t, path, b.Bytes())
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestTrainsRendersReportsAndReads(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("trains for some seconds")
	}
	out := filepath.Join(t.TempDir(), "run")
	text, err := printed(t, "-out", out, "-steps", "4", "-batch", "4")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rendered plates that training never saw", "photograph that ships with the example",
		"500"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	for _, name := range []string{"curves.png", "predictions.png", "predictions.tsv", "metrics.jsonl", "metrics.csv",
		"model/model.safetensors", "model/config.json"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", name, err)
		}
	}
	photo := filepath.Join(t.TempDir(), "photo.png")
	picture(t, photo, 7)
	if text, err = printed(t, "-out", out, "-read", photo); err != nil || !strings.HasPrefix(text, photo+"\t") {
		t.Errorf("-read printed %q, error %v", text, err)
	}
	if _, err = printed(t, "-out", out, "-steps", "4"); err == nil || !strings.Contains(err.Error(), "-resume") {
		t.Errorf("a second run in the same folder: error %v, want one that says how to resume", err)
	}
	if _, err = printed(t, "-out", out, "-steps", "4", "-batch", "4", "-resume"); err != nil {
		t.Errorf("-resume: %v", err)
	}
}

func TestAStoppedRunSaysHowToGoOn(t *testing.T) {
	testenv.RequireTorch(t)
	out := filepath.Join(t.TempDir(), "run")
	o, err := parse([]string{"-out", out, "-steps", "2000", "-batch", "2"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // stops the run once it has logged an update
		for ctx.Err() == nil {
			if log, err := os.Stat(filepath.Join(out, "metrics.jsonl")); err == nil && log.Size() > 0 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := execute(ctx, o); err == nil || !strings.Contains(err.Error(), "continue with it by -resume") {
		t.Errorf("error %v, want one that names -resume", err)
	}
}

func TestLearnsAFolderAndPredictsAnother(t *testing.T) {
	testenv.RequireTorch(t)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "run")
	var table strings.Builder
	fmt.Fprintln(&table, "file\tlabel\tnote")
	for i := range 20 {
		name := fmt.Sprintf("%02d.png", i)
		picture(t, filepath.Join(dir, "train", name), uint8(i))
		fmt.Fprintf(&table, "train/%s\t%d\tx\n", name, 10+i)
	}
	write(t, filepath.Join(dir, "train.tsv"), []byte(table.String()))
	text, err := printed(t, "-out", out, "-train", filepath.Join(dir, "train"), "-steps", "3", "-batch", "2",
		"-predict", filepath.Join(dir, "train"), "-test", filepath.Join(dir, "train.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "20 pictures of") {
		t.Errorf("the report does not say that 20 pictures were read:\n%s", text)
	}
	predicted, err := os.ReadFile(filepath.Join(out, "predicted.tsv"))
	if err != nil || strings.Count(string(predicted), "\n") != 21 {
		t.Errorf("predicted.tsv: %q, %v; want a header and 20 rows", predicted, err)
	}
}

func TestBadPicturesAreNamedBeforeTheFirstStep(t *testing.T) {
	testenv.RequireTorch(t)
	dir := filepath.Join(t.TempDir(), "train")
	for i := range 12 {
		picture(t, filepath.Join(dir, fmt.Sprintf("%d.png", 100+i)), uint8(i))
	}
	write(t, filepath.Join(dir, "torn.png"), []byte("\x89PNG\r\n\x1a\nnothing more"))
	picture(t, filepath.Join(dir, strings.Repeat("1", 40)+".png"), 1)
	_, err := printed(t, "-out", filepath.Join(t.TempDir(), "a"), "-train", dir, "-labels-from-names", "-steps", "1")
	var bad *crnn.BadPicturesError
	if !errors.As(err, &bad) || len(bad.Files) != 2 || !strings.Contains(err.Error(), "torn.png") ||
		!strings.Contains(err.Error(), "79 frames") {
		t.Errorf("error %v, want one that names torn.png and the label that needs 79 frames", err)
	}
	if _, err = printed(t, "-out", filepath.Join(t.TempDir(), "b"), "-train", dir, "-labels-from-names", "-steps", "1",
		"-batch", "2", "-skip-bad"); err != nil {
		t.Errorf("-skip-bad: %v", err)
	}
	charset := filepath.Join(t.TempDir(), "charset.txt")
	write(t, charset, []byte("0\n1\n"))
	if _, err = printed(t, "-out", filepath.Join(t.TempDir(), "c"), "-train", dir, "-labels-from-names", "-charset",
		charset, "-steps", "1"); err == nil || !strings.Contains(err.Error(), "the charset has no character") {
		t.Errorf("error %v, want one about a character outside the charset", err)
	}
}

func TestWrongCommandLinesAreSentences(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-read"}, "-read needs the names"},
		{[]string{"plate.png"}, "give pictures to read after -read"},
		{[]string{"-table", "x"}, "-train, which is missing"},
		{[]string{"-train", "d", "-table", "x", "-labels-from-names"}, "either from -table or"},
		{[]string{"-full", "-quick"}, "cannot both"},
		{[]string{"-hold-out", "1"}, "between 0 and 1"},
		{[]string{"-model", "m"}, "-model is for -read"},
		{[]string{"-charset", "c"}, "-charset is for the labels of -train"},
		{[]string{"-read", "-test", "x", "plate.png"}, "are for training"},
		{[]string{"-steps", "-1"}, "-steps is -1; want a positive number"},
		{[]string{"-batch", "-1"}, "-batch is -1"},
		{[]string{"-lr", "-0.1"}, "-lr is -0.1"},
		{[]string{"-lr", "NaN"}, "-lr is NaN"},
		{[]string{"-threads", "-1"}, "-threads is -1"},
		{[]string{"-train", "d", "-width", "-1"}, "-width is -1"},
	} {
		if _, err := parse(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.args, err, c.want)
		}
	}
	testenv.RequireTorch(t)
	nothing := filepath.Join(t.TempDir(), "nothing")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-out", nothing, "-read", "x.png"}, "x.png"},
		{[]string{"-train", nothing, "-labels-from-names"}, nothing},
		{[]string{"-train", nothing}, "no train.tsv in or next to"},
		{[]string{"-precision", "fp8"}, "-precision: "},
		{[]string{"-test", nothing}, nothing},
		{[]string{"-predict", nothing}, nothing},
		{[]string{"-out", "/dev/null/run", "-steps", "1"}, "/dev/null"},
	} {
		if _, err := printed(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.args, err, c.want)
		}
	}
}

func TestWidePicturesMakeASheetOfFewer(t *testing.T) {
	cells := make([]sheet.Cell, 120)
	for i := range cells {
		cells[i].Image = vision.NewImage(512, 64, 1)
	}
	path := filepath.Join(t.TempDir(), "predictions.png")
	if err := drawSheet(path, cells, "wide"); err != nil {
		t.Fatal(err)
	}
	drawn, err := vision.Open(path, vision.DecodeOptions{})
	if err != nil || drawn.Height < 19_000 {
		t.Errorf("%v, %v; want as many pictures as 20,000 pixels hold", drawn, err)
	}
}

func TestABadPictureDoesNotLoseTheOthers(t *testing.T) {
	testenv.RequireTorch(t)
	model, err := platereader.Load()
	if err != nil {
		t.Fatal(err)
	}
	o := options{predict: t.TempDir(), out: t.TempDir()}
	write(t, filepath.Join(o.predict, "a.png"), []byte("\x89PNG\r\n\x1a\nnothing more"))
	picture(t, filepath.Join(o.predict, "b.png"), 7)
	for _, o.skipBad = range []bool{false, true} {
		text, err := testenv.Stdout(t, func() error { return predictFolder(o, model) })
		if !strings.Contains(text, "1 pictures of") {
			t.Errorf("printed %q", text)
		}
		if o.skipBad != (err == nil) || err != nil && !strings.Contains(err.Error(), "a.png") {
			t.Errorf("-skip-bad %v: error %v", o.skipBad, err)
		}
		table, err := os.ReadFile(filepath.Join(o.out, "predicted.tsv"))
		if err != nil || strings.Count(string(table), "\n") != 2 || !strings.Contains(string(table), "b.png\t") {
			t.Errorf("predicted.tsv: %q, %v; want a header and b.png", table, err)
		}
	}
}

func TestACharsetMayHaveABlankAndAByteOrderMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "charset.txt")
	write(t, path, []byte("\ufeff0\r\n \r\n\r\nۆ\r\n"))
	if got, err := charsetOf(path, nil); err != nil || !slices.Equal(got, []string{"", "0", " ", "ۆ"}) {
		t.Errorf("%q, %v", got, err)
	}
	write(t, path, []byte("0\n12\n"))
	if _, err := charsetOf(path, nil); err == nil || !strings.Contains(err.Error(), `charset.txt:2: "12"`) {
		t.Errorf("error %v, want one that names line 2", err)
	}
}

func TestReadsWithoutARun(t *testing.T) {
	testenv.RequireTorch(t)
	out, err := printed(t, "-out", t.TempDir(), "-read", "plates/assets/photos/hezar_example.png")
	if err != nil || !strings.Contains(out, "۵۷س۷۷۹۷۷") {
		t.Errorf("printed %q, %v; want what stands on the plate", out, err)
	}
}
