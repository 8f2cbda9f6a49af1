package optim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// decayCase is a parameter in testdata/nodecay.json.
type decayCase struct {
	name                 string
	decayed, inLayerNorm bool
}

func decayCases(t *testing.T) map[string][]decayCase {
	t.Helper()
	data, err := os.ReadFile("testdata/nodecay.json")
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "transformers")
	models := map[string][]decayCase{}
	for model, list := range raw {
		var rows [][3]any
		if err := json.Unmarshal(list, &rows); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			models[model] = append(models[model], decayCase{r[0].(string), r[1].(bool), r[2].(bool)})
		}
	}
	return models
}

func TestNamesWithoutDecayAreHuggingFaces(t *testing.T) {
	byType := 0
	for model, cases := range decayCases(t) {
		for _, c := range cases {
			byName := optim.NoDecayName(c.name)
			if got := byName || c.inLayerNorm; got == c.decayed {
				t.Errorf("%s: %s: left without decay is %t, want %t", model, c.name, got, !c.decayed)
			}
			if !byName && c.inLayerNorm {
				byType++
			}
		}
	}
	if byType == 0 {
		t.Error("no parameter is exempt by its type alone; the golden file should have some (GPT-2's ln_1)")
	}
}

func TestNoDecayMakesHuggingFacesGroups(t *testing.T) {
	testenv.RequireTorch(t)
	for model, cases := range decayCases(t) {
		t.Run(model, func(t *testing.T) {
			var params []torch.Named
			var decayed, others []string
			for _, c := range cases {
				params = append(params, torch.Named{Name: c.name, Tensor: torch.Zeros(1).RequiresGrad()})
				if c.decayed {
					decayed = append(decayed, c.name)
				} else {
					others = append(others, c.name)
				}
			}
			params = append(params, torch.Named{Name: "pooled", Tensor: torch.Zeros(1)}) // frozen
			groups := optim.NoDecay(params, 0.1, `(^|\.)ln_[2f]\.`, `\.h\.\d+\.ln_\d\.`)
			if len(groups) != 2 {
				t.Fatalf("there are %d groups, want 2", len(groups))
			}
			for i, want := range [][]string{decayed, others} {
				if got := names(groups[i].Params); !slices.Equal(got, want) {
					t.Errorf("group %q has %q, want %q", groups[i].Name, got, want)
				}
			}
			if d := [2]float64{*groups[0].WeightDecay, *groups[1].WeightDecay}; d != [2]float64{0.1, 0} {
				t.Errorf("the decays are %v, want 0.1 and 0", d)
			}
		})
	}
}

func names(params []torch.Named) (list []string) {
	for _, p := range params {
		list = append(list, p.Name)
	}
	return list
}

func TestNoDecayAlwaysReturnsTwoGroups(t *testing.T) {
	groups := optim.NoDecay(nil, 0.5)
	if len(groups) != 2 || len(groups[0].Params)+len(groups[1].Params) != 0 {
		t.Errorf("NoDecay(nil, 0.5) = %v, want two empty groups", groups)
	}
}

func TestNoDecayRefusesAPatternThatIsNone(t *testing.T) {
	err := torch.Try(func() { optim.NoDecay(nil, 0.5, "ln_(") })
	if !errors.Is(err, torch.ErrValue) {
		t.Errorf("NoDecay with pattern ln_( panics with %v, want torch.ErrValue", err)
	}
}

func ExampleNoDecayName() {
	for _, name := range []string{"fc.weight", "fc.bias", "encoder.LayerNorm.weight", "encoder.norm.weight",
		"ln_1.weight", "normal.weight"} {
		fmt.Println(name, optim.NoDecayName(name))
	}
	// Output:
	// fc.weight false
	// fc.bias true
	// encoder.LayerNorm.weight true
	// encoder.norm.weight true
	// ln_1.weight false
	// normal.weight false
}
