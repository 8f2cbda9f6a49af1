package lr_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// expected is the form of the files with schedules and plateau schedulers that other projects' tests vouch for.
type expected struct {
	Schedules map[string]struct {
		Function  string // of transformers; its entries have one rate
		Scheduler string // of PyTorch; its entries have a list for each parameter group
		Kwargs    map[string]any
		BaseLR    json.RawMessage `json:"base_lr"`
		Exact     []float64       `json:"exact_float64"`
		Peer      []float64       `json:"peer_expected"`
		Tolerance float64
		LR        [][]float64
		Momentum  [][]float64
	}
	Plateau map[string]struct {
		Kwargs      map[string]any
		InitialLR   json.RawMessage `json:"initial_lr"`
		Metrics     []float64
		LRAfterStep [][]float64 `json:"lr_after_step"`
	}
}

func TestExpectedSchedules(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/data/expected/*.json")
	entries := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e expected
		if json.Unmarshal(raw, &e) != nil {
			continue // a file of another form
		}
		for name, s := range e.Schedules {
			entries++
			t.Run(name, func(t *testing.T) {
				if s.Function != "" {
					steps, _ := s.Kwargs["num_training_steps"].(float64)
					delete(s.Kwargs, "num_training_steps")
					rate := plan(t, s.Function, s.Kwargs, groupRates(t, s.BaseLR, 1)[0], int(steps))
					closeTo(t, "rate", rate, s.Peer, s.Tolerance)
					closeTo(t, "rate", rate, s.Exact, 1e-12)
					return
				}
				for g, peak := range groupRates(t, s.BaseLR, len(s.LR)) {
					kwargs := ofGroup(s.Kwargs, g)
					closeTo(t, "rate", plan(t, s.Scheduler, kwargs, peak, len(s.LR[g])), s.LR[g], 1e-12)
					if len(s.Momentum) > 0 {
						schedule, err := lr.ByName(s.Scheduler, kwargs, 0)
						if err != nil {
							t.Fatal(err)
						}
						closeTo(t, "momentum", schedule.(lr.MomentumSchedule).PlanMomentum(len(s.LR[g])), s.Momentum[g], 1e-12)
					}
				}
			})
		}
		for name, p := range e.Plateau {
			entries++
			t.Run(name, func(t *testing.T) {
				for g, peak := range groupRates(t, p.InitialLR, len(p.LRAfterStep)) {
					a, err := lr.AdaptiveByName("ReduceLROnPlateau", ofGroup(p.Kwargs, g))
					if err != nil {
						t.Fatal(err)
					}
					c, err := a.Start(peak)
					if err != nil {
						t.Fatal(err)
					}
					closeTo(t, "rate", func(i int) float64 { return c.Observe(p.Metrics[i]) }, p.LRAfterStep[g], 1e-12)
				}
			})
		}
	}
	if entries == 0 {
		t.Skip("no file of this form in ../shared/data/expected: only the golden files of this package were tested")
	}
	t.Logf("%d entries", entries)
}

func plan(t *testing.T, name string, kwargs map[string]any, peak float64, updates int) lr.Rate {
	t.Helper()
	s, err := lr.ByName(name, kwargs, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s.Plan(peak, updates)
}

// groupRates reads one rate for all groups, or a list with one for each.
func groupRates(t *testing.T, raw json.RawMessage, groups int) []float64 {
	t.Helper()
	var one float64
	if json.Unmarshal(raw, &one) != nil {
		var list []float64
		if err := json.Unmarshal(raw, &list); err != nil || len(list) != groups {
			t.Fatalf("rates %s for %d groups: %v", raw, groups, err)
		}
		return list
	}
	list := make([]float64, groups)
	for i := range list {
		list[i] = one
	}
	return list
}

// ofGroup takes the value of one group from arguments that PyTorch lets be lists.
func ofGroup(kwargs map[string]any, g int) map[string]any {
	mine := map[string]any{}
	for name, v := range kwargs {
		switch name {
		case "max_lr", "base_lr", "min_lr", "base_momentum", "max_momentum":
			if list, ok := v.([]any); ok {
				v = list[g]
			}
		}
		mine[name] = v
	}
	return mine
}

// closeTo compares in order: a controller must be asked once for each value.
func closeTo(t *testing.T, what string, got lr.Rate, want []float64, tolerance float64) {
	t.Helper()
	for i, w := range want {
		if g := got(i); !(math.Abs(g-w) <= tolerance*max(1, math.Abs(w))) {
			t.Fatalf("%s of update %d = %v, want %v", what, i, g, w)
		}
	}
}
