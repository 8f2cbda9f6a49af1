//go:build linux

package main

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"time"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

const (
	charWidth, lineHeight = 8, 17
	baseline              = 13
	margin                = 10
	fontSize              = 13.2
	bar                   = '━' // the character of the progress bar
)

// The palette: transparent (for pixels that do not change), the background, and two inks in three
// strengths.
var (
	background = color.RGBA{0x0d, 0x11, 0x17, 0xff}
	text       = color.RGBA{0xc9, 0xd1, 0xd9, 0xff}
	command    = color.RGBA{0x7e, 0xe7, 0x87, 0xff}
	palette    = color.Palette{color.Transparent, background, between(text, 1), between(text, 2), text,
		between(command, 1), between(command, 2), command}
)

// between mixes an ink with the background; thirds is the share of the ink.
func between(ink color.RGBA, thirds int) color.RGBA {
	mix := func(a, b uint8) uint8 { return uint8((int(a)*(3-thirds) + int(b)*thirds) / 3) }
	return color.RGBA{mix(background.R, ink.R), mix(background.G, ink.G), mix(background.B, ink.B), 0xff}
}

// film is a sequence of images of a screen. Each contains only what differs from the one before.
type film struct {
	face     font.Face
	last     *image.Paletted // the whole screen
	pictures []*image.Paletted
	until    []time.Duration // end time of each image
	now      time.Duration
	masks    map[rune]*image.Alpha
}

func newFilm() (*film, error) {
	parsed, err := opentype.Parse(gomono.TTF)
	if err != nil {
		return nil, err
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: fontSize, DPI: 72, Hinting: font.HintingFull})
	return &film{face: face, masks: map[rune]*image.Alpha{}}, err
}

// add shows the screen for a while.
func (f *film) add(s *screen, d time.Duration) {
	f.now += d
	seen := f.draw(s)
	if picture := f.changes(seen); picture != nil {
		f.pictures, f.until = append(f.pictures, picture), append(f.until, f.now)
		f.last = seen
		return
	}
	f.until[len(f.until)-1] = f.now
}

func (f *film) length() time.Duration { return f.now }

// draw draws the whole screen.
func (f *film) draw(s *screen) *image.Paletted {
	size := image.Rect(0, 0, len(s.cells[0])*charWidth+2*margin, len(s.cells)*lineHeight+2*margin)
	p := image.NewPaletted(size, palette)
	for i := range p.Pix {
		p.Pix[i] = 1
	}
	for row, line := range s.cells {
		for col, c := range line {
			if c.char > ' ' {
				f.drawChar(p, margin+col*charWidth, margin+row*lineHeight, c)
			}
		}
	}
	return p
}

func (f *film) drawChar(p *image.Paletted, left, top int, c cell) {
	mask := f.masks[c.char]
	if mask == nil {
		mask = image.NewAlpha(image.Rect(0, 0, charWidth, lineHeight))
		if c.char == bar { // the font lacks this character
			draw.Draw(mask, image.Rect(0, lineHeight/2-1, charWidth, lineHeight/2+3), image.Opaque, image.Point{},
				draw.Src)
		} else {
			d := font.Drawer{Dst: mask, Src: image.Opaque, Face: f.face, Dot: fixed.P(0, baseline)}
			d.DrawString(string(c.char))
		}
		f.masks[c.char] = mask
	}
	ink := uint8(1)
	if c.typed {
		ink += 3
	}
	for y := range lineHeight {
		for x := range charWidth {
			if strength := (int(mask.AlphaAt(x, y).A)*3 + 127) / 255; strength > 0 {
				p.SetColorIndex(left+x, top+y, ink+uint8(strength))
			}
		}
	}
}

// changes returns the next image of the film so that it then shows p, or nil if it already does:
// the smallest part that differs, with or without its unchanged pixels, whichever takes fewer
// bytes.
func (f *film) changes(p *image.Paletted) *image.Paletted {
	if f.last == nil {
		return p
	}
	differences, changed := image.NewPaletted(p.Rect, palette), image.Rectangle{}
	for i, index := range p.Pix {
		if index != f.last.Pix[i] {
			x, y := i%p.Stride, i/p.Stride
			differences.Pix[i], changed = index, changed.Union(image.Rect(x, y, x+1, y+1))
		}
	}
	if changed.Empty() {
		return nil
	}
	part, differing := cut(p, changed), cut(differences, changed)
	if encodedSize(part) < encodedSize(differing) {
		return part
	}
	return differing
}

func cut(p *image.Paletted, r image.Rectangle) *image.Paletted {
	return p.SubImage(r).(*image.Paletted)
}

func encodedSize(p *image.Paletted) int {
	var b bytes.Buffer
	_ = gif.Encode(&b, p, nil) // writing to a buffer cannot fail
	return b.Len()
}

// gif returns the film as a GIF. Rounding to hundredths of a second does not accumulate.
func (f *film) gif() *gif.GIF {
	g := &gif.GIF{Config: image.Config{ColorModel: palette, Width: f.last.Rect.Dx(), Height: f.last.Rect.Dy()},
		BackgroundIndex: 1}
	shown := 0
	for i, p := range f.pictures {
		end := int(f.until[i] / (10 * time.Millisecond))
		g.Image, g.Delay, g.Disposal = append(g.Image, p), append(g.Delay, end-shown), append(g.Disposal,
			gif.DisposalNone)
		shown = end
	}
	return g
}
