package plates

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gotrainer/gotrainer/vision"
)

// Size of the images that the reader sees.
const (
	Width  = 128
	Height = 32
)

// Camera is the strength of each defect of a photograph, from 0 (none) to 1 (as bad as photographs
// of plates get); values up to 3 exaggerate. The zero value crops the plate exactly and shrinks it.
type Camera struct {
	Angle  float64 // rotation and view from the side
	Frame  float64 // loose framing that shows the car, or edges cut off
	Blur   float64 // defocus, motion blur, low resolution
	Light  float64 // darkness, brightness, low contrast, shadows
	Noise  float64 // sensor noise and JPEG artifacts
	Flawed float64 // fraction of photographs that are much worse than the rest
}

// DefaultCamera returns the camera for training images.
func DefaultCamera() Camera {
	return Camera{Angle: 1, Frame: 1, Blur: 1, Light: 1, Noise: 1, Flawed: 0.1}
}

// printed is the part of the canvas that the plate covers; outside it are the shadows of the
// blanks' files.
var printed = vision.RectQuad(4, 4, CanvasWidth-4.5, CanvasHeight-7)

// Photograph simulates a photograph of a flat plate, Width x Height in gray. Like the crop of a
// plate detector it shows the axis-aligned box around the plate, not always well placed, resized to
// the reader's size without keeping the aspect ratio.
func Photograph(plate *vision.Image, c Camera, rng *rand.Rand) (*vision.Image, error) {
	for _, v := range []float64{c.Angle, c.Frame, c.Blur, c.Light, c.Noise, c.Flawed} {
		if !(v >= 0 && v <= 3) {
			return nil, fmt.Errorf("plates: camera %+v: want settings of 0 (not at all) to 3; 1 is as bad as "+
				"photographs get", c)
		}
	}
	if rng.Float64() < c.Flawed {
		c.Blur *= 1.6
		c.Noise *= 1.6
		c.Light *= 1.25
	}
	scene, err := c.shoot(plate, rng)
	if err != nil {
		return nil, err
	}
	c.expose(scene, rng)
	return c.develop(scene, rng)
}

// shoot warps the plate in perspective onto a car, and returns the box around it.
func (c Camera) shoot(plate *vision.Image, rng *rand.Rand) (*vision.Image, error) {
	const long = 250.0 // width of the plate in pixels
	high := long * 0.212 * (1 + c.Angle*0.13*rng.NormFloat64())
	high = max(36, min(high, 80))
	slope := c.Angle * 0.055 * rng.NormFloat64()
	slope = max(-0.2, min(slope, 0.2))
	lean := c.Angle * 0.12 * rng.NormFloat64() * high // horizontal shear of the vertical edges
	taper := max(-0.16, min(c.Angle*0.05*rng.NormFloat64(), 0.16)) * high
	rise := slope * long
	q := vision.Quad{
		{X: lean / 2, Y: taper / 2}, {X: long + lean/2, Y: rise - taper/2},
		{X: long - lean/2, Y: rise + high + taper/2}, {X: -lean / 2, Y: high - taper/2},
	}
	x0, y0, x1, y1 := q[0].X, q[0].Y, q[0].X, q[0].Y
	for _, p := range q {
		x0, y0, x1, y1 = min(x0, p.X), min(y0, p.Y), max(x1, p.X), max(y1, p.Y)
	}
	// Margins: most detectors leave a little, some cut a little, a few leave half a bumper.
	loose := 0.02 + 0.045*rng.Float64()
	if rng.IntN(5) == 0 {
		loose = 0.05 + 0.1*rng.Float64()
	}
	margin := func(side, cut float64) float64 {
		m := rng.NormFloat64()*loose + loose*0.4
		return c.Frame * max(-cut, m) * side
	}
	x0, x1 = x0-margin(long, 0.05), x1+margin(long, 0.012)
	y0, y1 = y0-margin(high*2, 0.03), y1+margin(high*2, 0.03)
	w, h := int(x1-x0+0.5), int(y1-y0+0.5)
	scene := vision.NewImage(w, h, 1)
	if err := c.car(scene, rng); err != nil {
		return nil, err
	}
	for i := range q {
		q[i].X -= x0
		q[i].Y -= y0
	}
	if c.Frame > 0 && rng.IntN(3) > 0 {
		c.holder(scene, q, rng)
	}
	return scene, vision.WarpPerspective(scene, q, plate, printed)
}

