package sheet

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"

	"github.com/gotrainer/gotrainer/vision"
)

func cells(n int) []Cell {
	out := make([]Cell, n)
	for i := range out {
		im := vision.NewImage(128, 32, 1)
		im.Fill(uint8(40 + i))
		out[i] = Cell{Image: im, Read: "۱۲الف۳۴۵۶۷", Want: "۱۲الف۳۴۵۶۷"}
	}
	return out
}

func TestOnlyWrongCellsAreRed(t *testing.T) {
	cs := cells(5)
	cs[3].Read = "۱۲ب۳۴۵۶۷"
	cs[4].Read, cs[4].Want = "?", "" // unknown is not wrong
	im, err := Draw(cs, Options{Columns: 1})
	if err != nil {
		t.Fatal(err)
	}
	high := (im.Rect.Dy() - gap) / 5
	for i := range cs {
		reds, greens := 0, 0
		for y := gap + i*high; y < gap+(i+1)*high; y++ {
			for x := range im.Rect.Dx() {
				switch im.RGBAAt(x, y) {
				case red:
					reds++
				case green:
					greens++
				}
			}
		}
		if wrong := i == 3; wrong != (reds > 500) || wrong != (greens > 0) {
			t.Errorf("cell %d: %d red and %d green pixels", i, reds, greens)
		}
	}
}

func TestImagesAreDrawnPixelForPixel(t *testing.T) {
	im := &vision.Image{Pix: []uint8{255, 0, 0, 0, 255, 0}, Width: 2, Height: 1, Channels: 3}
	out, err := Draw([]Cell{{Image: im}}, Options{Scale: 3})
	if err != nil {
		t.Fatal(err)
	}
	for x, want := range map[int]color.RGBA{0: {255, 0, 0, 255}, 2: {255, 0, 0, 255}, 3: {0, 255, 0, 255},
		5: {0, 255, 0, 255}} {
		if got := out.RGBAAt(gap+frame+x, gap+frame+2); got != want {
			t.Errorf("column %d is %v, want %v", x, got, want)
		}
	}
}

func TestLettersJoinAndRunFromTheRight(t *testing.T) {
	for in, want := range map[string]string{
		"":           "",
		"abc 12":     "abc 12",
		"۱۲ب۳۴۵۶۷":   "۱۲\uFE8F۳۴۵۶۷",
		"۱۲الف۲۸۲۱۱": "۱۲\uFED2\uFEDF\uFE8D۲۸۲۱۱",
		"ببب":        "\uFE90\uFE92\uFE91",
		"دد":         "\uFEA9\uFEA9",
	} {
		if got := visual(in); got != want {
			t.Errorf("visual(%q) = %+q, want %+q", in, got, want)
		}
	}
}

func TestTheFontHasEveryForm(t *testing.T) {
	f, err := opentype.Parse(vazirmatn)
	if err != nil {
		t.Fatal(err)
	}
	var b sfnt.Buffer
	for letter, fs := range forms {
		for _, r := range fs {
			if i, err := f.GlyphIndex(&b, r); err != nil || i == 0 {
				t.Errorf("%q has no glyph for %U: %v", letter, r, err)
			}
		}
	}
}

func TestSheetErrorsSayWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		cells []Cell
		o     Options
		words string
	}{
		"no image":         {[]Cell{{Read: "x"}}, Options{}, "cell 0"},
		"negative columns": {cells(1), Options{Columns: -1}, "columns"},
		"scale too large":  {cells(1), Options{Scale: 99}, "1 to 32"},
		"endless":          {cells(300), Options{Columns: 1}, "at most"},
	} {
		if err := Write(&bytes.Buffer{}, test.cells, test.o); err == nil || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %v, want words %q", name, err, test.words)
		}
	}
	if err := WriteFile(filepath.Join(t.TempDir(), "no", "such", "folder.png"), cells(1), Options{}); err == nil {
		t.Error("a folder that is missing: no error")
	}
	if _, err := Draw(nil, Options{Title: "nothing"}); err != nil {
		t.Errorf("a sheet without cells: %v", err)
	}
}

func ExampleWriteFile() {
	folder, err := os.MkdirTemp("", "sheet")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	im := vision.NewImage(128, 32, 1)
	path := filepath.Join(folder, "predictions.png")
	err = WriteFile(path, []Cell{
		{Image: im, Read: "۱۲ب۳۴۵۶۷", Want: "۱۲ب۳۴۵۶۷"},
		{Image: im, Read: "۱۲ب۳۴۵۶۱", Want: "۱۲ب۳۴۵۶۷", Note: "0.61"},
	}, Options{Title: "unseen plates", Columns: 2})
	if err != nil {
		log.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	c, err := png.DecodeConfig(f)
	fmt.Println(c.Width, c.Height, err)
	// Output: 548 142 <nil>
}
