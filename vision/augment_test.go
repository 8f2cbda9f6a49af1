package vision

import (
	"bytes"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// scene is a gray image with edges and slopes.
func scene(width, height int) *Image {
	im := NewImage(width, height, 1)
	for y := range height {
		for x := range width {
			im.Pix[y*width+x] = uint8(100 + 60*math.Sin(float64(x)/4) + 60*float64((x/9+y/6)%2))
		}
	}
	return im
}

func mean(im *Image) float64 {
	sum := 0.0
	for _, v := range im.Pix {
		sum += float64(v)
	}
	return sum / float64(len(im.Pix))
}

func TestWarpOntoItselfIsTheIdentity(t *testing.T) {
	src := scene(37, 21)
	dst := NewImage(37, 21, 1)
	whole := RectQuad(0, 0, 37, 21)
	if err := WarpPerspective(dst, whole, src, whole); err != nil {
		t.Fatal(err)
	}
	if worst, at := furthest(dst.Pix, src.Pix); worst > 1 {
		t.Errorf("sample %d is %d, want %d", at, dst.Pix[at], src.Pix[at])
	}
}

func TestWarpTakesCornersToCorners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Float64Range(-8, 8)
		corner := func(x, y float64) Point { return Point{x + part.Draw(t, "x"), y + part.Draw(t, "y")} }
		a := Quad{corner(0, 0), corner(40, 0), corner(40, 40), corner(0, 40)}
		b := Quad{corner(0, 0), corner(40, 0), corner(40, 40), corner(0, 40)}
		h, ok := homography(a, b)
		if !ok {
			t.Fatal("two nearly square quads have no map")
		}
		for i, p := range a {
			z := h[6]*p.X + h[7]*p.Y + h[8]
			x, y := (h[0]*p.X+h[1]*p.Y+h[2])/z, (h[3]*p.X+h[4]*p.Y+h[5])/z
			if math.Hypot(x-b[i].X, y-b[i].Y) > 1e-6 || z <= 0 {
				t.Fatalf("corner %d lands on (%v, %v) with denominator %v, want %v", i, x, y, z, b[i])
			}
		}
	})
}

func TestWarpKeepsTheGroundOutside(t *testing.T) {
	src, dst := scene(20, 10), NewImage(60, 30, 1)
	dst.Fill(7)
	if err := WarpPerspective(dst, Quad{{20, 10}, {40, 12}, {38, 20}, {21, 19}}, src,
		RectQuad(0, 0, 20, 10)); err != nil {
		t.Fatal(err)
	}
	if dst.Pix[0] != 7 || dst.Pix[29*60+59] != 7 {
		t.Error("the ground has changed outside of the quad")
	}
	if dst.Pix[15*60+30] == 7 {
		t.Error("the middle of the quad shows the ground")
	}
}

