// Package shapes draws images for the image examples to train on by default.
package shapes

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// shapes report whether the point (x, y) is inside a shape of radius 1.
var shapes = map[string]func(x, y float64) bool{
	"circle": func(x, y float64) bool { return math.Hypot(x, y) < 1 },
	"cross": func(x, y float64) bool {
		return min(math.Abs(x), math.Abs(y)) < 0.25 && max(math.Abs(x), math.Abs(y)) < 1
	},
	"stripes": func(x, y float64) bool { return max(math.Abs(x), math.Abs(y)) < 1 && math.Mod(y+1, 0.5) < 0.25 },
}

// Draw creates folders train and val under dir, with the given number of images of each shape, in
// one folder per shape.
func Draw(dir string, train, val int) error {
	for class, inside := range shapes {
		for split, n := range map[string]int{"train": train, "val": val} {
			if err := os.MkdirAll(filepath.Join(dir, split, class), 0o777); err != nil {
				return err
			}
			for i := range n {
				path := filepath.Join(dir, split, class, fmt.Sprintf("%03d.png", i))
				if err := write(path, picture(inside, rand.New(rand.NewPCG(uint64(i), uint64(n))))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// picture draws a shape of random size, position and color on a background of another color, with
// noise.
func picture(inside func(x, y float64) bool, r *rand.Rand) image.Image {
	const side = 48
	radius := side * (0.25 + 0.15*r.Float64())
	cx, cy := side*(0.4+0.2*r.Float64()), side*(0.4+0.2*r.Float64())
	var colours [2][3]float64
	for i := range 3 {
		colours[0][i] = 200 * r.Float64()
		colours[1][i] = math.Mod(colours[0][i]+60+80*r.Float64(), 200)
	}
	im := image.NewNRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			c := colours[0]
			if inside((float64(x)-cx)/radius, (float64(y)-cy)/radius) {
				c = colours[1]
			}
			noise := func(v float64) uint8 { return uint8(v + 30*r.Float64()) }
			im.SetNRGBA(x, y, color.NRGBA{noise(c[0]), noise(c[1]), noise(c[2]), 255})
		}
	}
	return im
}

func write(path string, im image.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := png.Encode(f, im); err != nil {
		_ = f.Close() // the encoder's error is reported
		return err
	}
	return f.Close()
}
