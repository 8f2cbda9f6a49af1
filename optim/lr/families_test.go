package lr

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// goldenCase is one schedule of a Python library with the values it produced, in
// testdata/golden/*.json, which testdata/*.py write.
type goldenCase struct {
	Schedule string
	Kwargs   map[string]any
	Warmup   float64
	Peak     hex
	Updates  int
	Rates    []hex
	Momentum []hex  // empty if the schedule does not change the momentum
	Metrics  string // kind of observed values; empty if the schedule depends only on the update
	observed []hex
}

type hex float64

func (h *hex) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	f, err := strconv.ParseFloat(text, 64)
	*h = hex(f)
	return err
}

// lambdas are Go versions of the functions that the scripts give as text.
var lambdas = map[string]func(x float64) float64{
	"0.95":              func(float64) float64 { return 0.95 },
	"0.95 ** x":         func(x float64) float64 { return roundedmath.Pow(0.95, x) },
	"1 / (1 + x)":       func(x float64) float64 { return 1 / (1 + x) },
	"1 / (1 + x / 100)": func(x float64) float64 { return 1 / (1 + x/100) },
}

// withFunctions replaces functions given as text, also in nested schedules.
func withFunctions(kwargs map[string]any) map[string]any {
	for name, v := range kwargs {
		switch name {
		case "lr_lambda":
			f := lambdas[v.(string)]
			kwargs[name] = func(update int) float64 { return f(float64(update)) }
		case "scale_fn":
			kwargs[name] = lambdas[v.(string)]
		case "schedulers":
			for _, part := range v.([]any) {
				withFunctions(part.(map[string]any)["kwargs"].(map[string]any))
			}
		}
	}
	return kwargs
}

// nearly lists the files that are affected by the C library's cos, pow (about one value in 700 is
// not correctly rounded) or tanh, with the permitted difference in units in the last place of the
// case's highest rate. All others are equal bit for bit.
var nearly = map[string]float64{
	"torch_OneCycleLR":     1, // cos
	"torch_SequentialLR":   1, // cos
	"torch_PolynomialLR":   1, // pow
	"timm_PolyLRScheduler": 1, // pow
	"timm_WSDLRScheduler":  1, // pow
	"timm_TanhLRScheduler": 4, // tanh
}

func TestSchedulesEqualPythonToTheLastBit(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("testdata/golden has %d files (%v), want at least 30", len(files), err)
	}
	total, exact := 0, 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			for i, c := range readGolden(t, file) {
				t.Run(strconv.Itoa(i), func(t *testing.T) {
					count := goldencount.Start(t, "schedules", fmt.Sprintf("%s %d", name, i))
					got, momentum := c.run(t)
					total++
					rates, momenta := c.compare(t, "rate", got, c.Rates, nearly[name]), c.compare(t, "momentum",
						momentum, c.Momentum, 0)
					count.Compare(rates && momenta)
					if rates && momenta {
						exact++
					} else {
						count.Explain("the C library behind Python misses the nearest double of a cos, pow or tanh")
					}
				})
			}
		})
	}
	t.Logf("%d cases, %d of them equal in every bit", total, exact)
	if total-exact > 25 {
		t.Errorf("%d of %d cases differ in some bit, want at most 25 of them: those of the C library's functions",
			total-exact, total)
	}
}

func readGolden(t *testing.T, file string) []goldenCase {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Metrics map[string][]hex
		Cases   []goldenCase
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	for i, c := range golden.Cases {
		golden.Cases[i].observed = golden.Metrics[c.Metrics]
		if len(c.Rates) < 100 {
			t.Fatalf("%s: %s has %d rates, want at least 100", file, c.Schedule, len(c.Rates))
		}
	}
	return golden.Cases
}

func (c goldenCase) run(t *testing.T) (rates, momenta []float64) {
	t.Helper()
	if len(c.observed) > 0 {
		a, err := AdaptiveByName(c.Schedule, c.Kwargs)
		if err != nil {
			t.Fatal(err)
		}
		controller, err := a.Start(float64(c.Peak))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.observed {
			rates = append(rates, controller.Observe(float64(m)))
		}
		return rates, nil
	}
	s, err := ByName(c.Schedule, withFunctions(c.Kwargs), c.Warmup)
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(s, float64(c.Peak), c.Updates); err != nil {
		t.Fatal(err)
	}
	rate := s.Plan(float64(c.Peak), c.Updates)
	var momentum Rate
	if m, ok := s.(MomentumSchedule); ok {
		momentum = m.PlanMomentum(c.Updates)
	}
	for update := range c.Rates {
		rates = append(rates, rate(update))
		if momentum != nil {
			momenta = append(momenta, momentum(update))
		}
	}
	return rates, momenta
}

// compare reports the first difference greater than allowed. It returns whether all values are
// equal.
func (c goldenCase) compare(t *testing.T, what string, got []float64, want []hex, allowed float64) (equal bool) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s(%v): %d values of %s, want %d", c.Schedule, c.Kwargs, len(got), what, len(want))
		return false
	}
	greatest := 0.0
	for _, w := range want {
		greatest = max(greatest, float64(w))
	}
	unit := math.Nextafter(greatest, math.Inf(1)) - greatest
	equal = true
	for i, w := range want {
		equal = equal && got[i] == float64(w)
		if !(math.Abs(got[i]-float64(w)) <= allowed*unit) {
			t.Errorf("%s(%v), warmup %v, peak %v: %s of update %d = %x, want %x", c.Schedule, c.Kwargs, c.Warmup,
				float64(c.Peak), what, i, got[i], float64(w))
			return false
		}
	}
	return equal
}
