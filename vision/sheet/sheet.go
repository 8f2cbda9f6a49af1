// Package sheet draws contact sheets: images in a grid, each with the text that a model read in it,
// to show at a glance where it is wrong. Right answers are black; wrong ones are framed in red,
// with the right answer beside them.
//
//	err := sheet.WriteFile("predictions.png", cells, sheet.Options{Title: "500 unseen plates"})
//
// Texts may be Latin or Persian. The line runs from left to right, as a license plate does; runs of
// Persian letters within it are joined and run from right to left. The font is Vazirmatn (SIL Open
// Font License 1.1, assets/OFL.txt).
package sheet

import (
	_ "embed"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"os"

	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/gotrainer/gotrainer/vision"
)

//go:embed assets/Vazirmatn-Regular.ttf
var vazirmatn []byte

// Cell is an image with its text.
type Cell struct {
	Image *vision.Image
	Read  string // what the model read
	Want  string // the right text; empty means unknown, and the cell is never marked
	Note  string // small print after the text, such as a score; may be empty
}

// Wrong reports whether the right text is known and another one was read.
func (c Cell) Wrong() bool { return c.Want != "" && c.Read != c.Want }

// Options configures a sheet. The zero value is right for images of about 128x32.
type Options struct {
	Columns int    // images in a row; zero means as many as fit into 1600 pixels
	Scale   int    // enlargement of the images; zero means 2
	Title   string // line on top; empty means none
}

var (
	paper = color.RGBA{250, 250, 248, 255}
	black = color.RGBA{20, 20, 20, 255}
	red   = color.RGBA{200, 20, 20, 255}
	green = color.RGBA{0, 120, 40, 255}
	gray  = color.RGBA{120, 120, 120, 255}
)

const (
	maxSide  = 20_000 // longest side of a sheet, in pixels
	gap      = 8
	frame    = 3
	textSize = 18.0
	lineHigh = 28
)

// Draw lays out the cells. All share one cell size, that of the largest image. It returns an
// error if an image is missing or the sheet would be too large.
func Draw(cells []Cell, o Options) (*image.RGBA, error) {
	scale := o.Scale
	if scale == 0 {
		scale = 2
	}
	if scale < 1 || scale > 32 || o.Columns < 0 {
		return nil, fmt.Errorf("sheet: scale %d and %d columns: want a scale of 1 to 32 (zero means 2) and no "+
			"negative columns", o.Scale, o.Columns)
	}
	cw, ch := 1, 1
	for i, c := range cells {
		if c.Image == nil || len(c.Image.Pix) == 0 {
			return nil, fmt.Errorf("sheet: cell %d of %d (%q) has no image", i, len(cells), c.Read)
		}
		cw, ch = max(cw, c.Image.Width*scale), max(ch, c.Image.Height*scale)
	}
	cw += 2*frame + gap
	ch += 2*frame + lineHigh + gap
	columns := o.Columns
	if columns == 0 {
		columns = max(1, min(1600/cw, len(cells)))
	}
	rows := (len(cells) + columns - 1) / columns
	top := gap
	if o.Title != "" {
		top += lineHigh
	}
	w, h := columns*cw+gap, rows*ch+top
	if w > maxSide || h > maxSide {
		return nil, fmt.Errorf("sheet: %d images in %d columns make %dx%d pixels: want at most %d a side; draw "+
			"fewer, or set Columns or a smaller Scale", len(cells), columns, w, h, maxSide)
	}
	p, err := newPen(image.Rect(0, 0, w, h))
	if err != nil {
		return nil, err
	}
	defer p.close()
	p.text(o.Title, gap, gap+lineHigh-10, w-2*gap, black)
	for i, c := range cells {
		p.cell(c, gap+i%columns*cw, top+i/columns*ch, cw-gap, ch-gap, scale)
	}
	return p.im, nil
}

// Write draws the cells and writes a PNG.
func Write(w io.Writer, cells []Cell, o Options) error {
	im, err := Draw(cells, o)
	if err != nil {
		return err
	}
	return png.Encode(w, im)
}

// WriteFile draws the cells into a PNG file.
func WriteFile(path string, cells []Cell, o Options) error {
	im, err := Draw(cells, o)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("sheet: %w", err)
	}
	if err := png.Encode(f, im); err != nil {
		f.Close()
		return fmt.Errorf("sheet: write %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("sheet: %w", err)
	}
	return nil
}

// pen draws on one sheet.
type pen struct {
	im   *image.RGBA
	face font.Face
}

func newPen(r image.Rectangle) (*pen, error) {
	f, err := opentype.Parse(vazirmatn)
	if err != nil {
		return nil, fmt.Errorf("sheet: embedded font: %w", err)
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: textSize, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		return nil, fmt.Errorf("sheet: embedded font: %w", err)
	}
	im := image.NewRGBA(r)
	draw.Draw(im, r, image.NewUniform(paper), image.Point{}, draw.Src)
	return &pen{im, face}, nil
}

func (p *pen) close() { _ = p.face.Close() } // it buffers nothing

// cell draws one image with its frame and its line of text into the box at (x, y).
func (p *pen) cell(c Cell, x, y, width, height, scale int) {
	ink := black
	if c.Wrong() {
		ink = red
		p.fill(image.Rect(x, y, x+width, y+height-lineHigh), red)
	}
	inner := image.Rect(x+frame, y+frame, x+frame+c.Image.Width*scale, y+frame+c.Image.Height*scale)
	if c.Wrong() { // leave the frame; the rest around the image is paper
		p.fill(image.Rect(x+frame, y+frame, x+width-frame, y+height-lineHigh-frame), paper)
	}
	for yy := inner.Min.Y; yy < inner.Max.Y; yy++ {
		for xx := inner.Min.X; xx < inner.Max.X; xx++ {
			i := ((yy-inner.Min.Y)/scale*c.Image.Width + (xx-inner.Min.X)/scale) * c.Image.Channels
			px := c.Image.Pix[i:]
			v := color.RGBA{px[0], px[0], px[0], 255}
			if c.Image.Channels == 3 {
				v = color.RGBA{px[0], px[1], px[2], 255}
			}
			p.im.SetRGBA(xx, yy, v)
		}
	}
	at, end, base := x+frame, x+width, y+height-9
	read := c.Read
	if read == "" {
		read = "(nothing)"
	}
	at = p.text(read, at, base, end-at, ink)
	if c.Wrong() {
		at = p.text("  "+c.Want, at, base, end-at, green)
	}
	if c.Note != "" {
		p.text("  "+c.Note, at, base, end-at, gray)
	}
}

func (p *pen) fill(r image.Rectangle, c color.RGBA) {
	draw.Draw(p.im, r, image.NewUniform(c), image.Point{}, draw.Src)
}

// text draws a line with its baseline at y, cut off after width pixels, and returns where it ends.
func (p *pen) text(s string, x, y, width int, c color.RGBA) int {
	r := image.Rect(x, y-lineHigh, x+width, y+lineHigh).Intersect(p.im.Rect)
	if r.Empty() {
		return x
	}
	d := font.Drawer{Dst: p.im.SubImage(r).(draw.Image), Src: image.NewUniform(c), Face: p.face, Dot: fixed.P(x, y)}
	d.DrawString(visual(s))
	return d.Dot.X.Ceil()
}
