package plates

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/vision"
)

func TestPhotosAreReadRelativeToTheirList(t *testing.T) {
	folder := t.TempDir()
	raw, err := assets.ReadFile("assets/photos/hezar_example.png")
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(folder, "labels.tsv")
	for name, content := range map[string][]byte{
		list: []byte("\ufefffile\tlabel\tsource\na.png\t۵۷س۷۷۹۷۷\tx\r\n\n" +
			"none.png\t۵۷س۷۷۹۷۷\nbroken.png\t۵۷س۷۷۹۷۷\n"),
		filepath.Join(folder, "a.png"):      raw,
		filepath.Join(folder, "broken.png"): raw[:len(raw)/2],
	} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ds, err := OpenPhotos(list)
	if err != nil {
		t.Fatal(err)
	}
	if ds.Len() != 3 {
		t.Fatalf("%d photographs, want 3", ds.Len())
	}
	s := at(t, ds, 0)
	if s.Label != "۵۷س۷۷۹۷۷" {
		t.Errorf("label %q", s.Label)
	}
	pixels := make([]float32, Width*Height)
	if err := WritePixels(pixels, s); err != nil {
		t.Fatal(err)
	}
	sum, lo, hi := 0.0, 0, 0
	for i, v := range pixels {
		sum += float64(v)
		if s.Image.Pix[i] < s.Image.Pix[lo] {
			lo = i
		}
		if s.Image.Pix[i] > s.Image.Pix[hi] {
			hi = i
		}
	}
	// This photograph is dark. After normalization its brightest pixel must be as far above zero as
	// that of a bright one.
	if math.Abs(sum)/4096 > 1e-3 || pixels[hi] < 1 || pixels[hi] != slices.Max(pixels) ||
		pixels[lo] != slices.Min(pixels) {
		t.Errorf("mean %v, darkest %v, brightest %v", sum/4096, pixels[lo], pixels[hi])
	}
	if err := WritePixels(pixels[:9], s); err == nil {
		t.Error("a short buffer is taken")
	}
	if err := WritePixels(pixels, Sample{Image: vision.NewImage(5, 5, 1)}); err == nil || !strings.Contains(err.Error(),
		"5x5") {
		t.Errorf("a small picture: %v", err)
	}
	if err := WritePixels(pixels, Sample{}); err == nil {
		t.Error("a sample without picture is taken")
	}
	if _, err := ds.At(1); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.png") {
		t.Errorf("a missing photograph: %v", err)
	}
	if _, err := ds.At(2); !errors.Is(err, vision.ErrCorrupt) || !strings.Contains(err.Error(), "broken.png") {
		t.Errorf("a damaged photograph: %v", err)
	}
	for _, i := range []int{-1, 3} {
		if _, err := ds.At(i); err == nil {
			t.Errorf("photograph %d of 3: no error", i)
		}
	}
	if _, err := OpenPhotos(filepath.Join(folder, "nowhere.tsv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing list: %v", err)
	}
}

func TestListErrorsNameTheLine(t *testing.T) {
	for text, words := range map[string]string{
		"file\tlabel\na.png":          "list.tsv:2",
		"a.png\t۵۷س۷۷۹۷۷\n\t۵۷س۷۷۹۷۷": "list.tsv:2",
		"a.png\t57S77977":             "list.tsv:1",
		"\n\nb.png\t۵۷س۷۷۹۷":          "list.tsv:3",
		strings.Repeat("x", 1<<17):    "list.tsv",
		"a.png ۵۷س۷۷۹۷۷":              "a tab",
	} {
		if rows, err := readList(strings.NewReader(text), "list.tsv"); err == nil || !strings.Contains(err.Error(),
			words) {
			t.Errorf("%.30q: %v, %v; want an error with %q", text, rows, err, words)
		}
	}
}

func FuzzReadList(f *testing.F) {
	f.Add("file\tlabel\na.png\t۵۷س۷۷۹۷۷\tx\n")
	f.Add("a.png\t۱۲الف۲۸۲۱۱\r\n\n")
	f.Add("a.png")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readList(strings.NewReader(text), "fuzzed")
		if err != nil {
			if !strings.Contains(err.Error(), "fuzzed") {
				t.Fatalf("error %v does not name the list", err)
			}
			return
		}
		for _, r := range rows {
			if _, err := ParseLabel(r.label); err != nil || r.file == "" {
				t.Fatalf("row %+v: %v", r, err)
			}
		}
	})
}
