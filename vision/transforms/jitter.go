package transforms

import (
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/vision"
)

// ColorJitter changes brightness, contrast, saturation and hue by random factors, in random order:
// torchvision.transforms.ColorJitter. Each field holds the least and the greatest factor; zero
// changes nothing. [By] corresponds to torchvision's form with one number: ColorJitter{Brightness:
// transforms.By(0.4)}. Saturation and hue of a gray image do not change.
type ColorJitter struct {
	Brightness, Contrast, Saturation [2]float64 // 1 leaves the image unchanged

	Hue [2]float64 // turns of the color wheel, from -0.5 to 0.5; 0 leaves the image unchanged
}

// By returns the range from max(0, 1-x) to 1+x.
func By(x float64) [2]float64 { return [2]float64{max(0, 1-x), 1 + x} }

// Apply changes the colors.
func (c ColorJitter) Apply(p *Picture, g Generator) error {
	switch {
	case p.Image == nil:
		return errNumbers
	case g == nil:
		return errNoGenerator
	}
	steps := [4]struct {
		name                     string
		limits                   [2]float64
		least, greatest, neutral float64
		adjust                   func(im *vision.Image, factor float32)
		factor                   float32
	}{
		{"Brightness", c.Brightness, 0, math.MaxFloat32, 1, adjustBrightness, 1},
		{"Contrast", c.Contrast, 0, math.MaxFloat32, 1, adjustContrast, 1},
		{"Saturation", c.Saturation, 0, math.MaxFloat32, 1, adjustSaturation, 1},
		{"Hue", c.Hue, -0.5, 0.5, 0, adjustHue, 0},
	}
	order := permutation4(g)
	for i := range steps {
		s := &steps[i]
		low, high := s.limits[0], s.limits[1]
		switch {
		case !(low >= s.least && low <= high && high <= s.greatest):
			return fmt.Errorf("its %s is %v: want the lesser number first, from %g to %g", s.name, s.limits, s.least,
				s.greatest)
		case s.limits == [2]float64{} || low == s.neutral && high == s.neutral:
			s.adjust = nil
		default:
			s.factor = uniform(g, float32(low), float32(high))
		}
	}
	im := p.Image.Clone()
	for _, i := range order {
		if s := steps[i]; s.adjust != nil {
			s.adjust(im, s.factor)
		}
	}
	p.Image = im
	return nil
}

// adjustBrightness blends the image with black.
func adjustBrightness(im *vision.Image, factor float32) {
	table := blendWith(0, factor)
	for i, v := range im.Pix {
		im.Pix[i] = table[v]
	}
}

// adjustContrast blends the image with its mean gray level.
func adjustContrast(im *vision.Image, factor float32) {
	sum := 0
	for _, v := range im.Gray().Pix {
		sum += int(v)
	}
	mean := uint8(float64(sum)/float64(max(1, im.Width*im.Height)) + 0.5)
	table := blendWith(mean, factor)
	for i, v := range im.Pix {
		im.Pix[i] = table[v]
	}
}

// adjustSaturation blends the image with its gray version.
func adjustSaturation(im *vision.Image, factor float32) {
	if im.Channels == 1 {
		return
	}
	for i, grey := range im.Gray().Pix {
		for k := 3 * i; k < 3*i+3; k++ {
			im.Pix[k] = blend(grey, im.Pix[k], factor)
		}
	}
}

// blendWith returns blend(a, v, factor) for every sample v.
func blendWith(a uint8, factor float32) (table [256]uint8) {
	for v := range table {
		table[v] = blend(a, uint8(v), factor)
	}
	return table
}

// blend is ImagingBlend of Pillow's Blend.c: in float32, truncated rather than rounded.
func blend(a, b uint8, factor float32) uint8 {
	v := float32(a) + float32(factor*float32(int(b)-int(a)))
	switch {
	case v <= 0:
		return 0
	case v >= 255:
		return 255
	}
	return uint8(v)
}

// adjustHue rotates the hues around the color wheel.
func adjustHue(im *vision.Image, turns float32) {
	if im.Channels == 1 {
		return
	}
	shift := uint8(int32(float64(turns) * 255))
	for i := 0; i < len(im.Pix); i += 3 {
		p := im.Pix[i : i+3]
		h, s, v := toHSV(p[0], p[1], p[2])
		p[0], p[1], p[2] = fromHSV(h+shift, s, v)
	}
}

// toHSV is rgb2hsv_row of Pillow's Convert.c, with its mix of float32 and float64.
func toHSV(r, g, b uint8) (h, s, v uint8) {
	most, least := max(r, g, b), min(r, g, b)
	if most == least {
		return 0, 0, most
	}
	span := float32(most - least)
	rc, gc, bc := float32(most-r)/span, float32(most-g)/span, float32(most-b)/span
	var hue float32
	switch most {
	case r:
		hue = bc - gc
	case g:
		hue = float32(2 + float64(rc) - float64(bc))
	default:
		hue = float32(4 + float64(gc) - float64(rc))
	}
	hue = float32(math.Mod(float64(hue)/6+1, 1))
	return uint8(float64(hue) * 255), uint8(float64(span/float32(most)) * 255), most
}

// fromHSV is hsv2rgb of Pillow's Convert.c.
func fromHSV(h, s, v uint8) (r, g, b uint8) {
	if s == 0 {
		return v, v, v
	}
	sextant := math.Floor(float64(h) * 6 / 255)
	f := float32(float64(h)*6/255 - sextant)
	saturation := float32(float64(s) / 255)
	part := func(share float64) uint8 { return uint8(math.Round(float64(v) * (1 - share))) }
	p := part(float64(saturation))
	q := part(float64(saturation * f))
	t := part(float64(float64(saturation) * (1 - float64(f))))
	switch int(sextant) % 6 {
	case 0:
		return v, t, p
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	default:
		return v, p, q
	}
}
