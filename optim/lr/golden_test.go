package lr

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/gotrainer/gotrainer/internal/goldencount"
)

// TestRatesEqualTransformersToTheLastBit compares with testdata/golden.json, the output of
// testdata/golden.py.
func TestRatesEqualTransformersToTheLastBit(t *testing.T) {
	var golden struct {
		Cases []struct {
			Kind                 string
			Peak, Warmup, Cycles float64
			Updates              int
			Rates                []string
		}
	}
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) < 100 {
		t.Fatalf("golden.json has %d cases, want at least 100", len(golden.Cases))
	}
	for i, c := range golden.Cases {
		t.Run(fmt.Sprint(c.Kind, " ", i), func(t *testing.T) {
			count := goldencount.Start(t, "schedules by warmup and cycles", fmt.Sprint(c.Kind, " ", i))
			schedule := map[string]Schedule{
				"constant":             Constant{},
				"constant_with_warmup": ConstantWithWarmup{Warmup: c.Warmup},
				"linear":               Linear{Warmup: c.Warmup},
				"cosine":               Cosine{Warmup: c.Warmup, Cycles: c.Cycles},
			}[c.Kind]
			rate := schedule.Plan(c.Peak, c.Updates)
			for update, text := range c.Rates {
				want, err := strconv.ParseFloat(text, 64)
				if err != nil {
					t.Fatal(err)
				}
				got := rate(update)
				equal := math.Float64bits(got) == math.Float64bits(want) || got == 0 && want == 0
				count.Compare(equal)
				if !equal {
					t.Errorf("%#v.Plan(%v, %d)(%d) = %x, want %x", schedule, c.Peak, c.Updates, update, got, want)
				}
			}
		})
	}
}
