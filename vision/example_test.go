package vision_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/gotrainer/gotrainer/vision"
)

// An image is prepared for a batch: decoded, converted to gray, resized to the reader's size and
// normalized.
func ExampleProcessor() {
	p, err := vision.NewProcessor(vision.ProcessorOptions{
		Gray: true, Width: 8, Height: 2, Rescale: 1 / 255., Mean: []float64{0.5}, Std: []float64{0.5},
	})
	if err != nil {
		log.Fatal(err)
	}
	im, err := vision.Open("testdata/files/rgb.png", vision.DecodeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	batch := make([]float32, 2*p.Len(im)) // the caller owns the memory; the second row belongs to the next image
	if err := p.Process(batch[:p.Len(im)], im); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %.2f\n", im, batch[:4])
	// Output: 29x19 RGB: [-0.05 0.04 0.10 0.00]
}

// The same seed gives the same photograph, here of a white card in front of a dark wall.
func ExampleWarpPerspective() {
	card := vision.NewImage(60, 30, 1)
	card.Fill(230)
	photo := vision.NewImage(16, 4, 1)
	photo.Fill(40)
	seen := vision.Quad{{X: 2, Y: 0}, {X: 14, Y: 1}, {X: 14, Y: 4}, {X: 2, Y: 3}}
	if err := vision.WarpPerspective(photo, seen, card, vision.RectQuad(0, 0, 60, 30)); err != nil {
		log.Fatal(err)
	}
	vision.AddNoise(photo, 2, rand.New(rand.NewPCG(1, 0)))
	for y := range photo.Height {
		for _, v := range photo.Row(y) {
			fmt.Print(map[bool]string{true: "#", false: "."}[v > 128])
		}
		fmt.Println()
	}
	// Output:
	// ..######........
	// ..############..
	// ..############..
	// ........######..
}

// An error names the file, the problem and the expected formats.
func ExampleDecode_error() {
	_, err := vision.Decode([]byte("GIF89a..."), "plates/17.gif", vision.DecodeOptions{})
	fmt.Println(err)
	// Output: vision: decode plates/17.gif: unknown image format: want PNG, JPEG, BMP, WebP, TIFF, PPM or PGM: it begins with "GIF89a..."
}
