package plates

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/vision"
)

var _ data.Dataset[Sample] = (*set)(nil)

func at(t *testing.T, ds data.Dataset[Sample], i int) Sample {
	t.Helper()
	s, err := ds.At(i)
	if err != nil {
		t.Fatal(err)
	}
	if s.Image.Width != Width || s.Image.Height != Height || s.Image.Channels != 1 {
		t.Fatalf("sample %d is %v", i, s.Image)
	}
	return s
}

func TestASampleIsAFunctionOfSeedAndIndex(t *testing.T) {
	const n = 40
	want := make([]Sample, n)
	for i := range want {
		want[i] = at(t, Dataset(n, 7, Options{}), i)
	}
	larger := Dataset(1000, 7, Options{}) // another size, read by goroutines in another order
	var wg sync.WaitGroup
	for i := n - 1; i >= 0; i-- {
		wg.Go(func() {
			s, err := larger.At(i)
			if err != nil || s.Label != want[i].Label || !bytes.Equal(s.Image.Pix, want[i].Image.Pix) {
				t.Errorf("sample %d differs from itself: %v", i, err)
			}
		})
	}
	wg.Wait()
	other := at(t, Dataset(n, 8, Options{}), 0)
	if other.Label == want[0].Label || bytes.Equal(other.Image.Pix, want[0].Image.Pix) {
		t.Error("seeds 7 and 8 give the same first sample")
	}
}

func TestNoHeldOutLabelIsATrainingLabel(t *testing.T) {
	const n = 150
	train, held := Dataset(n, 1, Options{}), Dataset(n, 1, Options{Part: HeldOut})
	seen := map[string]bool{}
	for i := range n {
		s := at(t, train, i)
		if PartOf(s.Label) != Train {
			t.Fatalf("training label %q belongs to the held-out part", s.Label)
		}
		seen[s.Label] = true
	}
	for i := range n {
		if s := at(t, held, i); PartOf(s.Label) != HeldOut || seen[s.Label] {
			t.Fatalf("held-out label %q is a training label", s.Label)
		}
	}
}

func TestMirroredSamplesAreHezars(t *testing.T) {
	plain, mirrored := at(t, Dataset(9, 1, Options{}), 5), at(t, Dataset(9, 1, Options{Mirror: true}), 5)
	mirrored.Image.Mirror()
	if !bytes.Equal(plain.Image.Pix, mirrored.Image.Pix) || mirrored.Label != text.ReverseDigits(plain.Label) {
		t.Errorf("%q became %q, or the picture is not its mirror image", plain.Label, mirrored.Label)
	}
}

func TestMaxLengthLeavesOutTheLongLetter(t *testing.T) {
	all, short := Dataset(150, 1, Options{}), Dataset(150, 1, Options{MaxLength: 8})
	long := 0
	for i := range 150 {
		if strings.Contains(at(t, all, i).Label, "الف") {
			long++
		}
		if s := at(t, short, i); strings.Contains(s.Label, "الف") {
			t.Errorf("sample %d is %q", i, s.Label)
		}
	}
	if long == 0 {
		t.Error("without MaxLength none of 150 labels has الف: the test shows nothing")
	}
}

func TestIndexesAndOptionsAreChecked(t *testing.T) {
	for name, err := range map[string]error{
		"past the end":    second(Dataset(3, 1, Options{}).At(3)),
		"negative":        second(Dataset(3, 1, Options{}).At(-1)),
		"no such part":    second(Dataset(3, 1, Options{Part: 2}).At(0)),
		"negative camera": second(Dataset(3, 1, Options{Camera: &Camera{Blur: -1}}).At(0)),
		"MaxLength 7":     second(Dataset(3, 1, Options{MaxLength: 7}).At(0)),
		"NaN camera":      second(Dataset(3, 1, Options{Camera: &Camera{Light: math.NaN()}}).At(0)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "plates: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := Dataset(-3, 1, Options{}).Len(); n != 0 {
		t.Errorf("a set of -3 samples has %d", n)
	}
}

func second(_ Sample, err error) error { return err }

func TestEveryLetterAndDigitLooksDifferent(t *testing.T) {
	pictures := map[string]string{}
	render := func(label string) {
		im, err := Render(label, Style{}, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if twin, ok := pictures[string(im.Pix)]; ok {
			t.Errorf("%s and %s give the same picture", label, twin)
		}
		pictures[string(im.Pix)] = label
	}
	for _, l := range Letters() {
		render("۱۲" + l + "۳۴۵۶۷")
	}
	for d := '۰'; d <= '۹'; d++ {
		render("۱۱د۱۱۱۱" + string(d))
	}
}

// TestInkStandsWhereTheLabelIs compares two plates that differ in one place only.
func TestInkStandsWhereTheLabelIs(t *testing.T) {
	base := "۱۱د۱۱۱۱۱"
	first, err := Render(base, Style{}, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for label, span := range map[string][2]int{
		"۵۱د۱۱۱۱۱": {50, 95}, "۱۵د۱۱۱۱۱": {88, 132}, "۱۱ه۱۱۱۱۱": {125, 205}, "۱۱د۵۱۱۱۱": {190, 235},
		"۱۱د۱۵۱۱۱": {226, 270}, "۱۱د۱۱۵۱۱": {262, 306}, "۱۱د۱۱۱۵۱": {318, 362}, "۱۱د۱۱۱۱۵": {352, 395},
	} {
		im, err := Render(label, Style{}, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := CanvasWidth, -1
		for i, v := range im.Pix {
			if v != first.Pix[i] {
				lo, hi = min(lo, i%CanvasWidth), max(hi, i%CanvasWidth)
			}
		}
		if lo < span[0] || hi > span[1] || hi < 0 {
			t.Errorf("%s differs from %s in columns %d to %d, want them within %v", label, base, lo, hi, span)
		}
	}
}

func TestAPlainCameraShowsThePlate(t *testing.T) {
	plate, err := Render("۱۲ب۳۴۵۶۷", Style{}, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	photo, err := Photograph(plate, Camera{}, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	cut, err := plate.Pad(-4, -4, -4, -7, 0)
	if err != nil {
		t.Fatal(err)
	}
	want, err := cut.Resized(Width, Height, vision.Bilinear)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, v := range photo.Pix {
		sum += math.Abs(float64(v) - float64(want.Pix[i]))
	}
	if mean := sum / float64(len(photo.Pix)); mean > 12 {
		t.Errorf("a camera without faults is off by %.1f levels on average", mean)
	}
}

func TestPhotoIsTheShippedPlate(t *testing.T) {
	im, label, err := Photo()
	if err != nil || im.Width != 300 || im.Height != 73 || PartOf(label) > HeldOut {
		t.Errorf("Photo = %v, %q, %v", im, label, err)
	}
	if _, err := ParseLabel(label); err != nil {
		t.Error(err)
	}
}

func BenchmarkSample(b *testing.B) {
	ds := Dataset(1<<30, 1, Options{})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := ds.At(i); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
