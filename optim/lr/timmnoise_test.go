package lr

import (
	"strings"
	"testing"
)

func TestNoiseStaysInItsRange(t *testing.T) {
	n := TimmNoise{Schedule: Constant{}, From: 10, To: 20, Pct: 0.3}
	rate := n.Plan(1, 100)
	shaken := 0
	for update := range 40 {
		r := rate(update)
		if r != 1 {
			shaken++
		}
		if inside := update >= 10 && update < 20; r != 1 != inside || r <= 0.7 || r >= 1.3 {
			t.Errorf("rate of update %d = %v, want noise below 0.3 in updates 10 to 19 and none elsewhere", update, r)
		}
	}
	if shaken != 10 {
		t.Errorf("%d rates have noise, want 10", shaken)
	}
	other := n
	other.Seed = new(uint32(43))
	if other.Plan(1, 100)(11) == rate(11) {
		t.Error("two seeds give one noise")
	}
}

func TestNoiseSettingsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		noise TimmNoise
		want  string
	}{
		{TimmNoise{}, "Schedule is nil"},
		{TimmNoise{Schedule: Linear{}, From: -1}, "From is -1"},
		{TimmNoise{Schedule: Linear{}, From: 9, To: 9}, "To is 9"},
		{TimmNoise{Schedule: Linear{}, Pct: 1e-9}, "Pct is 1e-09"},
		{TimmNoise{Schedule: StepLR{}}, "StepLR.StepSize is 0"},
	} {
		if err := c.noise.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v.Validate() = %v, want text with %q", c.noise, err, c.want)
		}
	}
}
