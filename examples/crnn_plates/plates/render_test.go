package plates

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyStyleAndCameraGiveAPictureOrAnError tests that settings, however absurd, do not cause a
// panic.
func TestAnyStyleAndCameraGiveAPictureOrAnError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any64 := rapid.Float64()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		im, err := Render(RandomLabel(rng), Style{
			Spread: any64.Draw(t, "spread"), Size: any64.Draw(t, "size"), Stroke: any64.Draw(t, "stroke"),
			Even: rapid.Bool().Draw(t, "even"), Worn: any64.Draw(t, "worn"), Screws: rapid.IntRange(-2, 5).Draw(t,
				"screws"), Bar: any64.Draw(t, "bar"),
		}, rng)
		if err != nil {
			t.Fatal(err)
		}
		some := rapid.Float64Range(0, 3)
		c := Camera{some.Draw(t, "angle"), some.Draw(t, "frame"), some.Draw(t, "blur"), some.Draw(t, "light"),
			some.Draw(t, "noise"), some.Draw(t, "flawed")}
		photo, err := Photograph(im, c, rng)
		if err != nil {
			t.Fatalf("camera %+v: %v", c, err)
		}
		if photo.Width != Width || photo.Height != Height {
			t.Fatalf("camera %+v gives %v", c, photo)
		}
	})
}

// TestInkIsDarkOnLightPlatesAndLightOnDarkOnes checks the shades of each kind of plate by
// histogram.
func TestInkIsDarkOnLightPlatesAndLightOnDarkOnes(t *testing.T) {
	for _, l := range letters {
		im, err := Render("۱۲"+l.text+"۳۴۵۶۷", Style{}, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		paper, ink := 0, 0
		s := shades[l.kind]
		for y := 12; y < 76; y++ {
			for _, v := range im.Row(y)[60:380] {
				if d := float64(v) - s.paper; d > -25 && d < 25 {
					paper++
				}
				if d := float64(v) - s.ink; d > -25 && d < 25 {
					ink++
				}
			}
		}
		if paper < 10000 || ink < 2500 {
			t.Errorf("%s: %d pixels of paper (%v) and %d of ink (%v)", l.text, paper, s.paper, ink, s.ink)
		}
	}
}
