package plates

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func drawnLabel(t *rapid.T) string {
	return RandomLabel(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
}

func TestLabelsSurviveParseAndString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		label := drawnLabel(t)
		f, err := ParseLabel(label)
		if err != nil || f.String() != label {
			t.Fatalf("ParseLabel(%q) = %+v, %v", label, f, err)
		}
	})
	f, err := ParseLabel("۱۲الف۲۸۲۱۱")
	if want := (Fields{[2]int{1, 2}, "الف", [3]int{2, 8, 2}, [2]int{1, 1}}); err != nil || f != want {
		t.Errorf("ParseLabel = %+v, %v; want %+v", f, err, want)
	}
}

func TestWhatIsNoPlateIsRefused(t *testing.T) {
	for name, label := range map[string]string{
		"empty":             "",
		"Latin digits":      "12ب34567",
		"no letter":         "۱۲۳۴۵۶۷",
		"letter not in use": "۱۲گ۳۴۵۶۷",
		"only one digit":    "۱ب۳۴۵۶۷",
		"too short":         "۱۲ب۳۴۵۶",
		"too long":          "۱۲ب۳۴۵۶۷۸",
		"half of الف":       "۱۲ا۳۴۵۶۷",
		"broken UTF-8":      "۱۲ب۳۴\xff۶۷",
	} {
		if f, err := ParseLabel(label); !errors.Is(err, ErrLabel) {
			t.Errorf("%s: ParseLabel(%q) = %+v, %v; want ErrLabel", name, label, f, err)
		}
		if _, err := Render(label, Style{}, rand.New(rand.NewPCG(1, 1))); !errors.Is(err, ErrLabel) {
			t.Errorf("%s: Render(%q) = %v; want ErrLabel", name, label, err)
		}
	}
}

func TestRandomLabelsFollowTheCountsHalfOfTheTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 20000
	seen, regionSeen := map[string]int{}, map[int]int{}
	for range n {
		f, err := ParseLabel(RandomLabel(rng))
		if err != nil {
			t.Fatal(err)
		}
		seen[f.Letter]++
		regionSeen[f.Region[0]*10+f.Region[1]]++
	}
	for _, l := range letters {
		want := 0.5*float64(l.count)/float64(letterTotal) + 0.5/float64(len(letters))
		if got := float64(seen[l.text]) / n; math.Abs(got-want) > 0.01 {
			t.Errorf("%s occurs at %.3f, want %.3f", l.text, got, want)
		}
	}
	for code := range 100 {
		want := 0.5 / 90
		if code < 10 {
			want = 0
		}
		for _, r := range regions {
			if r.code == code {
				want += 0.5 * float64(r.count) / float64(regionTotal)
			}
		}
		if got := float64(regionSeen[code]) / n; math.Abs(got-want) > 0.01 {
			t.Errorf("region %d occurs at %.4f, want %.4f", code, got, want)
		}
	}
	if letterTotal != 17146 {
		t.Errorf("the letters count %d labels, the source has 17146", letterTotal)
	}
	if len(Letters()) != 21 || Letters()[0] != "الف" {
		t.Errorf("letters %q", Letters())
	}
}

func TestATenthOfTheLabelsIsHeldOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	held := 0
	for range 10000 {
		if PartOf(RandomLabel(rng)) == HeldOut {
			held++
		}
	}
	if held < 900 || held > 1100 {
		t.Errorf("%d of 10000 labels are held out, want about 1000", held)
	}
	if Train.String() != "train" || HeldOut.String() != "held out" || Part(7).String() != "plates.Part(7)" {
		t.Error("names of parts")
	}
}

func FuzzParseLabel(f *testing.F) {
	for _, s := range []string{"۱۲الف۲۸۲۱۱", "۱۲ب۳۴۵۶۷", "۱۲ب۳۴", "", "ا", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, label string) {
		fields, err := ParseLabel(label)
		if err != nil {
			if !errors.Is(err, ErrLabel) {
				t.Fatalf("error %v is not ErrLabel", err)
			}
			return
		}
		if fields.String() != label {
			t.Fatalf("%q parses to %+v, which writes %q", label, fields, fields)
		}
		if ids, err := Encode(label); err != nil || len(ids) > 10 {
			t.Fatalf("a plate encodes to %v, %v", ids, err)
		}
	})
}
