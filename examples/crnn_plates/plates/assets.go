package plates

import (
	"embed"
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/vision"
)

// The lettering and the blank plates. assets/README.md gives their origin and license.
//
//go:embed assets/glyphs/*.png assets/templates/*.png assets/photos/*.png
var assets embed.FS

// artwork is the decoded assets, loaded once on first use.
type artwork struct {
	digits  [10]*vision.Image
	letters map[string]*vision.Image
	blanks  [kinds]*vision.Image
}

// glyphScale is the scale of the masks relative to their files, a little larger than they are
// drawn.
const glyphScale = 0.6

var loadArtwork = sync.OnceValues(func() (*artwork, error) {
	a := &artwork{letters: make(map[string]*vision.Image)}
	for d := range a.digits {
		m, err := loadMask(fmt.Sprint(d))
		if err != nil {
			return nil, err
		}
		a.digits[d] = m
	}
	for _, l := range letters {
		m, err := loadMask(l.glyph)
		if err != nil {
			return nil, err
		}
		a.letters[l.text] = m
	}
	for k, name := range blankFiles {
		im, err := openAsset("assets/templates/"+name+".png", vision.DecodeOptions{Gray: true})
		if err != nil {
			return nil, err
		}
		a.blanks[k] = im
	}
	return a, nil
})

func openAsset(name string, o vision.DecodeOptions) (*vision.Image, error) {
	raw, err := assets.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return vision.Decode(raw, name, o)
}

// loadMask reads a glyph from the alpha channel of its file, crops it to the ink, shrinks it and
// softens its edge. With a soft edge the renderer can thicken or thin the stroke by moving the
// threshold.
func loadMask(name string) (*vision.Image, error) {
	name = "assets/glyphs/" + name + ".png"
	raw, err := assets.ReadFile(name)
	if err != nil {
		return nil, err
	}
	alpha, err := vision.DecodeAlpha(raw, name, vision.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	x0, y0, x1, y1 := alpha.Width, alpha.Height, 0, 0
	for y := range alpha.Height {
		for x, v := range alpha.Row(y) {
			if v > 127 {
				x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x+1), max(y1, y+1)
			}
		}
	}
	ink, err := alpha.Pad(-x0, -y0, x1-alpha.Width, y1-alpha.Height, 0)
	if err != nil {
		return nil, fmt.Errorf("%s has no ink: %w", name, err)
	}
	const margin = 5 // room for the soft edge and thicker strokes, in pixels of the file
	if ink, err = ink.Pad(margin, margin, margin, margin, 0); err != nil {
		return nil, err
	}
	w, h := int(float64(ink.Width)*glyphScale+0.5), int(float64(ink.Height)*glyphScale+0.5)
	if ink, err = ink.Resized(w, h, vision.Box); err != nil {
		return nil, err
	}
	vision.GaussianBlur(ink, 1)
	return ink, nil
}

// Photo returns the photograph of a real plate that comes with Hezar's own tests, and its label.
func Photo() (*vision.Image, string, error) {
	im, err := openAsset("assets/photos/hezar_example.png", vision.DecodeOptions{Gray: true})
	return im, "۵۷س۷۷۹۷۷", err
}
