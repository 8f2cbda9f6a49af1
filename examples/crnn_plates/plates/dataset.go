package plates

import (
	"fmt"
	"math/rand/v2"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/vision"
)

// Sample is a photograph of a plate and its label.
type Sample struct {
	Image *vision.Image // Width x Height, gray
	Label string
}

// Options configures [Dataset]. The zero value is the training part, photographed by DefaultCamera.
type Options struct {
	Part   Part
	Camera *Camera // nil means DefaultCamera
	Mirror bool    // mirror images horizontally, labels through text.ReverseDigits, as Hezar's readers need

	// MaxLength leaves out labels with more code points, as the field of Hezar's OCR data set does:
	// 8 drops the plates with الف. Zero means 10, which keeps all.
	MaxLength int
}

// Dataset returns n rendered plates. Sample i is a pure function of seed, options and i; nothing is
// stored, so that a set of any size takes no memory. Goroutines may call At concurrently.
func Dataset(n int, seed uint64, o Options) data.Dataset[Sample] {
	s := &set{n: n, seed: seed, Options: o, camera: DefaultCamera()}
	if o.MaxLength == 0 {
		s.MaxLength = longest
	}
	if o.Camera != nil {
		s.camera = *o.Camera
	}
	return s
}

// shortest and longest are the lengths of a label in code points: with a one-code-point letter and
// with الف.
const shortest, longest = 8, 10

type set struct {
	Options
	n      int
	seed   uint64
	camera Camera
}

func (s *set) Len() int { return max(s.n, 0) }

func (s *set) At(i int) (Sample, error) {
	if i < 0 || i >= s.n {
		return Sample{}, fmt.Errorf("plates: sample %d of a set of %d", i, s.n)
	}
	if s.Part > HeldOut {
		return Sample{}, fmt.Errorf("plates: a set of %v: want Train or HeldOut", s.Part)
	}
	if s.MaxLength < shortest {
		return Sample{}, fmt.Errorf("plates: MaxLength %d: want at least %d, the code points of most plates",
			s.MaxLength, shortest)
	}
	rng := rand.New(rand.NewPCG(s.seed, uint64(i)<<1|uint64(s.Part)))
	label := RandomLabel(rng)
	for PartOf(label) != s.Part || utf8.RuneCountInString(label) > s.MaxLength {
		label = RandomLabel(rng)
	}
	plate, err := Render(label, RandomStyle(rng), rng)
	if err != nil {
		return Sample{}, err
	}
	im, err := Photograph(plate, s.camera, rng)
	if err != nil {
		return Sample{}, err
	}
	if s.Mirror {
		im.Mirror()
		label = text.ReverseDigits(label)
	}
	return Sample{im, label}, nil
}
