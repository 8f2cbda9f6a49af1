package plates

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gotrainer/gotrainer/vision"
)

// Size of the canvas of a flat plate, half that of the original artwork.
const (
	CanvasWidth  = 400
	CanvasHeight = 88
	stripWidth   = 41   // the blue strip with the flag
	digitHeight  = 61.0 // of the large digits' masks, including the soft margin
)

// kind is a class of plate, which determines the blank and the shades.
type kind uint8

const (
	private kind = iota
	taxi
	government
	police
	army
	defence
	kinds
)

var blankFiles = [kinds]string{"savari", "taxi", "gov", "police", "artesh", "gov"}

// bars are the x positions of the bar before the region in each blank.
var bars = [kinds]float64{private: 316.8, taxi: 312, government: 312, police: 312, army: 317, defence: 312}

// shades are the gray levels of paper and ink for each kind, before the camera, and the gray level
// of the paper in the blank's file.
var shades = [kinds]struct{ paper, ink, file float64 }{
	private:    {235, 25, 255},
	taxi:       {165, 25, 160},
	government: {85, 240, 103},
	police:     {60, 240, 50},
	army:       {195, 25, 225},
	defence:    {105, 240, 103},
}

// Style describes how a plate differs from an ideal one. The zero value is a new, cleanly printed
// plate.
type Style struct {
	Spread float64 // standard deviation of the positions of characters, in canvas pixels
	Size   float64 // relative standard deviation of their size
	Stroke float64 // stroke weight: -1 is thin, 1 is bold
	Even   bool    // spaces digits by their widths instead of a fixed pitch
	Worn   float64 // 0 is new, 1 is scratched and dirty
	Screws int     // number of screw heads
	Bar    float64 // pixels of thickness added to the bar before the region
}

// RandomStyle returns a random style.
func RandomStyle(rng *rand.Rand) Style {
	s := Style{
		Spread: 0.4 + rng.Float64(),
		Size:   0.015 + 0.03*rng.Float64(),
		Stroke: max(-1, min(0.2+rng.NormFloat64()*0.5, 1)),
		Even:   rng.IntN(2) == 0,
		Screws: rng.IntN(5),
	}
	if rng.IntN(3) == 0 {
		s.Worn = rng.Float64()
	}
	if rng.IntN(2) == 0 { // a bar as thick as a stroke is easily misread as ۱
		s.Bar = 5 * rng.Float64()
	}
	return s
}

// Render draws the plate flat, seen from the front, CanvasWidth x CanvasHeight in gray. rng
// determines whatever the style leaves to chance; the same label, style and state of rng give the
// same image.
func Render(label string, s Style, rng *rand.Rand) (*vision.Image, error) {
	f, err := ParseLabel(label)
	if err != nil {
		return nil, err
	}
	art, err := loadArtwork()
	if err != nil {
		return nil, fmt.Errorf("plates: embedded artwork: %w", err)
	}
	var l letter
	for _, l = range letters {
		if l.text == f.Letter {
			break
		}
	}
	im := art.blanks[l.kind].Clone()
	shade := shades[l.kind]
	retone(im, shade.paper, shade.ink, shade.file)
	if s.Worn > 0 {
		soil(im, s.Worn, shade.paper, rng)
	}
	p := pen{im: im, ink: uint8(shade.ink), style: s, rng: rng}
	p.bold = 128 - 55*s.Stroke
	p.prepare()
	p.bar(bars[l.kind], s.Bar)
	p.group(art, f.First[:], 90, 50, 35.5, 1)
	p.glyph(art.letters[l.text], 162+2.5*s.Spread*rng.NormFloat64(), 50+2*s.Spread*rng.NormFloat64(),
		0.5/glyphScale*l.scale*(1+1.5*s.Size*rng.NormFloat64()))
	p.group(art, f.Last[:], 248, 50, 35.5, 1)
	p.group(art, f.Region[:], 357, 53, 33.5, 0.92)
	for range s.Screws {
		p.screw()
	}
	return im, nil
}

// retone maps the blank's paper and ink to the given shades. Levels in between, such as print edges
// and the texture of the photographed blanks, are mapped linearly. The strip is left unchanged.
func retone(im *vision.Image, paper, ink, file float64) {
	var table [256]uint8
	inkFile := 0.0
	if file < 128 && ink > paper {
		inkFile = 250 // dark blanks have white print
	}
	for v := range table {
		t := (float64(v) - file) / (inkFile - file)
		table[v] = uint8(max(0, min(paper+max(-0.15, t)*(ink-paper), 255)))
	}
	for y := range im.Height {
		row := im.Row(y)
		for x := stripWidth; x < len(row); x++ {
			row[x] = table[row[x]]
		}
	}
}

// soil draws soft blotches of dirt or worn paint.
func soil(im *vision.Image, amount, paper float64, rng *rand.Rand) {
	for range 2 + rng.IntN(8) {
		cx, cy := rng.Float64()*CanvasWidth, rng.Float64()*CanvasHeight
		rx, ry := 4+rng.Float64()*40, 2+rng.Float64()*14
		depth := amount * (0.1 + 0.4*rng.Float64())
		tone := paper * (0.3 + 0.5*rng.Float64())
		for y := max(0, int(cy-ry)); y < min(CanvasHeight, int(cy+ry)); y++ {
			row := im.Row(y)
			dy := (float64(y) - cy) / ry
			for x := max(0, int(cx-rx)); x < min(CanvasWidth, int(cx+rx)); x++ {
				dx := (float64(x) - cx) / rx
				if d := 1 - dx*dx - dy*dy; d > 0 {
					v := float64(row[x])
					row[x] = uint8(v + (tone-v)*depth*d)
				}
			}
		}
	}
}