func TestWarpRefusesWhatNoCameraSees(t *testing.T) {
	src, dst := scene(20, 10), NewImage(60, 30, 1)
	good := RectQuad(0, 0, 20, 10)
	bow := Quad{{0, 0}, {20, 10}, {20, 0}, {0, 10}}
	line := Quad{{0, 0}, {5, 0}, {10, 0}, {0, 10}}
	nan := Quad{{math.NaN(), 0}, {5, 0}, {10, 9}, {0, 10}}
	inf := Quad{{0, 0}, {math.Inf(1), 0}, {10, 9}, {0, 10}}
	for name, q := range map[string]Quad{"a bow tie": bow, "three corners on a line": line, "not a number": nan,
		"infinite": inf} {
		if WarpPerspective(dst, q, src, good) == nil || WarpPerspective(dst, good, src, q) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if WarpPerspective(NewImage(3, 3, 3), good, src, good) == nil {
		t.Error("grey into colour: no error")
	}
	if WarpPerspective(NewImage(0, 3, 1), good, src, good) == nil {
		t.Error("into nothing: no error")
	}
}

func TestGaussianBlurMatchesItsFormula(t *testing.T) {
	im := NewImage(41, 1, 1)
	im.Pix[20] = 255
	GaussianBlur(im, 2)
	for x, v := range im.Pix {
		want := 255 * math.Exp(-sq(float64(x-20))/8) / (2 * math.Sqrt(2*math.Pi))
		if math.Abs(float64(v)-want) > 0.8 {
			t.Errorf("%d pixels from the point: %d, want %.2f", x-20, v, want)
		}
	}
	rgb := NewImage(9, 9, 3)
	rgb.Pix[(4*9+4)*3+1] = 200
	GaussianBlur(rgb, 1)
	for i, v := range rgb.Pix {
		if i%3 != 1 && v != 0 {
			t.Fatalf("a green point blurs into channel %d", i%3)
		}
	}
}

func TestBlursThatChangeNothing(t *testing.T) {
	src := scene(17, 9)
	for name, blur := range map[string]func(*Image){
		"sigma zero":     func(im *Image) { GaussianBlur(im, 0) },
		"sigma NaN":      func(im *Image) { GaussianBlur(im, math.NaN()) },
		"length one":     func(im *Image) { MotionBlur(im, 1, 0) },
		"length NaN":     func(im *Image) { MotionBlur(im, math.NaN(), 0) },
		"infinite angle": func(im *Image) { MotionBlur(im, 5, math.Inf(1)) },
		"noise of zero":  func(im *Image) { AddNoise(im, 0, nil) },
		"light of one":   func(im *Image) { AdjustLight(im, 1, 0, 1) },
		"gamma of zero":  func(im *Image) { AdjustLight(im, 1, 0, 0) },
		"even shade":     func(im *Image) { Shade(im, 3, 3, 1, 4, 1, 1) },
		"full detail":    func(im *Image) { _ = Degrade(im, 17, 9, Bicubic) },
	} {
		im := src.Clone()
		blur(im)
		if !bytes.Equal(im.Pix, src.Pix) {
			t.Errorf("%s changes the image", name)
		}
	}
	for _, f := range []func(*Image){func(im *Image) { GaussianBlur(im, 3) }, func(im *Image) { MotionBlur(im, 3, 0) },
		func(im *Image) { _ = Degrade(im, 1, 1, Box) }} {
		f(NewImage(0, 5, 1)) // no rows, no panic
	}
	huge := src.Clone()
	GaussianBlur(huge, math.Inf(1))
	MotionBlur(huge, math.Inf(1), 0)
}

func TestMotionBlurSmearsAlongItsAngleOnly(t *testing.T) {
	im := NewImage(21, 21, 1)
	im.Pix[10*21+10] = 250
	MotionBlur(im, 5, math.Pi/2)
	for i, v := range im.Pix {
		x, y := i%21, i/21
		if inside := x == 10 && y >= 8 && y <= 12; inside != (v == 50) {
			t.Errorf("(%d, %d) is %d; want 50 on the five pixels of the line, else 0", x, y, v)
		}
	}
}

func TestNoiseHasTheSpreadItPromises(t *testing.T) {
	im := NewImage(200, 100, 1)
	im.Fill(128)
	AddNoise(im, 10, rand.New(rand.NewPCG(1, 2)))
	sum, squares := 0.0, 0.0
	for _, v := range im.Pix {
		d := float64(v) - 128
		sum += d
		squares += d * d
	}
	n := float64(len(im.Pix))
	if m, s := sum/n, math.Sqrt(squares/n); math.Abs(m) > 0.3 || math.Abs(s-10) > 0.3 {
		t.Errorf("noise of mean %.2f and deviation %.2f, want 0 and 10", m, s)
	}
	again := NewImage(200, 100, 1)
	again.Fill(128)
	AddNoise(again, 10, rand.New(rand.NewPCG(1, 2)))
	if !bytes.Equal(im.Pix, again.Pix) {
		t.Error("the same seed gives other noise")
	}
	white := NewImage(50, 50, 1)
	white.Fill(255)
	AddNoise(white, 1e9, rand.New(rand.NewPCG(1, 2))) // must saturate, not wrap around
	if m := mean(white); m < 100 || m > 255 {
		t.Errorf("absurd noise leaves a mean of %.0f", m)
	}
}

func TestAdjustLightMatchesItsFormula(t *testing.T) {
	ramp := &Image{make([]uint8, 256), 256, 1, 1}
	for i := range ramp.Pix {
		ramp.Pix[i] = uint8(i)
	}
	AdjustLight(ramp, 1.5, -20, 0.7)
	for v, got := range ramp.Pix {
		want := 1.5*(255*math.Pow(float64(v)/255, 0.7)-128) + 128 - 20
		want = max(0, min(want, 255))
		if math.Abs(float64(got)-want) > 0.501 {
			t.Errorf("%d becomes %d, want %.2f", v, got, want)
		}
	}
	AdjustLight(ramp, math.NaN(), 0, 1) // all black, no panic
	if ramp.Pix[200] != 0 {
		t.Error("NaN light is not black")
	}
}

func TestShadeIsDarkOnOneSide(t *testing.T) {
	im := NewImage(100, 4, 1)
	im.Fill(200)
	Shade(im, 50, 2, 0, 10, 1, 0.5)
	row := im.Row(2)
	if row[0] != 200 || row[44] != 200 || row[56] != 100 || row[99] != 100 {
		t.Errorf("shade from 1 to 0.5 across column 50: %v", row)
	}
	for x := 1; x < 100; x++ {
		if row[x] > row[x-1] {
			t.Errorf("column %d is lighter than the one before", x)
		}
	}
}

func TestCompressJPEGIsWhatARealFileDoes(t *testing.T) {
	for _, quality := range []int{1, 10, 49, 50, 90, 100} {
		im := scene(43, 29) // not a multiple of the block size
		var b bytes.Buffer
		if err := jpeg.Encode(&b, im.Std(), &jpeg.Options{Quality: quality}); err != nil {
			t.Fatal(err)
		}
		file, err := Decode(b.Bytes(), "encoded", DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := CompressJPEG(im, quality); err != nil {
			t.Fatal(err)
		}
		off, far := 0, 0
		for i, v := range im.Pix {
			d := int(v) - int(file.Pix[i])
			if d != 0 {
				off++
			}
			if d > 4 || d < -4 {
				far++
			}
		}
		// Integer and floating-point transforms may round a coefficient differently, which changes
		// a block slightly.
		if far > len(im.Pix)/10 {
			t.Errorf("quality %d: %d of %d samples differ, %d by more than 4", quality, off, len(im.Pix), far)
		}
	}
	for _, bad := range []int{0, 101, -3} {
		if CompressJPEG(scene(8, 8), bad) == nil {
			t.Errorf("quality %d: no error", bad)
		}
	}
	if CompressJPEG(NewImage(8, 8, 3), 50) == nil {
		t.Error("a colour image: no error")
	}
}

func TestDegradeKeepsTheMeanAndLosesDetail(t *testing.T) {
	im := scene(64, 32)
	before, src := mean(im), im.Clone()
	if err := Degrade(im, 8, 4, Bilinear); err != nil {
		t.Fatal(err)
	}
	roughness := func(im *Image) (sum int) {
		for i := 1; i < len(im.Pix); i++ {
			d := int(im.Pix[i]) - int(im.Pix[i-1])
			sum += d * d
		}
		return sum
	}
	if math.Abs(mean(im)-before) > 4 || roughness(im)*4 > roughness(src) {
		t.Errorf("mean %.1f, was %.1f; roughness %d, was %d", mean(im), before, roughness(im), roughness(src))
	}
}

func BenchmarkResizeToReader(b *testing.B) {
	src, dst := scene(260, 70), NewImage(128, 32, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := Resize(dst, src, Bicubic); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProcessPlate(b *testing.B) {
	im := scene(300, 73).RGB()
	p, err := NewProcessor(ProcessorOptions{Gray: true, Width: 128, Height: 32, Rescale: 1 / 255., Mean: []float64{0.5},
		Std: []float64{0.5}})
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]float32, p.Len(im))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Process(dst, im); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWarpPlate(b *testing.B) {
	src, dst := scene(400, 88), NewImage(280, 80, 1)
	q := Quad{{10, 5}, {262, 12}, {260, 70}, {12, 64}}
	b.ReportAllocs()
	for b.Loop() {
		if err := WarpPerspective(dst, q, src, RectQuad(0, 0, 400, 88)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGaussianBlur(b *testing.B) {
	im := scene(128, 32)
	b.ReportAllocs()
	for b.Loop() {
		GaussianBlur(im, 1)
	}
}

func BenchmarkCompressJPEG(b *testing.B) {
	im := scene(128, 32)
	b.ReportAllocs()
	for b.Loop() {
		if err := CompressJPEG(im, 40); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodePNG(b *testing.B) {
	raw, err := os.ReadFile("testdata/files/rgb.png")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(raw, "rgb.png", DecodeOptions{Gray: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestStandardizeMakesLightAlike(t *testing.T) {
	bright := scene(40, 20)
	dark := bright.Clone()
	AdjustLight(dark, 0.5, -40, 1)
	a, b := make([]float32, 800), make([]float32, 800)
	for dst, im := range map[*[]float32]*Image{&a: bright, &b: dark} {
		if err := Standardize(*dst, im, 0.01); err != nil {
			t.Fatal(err)
		}
	}
	sum, squares := 0.0, 0.0
	for i, v := range a {
		sum += float64(v)
		squares += float64(v) * float64(v)
		if math.Abs(float64(v-b[i])) > 0.05 { // half a gray level of the dark one
			t.Fatalf("sample %d is %v in the light and %v in the dark", i, v, b[i])
		}
	}
	if math.Abs(sum/800) > 1e-4 || math.Abs(squares/800-1) > 1e-2 {
		t.Errorf("mean %v and mean square %v, want 0 and 1", sum/800, squares/800)
	}
	rgb := &Image{[]uint8{0, 10, 20, 30, 40, 50}, 2, 1, 3}
	c := make([]float32, 6)
	if err := Standardize(c, rgb, 1); err != nil || c[0] >= c[1] || c[1] <= c[2] || c[3] <= c[2] {
		t.Errorf("RGB comes out as %v, %v; want channels first", c, err)
	}
	empty := NewImage(4, 4, 1)
	if err := Standardize(c[:4], empty, 1); err == nil {
		t.Error("a short buffer is taken")
	}
	for _, floor := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if Standardize(make([]float32, 16), empty, floor) == nil {
			t.Errorf("floor %v is taken", floor)
		}
	}
	if err := Standardize(make([]float32, 16), empty, 4); err != nil {
		t.Errorf("an empty image: %v", err)
	}
}