// car fills the scene with the surroundings of a plate: paint of one shade with bright and dark
// bands, in focus or not.
func (c Camera) car(scene *vision.Image, rng *rand.Rand) error {
	paint := scene
	blurred := rng.IntN(2) == 0
	if blurred { // drawing it small and enlarging it softens the edges
		paint = vision.NewImage(scene.Width/5+1, scene.Height/5+1, 1)
	}
	paint.Fill(uint8(20 + rng.IntN(225)))
	for range rng.IntN(4) {
		y := rng.IntN(paint.Height)
		v := uint8(10 + rng.IntN(240))
		tilt := 0.08 * rng.NormFloat64()
		thick := 1 + rng.IntN(paint.Height/3+1)
		for x := range paint.Width {
			from := y + int(tilt*float64(x-paint.Width/2))
			for yy := max(0, from); yy < min(paint.Height, from+thick); yy++ {
				paint.Pix[yy*paint.Width+x] = v
			}
		}
	}
	if !blurred {
		return nil
	}
	return vision.Resize(scene, paint, vision.Bilinear)
}

// holder draws the plate's frame: a darker or lighter rim, often thicker below, where dealers print
// their name.
func (c Camera) holder(scene *vision.Image, q vision.Quad, rng *rand.Rand) {
	rim := 1 + 4*rng.Float64()
	below := rim
	if rng.IntN(3) == 0 {
		below += 3 + 5*rng.Float64()
	}
	frame := vision.Quad{
		{X: q[0].X - rim, Y: q[0].Y - rim}, {X: q[1].X + rim, Y: q[1].Y - rim},
		{X: q[2].X + rim, Y: q[2].Y + below}, {X: q[3].X - rim, Y: q[3].Y + below},
	}
	tone := 15 + rng.IntN(50)
	if rng.IntN(4) == 0 {
		tone = 120 + rng.IntN(120)
	}
	bar := vision.NewImage(64, 24, 1)
	bar.Fill(uint8(tone))
	if below > rim+3 {
		for range 8 + rng.IntN(20) { // letters of the dealer, too small to read
			bar.Pix[23*64+rng.IntN(64)] = uint8(140 + rng.IntN(110))
		}
	}
	// The quad around the plate is convex because the plate's is.
	_ = vision.WarpPerspective(scene, frame, bar, vision.RectQuad(0, 0, 64, 24))
}

// expose simulates the lighting of the scene.
func (c Camera) expose(scene *vision.Image, rng *rand.Rand) {
	if c.Light <= 0 {
		return
	}
	w, h := float64(scene.Width), float64(scene.Height)
	if rng.IntN(2) == 0 { // a gentle gradient, as light from one side
		a := 1 - c.Light*0.35*rng.Float64()
		vision.Shade(scene, w/2, h/2, rng.Float64()*2*math.Pi, w, a, 1)
	}
	if rng.IntN(6) == 0 { // a shadow with an edge
		dark := 1 - c.Light*(0.15+0.35*rng.Float64())
		vision.Shade(scene, rng.Float64()*w, rng.Float64()*h, rng.Float64()*2*math.Pi, 2+20*rng.Float64(), 1, dark)
	}
	gain := 1 - min(c.Light, 1)*(0.6*rng.Float64())
	if rng.IntN(8) == 0 {
		gain = 1 + 0.4*c.Light*rng.Float64() // overexposed
	}
	room := max(0, 128*(1-gain)) // the largest bias that clips nothing
	bias := c.Light * (2*rng.Float64() - 1) * (room + 12)
	gamma := math.Exp(c.Light * 0.3 * rng.NormFloat64())
	vision.AdjustLight(scene, gain, bias, gamma)
}

// develop simulates lens, sensor and JPEG file, and resizes the image to the reader's size.
func (c Camera) develop(scene *vision.Image, rng *rand.Rand) (*vision.Image, error) {
	// Width in pixels: from distant cars (about 80) to close ones.
	across := 80 * math.Exp(rng.Float64()*1.2)
	across = float64(scene.Width) + (across-float64(scene.Width))*min(c.Blur, 1)
	across = max(48, across/max(c.Blur, 1))
	down := max(12, float64(scene.Height)*across/float64(scene.Width))
	shot, err := scene.Resized(int(across+0.5), int(down+0.5), vision.Bilinear)
	if err != nil {
		return nil, err
	}
	if c.Blur > 0 {
		unit := across / 128 // so that the reader sees the same blur at any resolution
		if rng.IntN(3) > 0 {
			vision.GaussianBlur(shot, unit*c.Blur*0.8*math.Pow(rng.Float64(), 1.5))
		}
		if rng.IntN(8) == 0 {
			vision.MotionBlur(shot, unit*(1+c.Blur*2*rng.Float64()), rng.NormFloat64()*0.5)
		}
	}
	if c.Noise > 0 && rng.IntN(2) == 0 {
		vision.AddNoise(shot, c.Noise*7*math.Pow(rng.Float64(), 2), rng)
	}
	if c.Noise > 0 && rng.IntN(3) == 0 {
		if err := vision.CompressJPEG(shot, 25+rng.IntN(60)); err != nil {
			return nil, err
		}
	}
	return shot.Resized(Width, Height, vision.Bicubic)
}
