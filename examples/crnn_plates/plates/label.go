package plates

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// ErrLabel is wrapped by every error about a text that is not a valid label.
var ErrLabel = errors.New("want two digits, a plate letter, three digits and two digits of the region, in Persian " +
	"digits, left to right, as ۱۲ب۳۴۵۶۷")

// Fields are the parts of a label, each as digits 0 to 9.
type Fields struct {
	First  [2]int
	Letter string
	Last   [3]int
	Region [2]int
}

// ParseLabel splits a label into its fields. The error wraps [ErrLabel].
func ParseLabel(label string) (Fields, error) {
	var f Fields
	var digits [7]int
	rest := label
	for i := range digits {
		if i == 2 {
			found := false
			for _, l := range letters {
				if found = strings.HasPrefix(rest, l.text); found {
					f.Letter, rest = l.text, rest[len(l.text):]
					break
				}
			}
			if !found {
				return Fields{}, fmt.Errorf("plates: label %q: no plate letter at byte %d: %w", label,
					len(label)-len(rest), ErrLabel)
			}
		}
		r, n := utf8.DecodeRuneInString(rest)
		if r < '۰' || r > '۹' {
			return Fields{}, fmt.Errorf("plates: label %q: no Persian digit at byte %d: %w", label,
				len(label)-len(rest), ErrLabel)
		}
		digits[i], rest = int(r-'۰'), rest[n:]
	}
	if rest != "" {
		return Fields{}, fmt.Errorf("plates: label %q: %q is left over: %w", label, rest, ErrLabel)
	}
	copy(f.First[:], digits[:2])
	copy(f.Last[:], digits[2:5])
	copy(f.Region[:], digits[5:])
	return f, nil
}

// String returns the label.
func (f Fields) String() string {
	var b strings.Builder
	digit := func(ds ...int) {
		for _, d := range ds {
			b.WriteRune('۰' + rune(d))
		}
	}
	digit(f.First[:]...)
	b.WriteString(f.Letter)
	digit(f.Last[:]...)
	digit(f.Region[:]...)
	return b.String()
}

// letter is a plate letter: its glyph, its kind of plate and how often it occurs.
type letter struct {
	text  string
	glyph string  // file in assets/glyphs
	scale float64 // of the glyph, so that all letters have their real size on the plate
	kind  kind
	count int // among 17,146 labels of IR-LPR
}

// The counts are aggregates over the training labels of IR-LPR (mut-deep/IR-LPR); the labels are
// not copied.
var letters = []letter{
	{"الف", "A", 1.2, government, 45},
	{"ب", "B", 0.9, private, 1286},
	{"پ", "P", 0.95, police, 1},
	{"ت", "T", 1, taxi, 484},
	{"ث", "TH", 0.9, police, 1},
	{"ج", "J", 0.95, private, 1338},
	{"د", "D", 0.9, private, 1586},
	{"ز", "Z", 0.75, defence, 1},
	{"ژ", "ZH", 0.75, private, 21},
	{"س", "SIN", 1, private, 1224},
	{"ش", "SH", 0.8, army, 1},
	{"ص", "SAD", 1, private, 1582},
	{"ط", "TA", 0.95, private, 1209},
	{"ع", "EIN", 0.9, taxi, 344},
	{"ق", "Q", 0.95, private, 1403},
	{"ل", "L", 0.95, private, 1056},
	{"م", "M", 0.95, private, 1332},
	{"ن", "N", 0.9, private, 1028},
	{"و", "V", 0.95, private, 1275},
	{"ه", "H", 0.95, private, 997},
	{"ی", "Y", 0.95, private, 932},
}

// regions are the region codes of real plates with their counts, from the same aggregates.
var regions = []struct{ code, count int }{
	{10, 1437}, {99, 1128}, {16, 964}, {88, 857}, {11, 826}, {77, 776}, {44, 723}, {22, 710}, {66, 709}, {55, 701},
	{34, 600}, {18, 581}, {33, 571}, {68, 495}, {38, 460}, {20, 391}, {24, 361}, {98, 337}, {21, 313}, {29, 309},
	{12, 285}, {63, 282}, {19, 275}, {74, 237}, {36, 218}, {78, 206}, {13, 183}, {53, 175}, {93, 164}, {42, 126},
	{14, 118}, {28, 110}, {91, 104}, {67, 95}, {79, 89}, {57, 85}, {32, 81}, {43, 81}, {41, 61}, {23, 56},
}

// Letters returns the letters that occur on plates, including الف.
func Letters() []string {
	out := make([]string, len(letters))
	for i, l := range letters {
		out[i] = l.text
	}
	return out
}

var letterTotal, regionTotal = func() (l, r int) {
	for _, x := range letters {
		l += x.count
	}
	for _, x := range regions {
		r += x.count
	}
	return l, r
}()

// RandomLabel draws a label: letter and region half of the time by their counts on real plates and
// half of the time uniformly (regions from 10 to 99), the other digits uniformly from 1 to 9,
// because plates have no zero there.
func RandomLabel(rng *rand.Rand) string {
	var f Fields
	for _, d := range []*int{&f.First[0], &f.First[1], &f.Last[0], &f.Last[1], &f.Last[2]} {
		*d = 1 + rng.IntN(9)
	}
	f.Letter = letters[rng.IntN(len(letters))].text
	if rng.IntN(2) == 0 {
		n := rng.IntN(letterTotal)
		for _, l := range letters {
			if n -= l.count; n < 0 {
				f.Letter = l.text
				break
			}
		}
	}
	code := 10 + rng.IntN(90)
	if rng.IntN(2) == 0 {
		n := rng.IntN(regionTotal)
		for _, r := range regions {
			if n -= r.count; n < 0 {
				code = r.code
				break
			}
		}
	}
	f.Region = [2]int{code / 10, code % 10}
	return f.String()
}

// Part is the training or the held-out part of all labels.
type Part uint8

const (
	Train   Part = iota // nine tenths of the labels
	HeldOut             // one tenth
)

// String returns the name of the part.
func (p Part) String() string {
	switch p {
	case Train:
		return "train"
	case HeldOut:
		return "held out"
	}
	return fmt.Sprintf("plates.Part(%d)", uint8(p))
}

// PartOf returns the part that a label belongs to, by a hash of its text alone.
func PartOf(label string) Part {
	h := fnv.New64a()
	h.Write([]byte(label))
	if h.Sum64()%10 == 0 {
		return HeldOut
	}
	return Train
}
