package vision

import (
	"bytes"
	"image"
	"image/color"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawn returns a small random image.
func drawn(t *rapid.T) *Image {
	im := NewImage(rapid.IntRange(1, 24).Draw(t, "width"), rapid.IntRange(1, 24).Draw(t, "height"),
		rapid.SampledFrom([]int{1, 3}).Draw(t, "channels"))
	for i := range im.Pix {
		im.Pix[i] = rapid.Byte().Draw(t, "sample")
	}
	return im
}

func TestMirrorTwiceIsTheIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawn(t)
		twice := im.Clone()
		twice.Mirror()
		for k := range im.Channels {
			if twice.Pix[k] != im.Row(0)[(im.Width-1)*im.Channels+k] {
				t.Fatalf("the first pixel is not the last one of its row")
			}
		}
		twice.Mirror()
		if !bytes.Equal(twice.Pix, im.Pix) {
			t.Fatal("mirrored twice, the image has changed")
		}
	})
}

func TestPadAndCutAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawn(t)
		side := rapid.IntRange(0, 9)
		l, tp, r, b := side.Draw(t, "left"), side.Draw(t, "top"), side.Draw(t, "right"), side.Draw(t, "bottom")
		wide, err := im.Pad(l, tp, r, b, 77)
		if err != nil {
			t.Fatal(err)
		}
		border := 0
		for _, v := range wide.Pix {
			border += int(v)
		}
		for _, v := range im.Pix {
			border -= int(v)
		}
		if want := 77 * (len(wide.Pix) - len(im.Pix)); border != want {
			t.Fatalf("the border sums to %d, want %d", border, want)
		}
		back, err := wide.Pad(-l, -tp, -r, -b, 0)
		if err != nil || !bytes.Equal(back.Pix, im.Pix) {
			t.Fatalf("padded and cut, the image has changed: %v", err)
		}
	})
	if _, err := NewImage(3, 3, 1).Pad(-2, 0, -1, 0, 0); err == nil || !strings.Contains(err.Error(), "0x3") {
		t.Errorf("cutting everything away: %v", err)
	}
	// Cropping beyond the image on one side and padding on the other leaves only fill.
	out, err := (&Image{[]uint8{1, 2}, 2, 1, 1}).Pad(-5, 0, 6, 0, 9)
	if err != nil || !bytes.Equal(out.Pix, []uint8{9, 9, 9}) {
		t.Errorf("Pad(-5, 0, 6, 0) = %v, %v", out, err)
	}
}

func TestAConstantImageStaysConstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Byte().Draw(t, "value")
		im := NewImage(rapid.IntRange(1, 40).Draw(t, "w"), rapid.IntRange(1, 40).Draw(t, "h"), 1)
		im.Fill(v)
		f := Filter(rapid.IntRange(0, 5).Draw(t, "filter"))
		out, err := im.Resized(rapid.IntRange(1, 60).Draw(t, "ow"), rapid.IntRange(1, 60).Draw(t, "oh"), f)
		if err != nil {
			t.Fatal(err)
		}
		GaussianBlur(out, rapid.Float64Range(0, 5).Draw(t, "sigma"))
		MotionBlur(out, rapid.Float64Range(0, 9).Draw(t, "length"), rapid.Float64Range(-4, 4).Draw(t, "angle"))
		for i, got := range out.Pix {
			if got != v {
				t.Fatalf("%v: sample %d is %d, want %d", f, i, got, v)
			}
		}
	})
}

func TestResizeRefusesWhatItCannotDo(t *testing.T) {
	gray, rgb := NewImage(4, 4, 1), NewImage(4, 4, 3)
	for name, err := range map[string]error{
		"channels differ":  Resize(gray, rgb, Box),
		"empty result":     Resize(NewImage(0, 4, 1), gray, Box),
		"empty source":     Resize(gray, NewImage(4, 0, 1), Box),
		"unknown filter":   Resize(gray, gray.Clone(), Filter(6)),
		"filter by number": func() error { _, err := FilterByNumber(6); return err }(),
		"negative size":    func() error { _, err := gray.Resized(-1, 2, Box); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if Filter(6).String() != "vision.Filter(6)" || Hamming.String() != "hamming" {
		t.Error("names of filters")
	}
}

func TestNewImageRefusesTwoChannels(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "channels") {
			t.Errorf("recovered %v", r)
		}
	}()
	NewImage(1, 1, 2)
}

func TestStdRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawn(t)
		if back := FromStd(im.Std()); back.Channels != im.Channels || !bytes.Equal(back.Pix, im.Pix) {
			t.Fatalf("%v became %v", im, back)
		}
	})
	part := image.NewGray(image.Rect(0, 0, 4, 4)).SubImage(image.Rect(1, 2, 3, 4)).(*image.Gray)
	part.SetGray(2, 3, color.Gray{Y: 8})
	if im := FromStd(part); im.Width != 2 || im.Pix[3] != 8 {
		t.Errorf("a cut-out: %v %v", im, im.Pix)
	}
}

func TestNormalizeMatchesItsFormula(t *testing.T) {
	n, err := NewNormalizer(3, 1/255., []float64{0.485, 0.456, 0.406}, []float64{0.229})
	if err != nil {
		t.Fatal(err)
	}
	im := &Image{[]uint8{0, 128, 255, 10, 20, 30}, 2, 1, 3}
	got := make([]float32, 6)
	if err := n.Normalize(got, im); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{(0 - 0.485) / 0.229, (10/255. - 0.485) / 0.229, (128/255. - 0.456) / 0.229,
		(20/255. - 0.456) / 0.229, (1 - 0.406) / 0.229, (30/255. - 0.406) / 0.229} {
		if math.Abs(float64(got[i])-want) > 1e-6 {
			t.Errorf("value %d is %v, want %v (channels first)", i, got[i], want)
		}
	}
	if err := n.Normalize(got[:5], im); err == nil {
		t.Error("a short buffer is taken")
	}
	if err := n.Normalize(got[:2], im.Gray()); err == nil {
		t.Error("a grey image is taken by a normalizer of three channels")
	}
}

func TestProcessorOptionsAreChecked(t *testing.T) {
	one := []float64{0.5}
	for name, o := range map[string]ProcessorOptions{
		"one side":           {Width: 3},
		"negative side":      {Width: -3, Height: -3},
		"unknown filter":     {Filter: 9},
		"mean without std":   {Mean: one},
		"two means":          {Mean: []float64{1, 2}, Std: one},
		"std of zero":        {Mean: one, Std: []float64{0}},
		"NaN":                {Mean: []float64{math.NaN()}, Std: one},
		"wrap with rescale":  {Wrap8Bit: true, Rescale: 1, Mean: one, Std: one},
		"wrap without mean":  {Wrap8Bit: true},
		"wrap of std half":   {Wrap8Bit: true, Mean: one, Std: one},
		"infinite factor":    {Rescale: math.Inf(1)},
		"wrap with two stds": {Wrap8Bit: true, Gray: true, Mean: one, Std: []float64{1, 2}},
	} {
		if _, err := NewProcessor(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestProcessLeavesTheImageAlone(t *testing.T) {
	im := &Image{[]uint8{1, 2, 3, 4}, 4, 1, 1}
	p, err := NewProcessor(ProcessorOptions{Gray: true, Mirror: true})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, p.Len(im))
	if err := p.Process(got, im); err != nil || got[0] != 4 || im.Pix[0] != 1 {
		t.Errorf("Process = %v, %v; the image is %v", got, err, im.Pix)
	}
	if err := p.Process(got[:1], im); err == nil {
		t.Error("a short buffer is taken")
	}
}

func TestAProcessorRefusesWhatIsNoImage(t *testing.T) {
	p, err := NewProcessor(ProcessorOptions{Width: 2, Height: 2})
	require.NoError(t, err)
	for _, im := range []*Image{
		{Width: 3, Height: 3, Channels: 4, Pix: make([]uint8, 36)},
		{Width: 3, Height: 3, Channels: 3, Pix: make([]uint8, 26)},
	} {
		err := p.Process(make([]float32, p.Len(im)), im)
		assert.ErrorContains(t, err, "want 1 channel or 3, and Width*Height*Channels samples")
	}
}