// pen draws characters on a canvas with one stroke weight.
type pen struct {
	im    *vision.Image
	ink   uint8
	style Style
	rng   *rand.Rand
	bold  float64    // mask level at the edge of the stroke
	cover [256]int32 // mask level to coverage 0..256
}

func (p *pen) prepare() {
	for v := range p.cover {
		p.cover[v] = int32(max(0, min(128+(float64(v)-p.bold)*2.2, 256)))
	}
}

// group draws digits around (cx, cy).
func (p *pen) group(art *artwork, digits []int, cx, cy, pitch, scale float64) {
	scale *= 1 + p.style.Size*p.rng.NormFloat64()
	pitch *= 1 + 0.03*p.style.Spread*p.rng.NormFloat64()
	cx += 2 * p.style.Spread * p.rng.NormFloat64()
	cy += 1.2 * p.style.Spread * p.rng.NormFloat64()
	const full = 115 * glyphScale // height of a digit's mask before it was cropped to its ink
	widths := make([]float64, len(digits))
	total := 0.0
	for i, d := range digits {
		widths[i] = pitch
		if p.style.Even {
			widths[i] = float64(art.digits[d].Width)*0.5/glyphScale*scale + pitch*0.1
		}
		total += widths[i]
	}
	x := cx - total/2
	for i, d := range digits {
		m := art.digits[d]
		size := digitHeight * scale / full
		if d != 0 { // halfway between the files' proportions and digits of equal height, as on real plates
			size = math.Sqrt(size * digitHeight * scale / float64(m.Height))
		}
		size *= 1 + 0.5*p.style.Size*p.rng.NormFloat64()
		p.glyph(m, x+widths[i]/2+0.7*p.style.Spread*p.rng.NormFloat64(), cy+0.6*p.style.Spread*p.rng.NormFloat64(),
			size)
		x += widths[i]
	}
}

// glyph blends a mask onto the canvas, centerd at (cx, cy) and scaled.
func (p *pen) glyph(mask *vision.Image, cx, cy, scale float64) {
	if !(scale > 0.05) {
		return
	}
	w, h := float64(mask.Width)*scale, float64(mask.Height)*scale
	x0, y0 := cx-w/2, cy-h/2
	step := int(65536 / scale)
	ink := int32(p.ink)
	for y := max(0, int(math.Ceil(y0-0.5))); y < min(CanvasHeight, int(y0+h)); y++ {
		sy := int(((float64(y)+0.5-y0)/scale - 0.5) * 65536)
		iy := sy >> 16
		if iy < 0 || iy+1 >= mask.Height {
			continue
		}
		wy := int32(sy>>8) & 255
		top, bottom := mask.Row(iy), mask.Row(iy+1)
		row := p.im.Row(y)
		first := max(0, int(math.Ceil(x0-0.5)))
		sx := int(((float64(first)+0.5-x0)/scale - 0.5) * 65536)
		for x := first; x < min(CanvasWidth, int(x0+w)); x++ {
			ix := sx >> 16
			if ix >= 0 && ix+1 < len(top) {
				wx := int32(sx>>8) & 255
				a := int32(top[ix])<<8 + (int32(top[ix+1])-int32(top[ix]))*wx
				b := int32(bottom[ix])<<8 + (int32(bottom[ix+1])-int32(bottom[ix]))*wx
				if c := p.cover[(a<<8+(b-a)*wy)>>16]; c > 0 {
					v := int32(row[x])
					row[x] = uint8(v + (ink-v)*c>>8)
				}
			}
			sx += step
		}
	}
}

// bar thickens the bar before the region, by up to 10 pixels.
func (p *pen) bar(center, thick float64) {
	if !(thick > 0) {
		return
	}
	from, to := center-min(thick, 10)/2, center+min(thick, 10)/2
	for x := int(from); x <= int(to); x++ {
		cover := min(to, float64(x+1)) - max(from, float64(x))
		for y := 6; y < CanvasHeight-8; y++ {
			v := &p.im.Pix[y*CanvasWidth+x]
			*v = uint8(float64(*v) + (float64(p.ink)-float64(*v))*cover)
		}
	}
}

// screw draws a small round screw head at a random place between characters, with a face and a rim
// of random shades.
func (p *pen) screw() {
	spots := [...][2]float64{{50, 20}, {50, 66}, {132, 50}, {198, 50}, {198, 14}, {300, 50}, {313, 40}, {372, 12},
		{385, 52}, {320, 70}}
	s := spots[p.rng.IntN(len(spots))]
	cx, cy := s[0]+4*p.rng.NormFloat64(), s[1]+4*p.rng.NormFloat64()
	r := 2.5 + 2*p.rng.Float64()
	face, rim := 60+p.rng.Float64()*180, 40+p.rng.Float64()*160
	for y := max(0, int(cy-r)); y < min(CanvasHeight, int(cy+r+1)); y++ {
		row := p.im.Row(y)
		for x := max(0, int(cx-r)); x < min(CanvasWidth, int(cx+r+1)); x++ {
			d := math.Hypot(float64(x)+0.5-cx, float64(y)+0.5-cy) / r
			switch {
			case d < 0.6:
				row[x] = uint8(face)
			case d < 1:
				row[x] = uint8(rim)
			}
		}
	}
}
