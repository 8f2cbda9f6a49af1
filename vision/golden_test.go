package vision

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// goldenCase is a result of Pillow, written by testdata/golden.py.
type goldenCase struct {
	File, Op                        string
	Filter                          int
	Width, Height, Channels, Offset int
	want                            []byte
}

func goldenCases(t testing.TB) []goldenCase {
	t.Helper()
	index, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []goldenCase }
	if err := json.Unmarshal(index, &all); err != nil {
		t.Fatal(err)
	}
	blob, err := os.ReadFile("testdata/golden.bin")
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Cases {
		c := &all.Cases[i]
		c.want = blob[c.Offset:][:c.Width*c.Height*c.Channels]
	}
	return all.Cases
}

func TestImagesAreWhatPillowMakesOfThem(t *testing.T) {
	seen := map[string]int{}
	for _, c := range goldenCases(t) {
		seen[c.Op]++
		name := fmt.Sprintf("%s/%s/%d/%dx%d", c.File, c.Op, c.Filter, c.Width, c.Height)
		t.Run(name, func(t *testing.T) {
			im, err := Open(filepath.Join("testdata/files", c.File), DecodeOptions{Gray: c.Op == "gray"})
			if err != nil {
				t.Fatal(err)
			}
			switch c.Op {
			case "rgb":
				im = im.RGB()
			case "resize":
				f, err := FilterByNumber(c.Filter)
				if err != nil {
					t.Fatal(err)
				}
				if im, err = im.Resized(c.Width, c.Height, f); err != nil {
					t.Fatal(err)
				}
			case "mirror":
				im.Mirror()
			}
			if im.Width != c.Width || im.Height != c.Height || im.Channels != c.Channels {
				t.Fatalf("got %v, want %dx%d with %d channels", im, c.Width, c.Height, c.Channels)
			}
			limit := 0
			if c.File == "jpeg_progressive.jpg" {
				limit = 3 // Go's inverse cosine transform rounds differently from libjpeg's
			}
			if worst, at := furthest(im.Pix, c.want); worst > limit {
				t.Errorf("sample %d is %d, Pillow has %d: off by %d, want at most %d", at, im.Pix[at], c.want[at],
					worst, limit)
			}
		})
	}
	for op, n := range map[string]int{"rgb": 34, "gray": 34, "resize": 84, "mirror": 2} {
		if seen[op] != n {
			t.Errorf("%d cases of %s in golden.json, want %d", seen[op], op, n)
		}
	}
}

// furthest returns the largest difference between two slices of equal length, and its index.
func furthest(a, b []byte) (worst, at int) {
	for i := range b {
		if d := max(int(a[i])-int(b[i]), int(b[i])-int(a[i])); d > worst {
			worst, at = d, i
		}
	}
	return worst, at
}
