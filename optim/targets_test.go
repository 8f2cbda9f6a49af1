package optim_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/optim"
)

func TestTargetsMatchAsInTransformers(t *testing.T) {
	text, err := os.ReadFile("testdata/targets.json")
	require.NoError(t, err, "make golden writes it")
	var recorded struct {
		Modules []optim.Module
		Cases   []struct {
			Targets json.RawMessage
			Linear  []string
			Warned  []string
			Error   bool
		}
	}
	require.NoError(t, json.Unmarshal(text, &recorded))
	require.Greater(t, len(recorded.Cases), 25)
	var names []string
	for _, m := range recorded.Modules {
		names = append(names, m.Name+".weight", m.Name+".bias")
	}
	for _, c := range recorded.Cases {
		var targets optim.Targets
		if json.Unmarshal(c.Targets, &targets.Pattern) != nil {
			require.NoError(t, json.Unmarshal(c.Targets, &targets.Parts))
		}
		t.Run(targets.String(), func(t *testing.T) {
			groups, ignored, err := optim.LowRankGroups(unloaded(names...), recorded.Modules, targets)
			switch {
			case c.Error:
				require.ErrorIs(t, err, optim.ErrOption)
				assert.ErrorContains(t, err, "is no regular expression")
				return
			case len(c.Linear) == 0:
				require.ErrorIs(t, err, optim.ErrParam)
				assert.ErrorContains(t, err, "no linear layer matches "+targets.String())
				return
			}
			require.NoError(t, err)
			var low []string
			for _, p := range groups[1].Params {
				low = append(low, strings.TrimSuffix(p.Name, ".weight"))
			}
			assert.Equal(t, c.Linear, low, "linear layers that match")
			assert.Equal(t, c.Warned, append([]string{}, ignored...), "modules to warn about")
			assert.Len(t, groups[0].Params, len(names)-len(low), "the other parameters")
		})
	}
}

func TestTargetsThatSayNothingAreRefused(t *testing.T) {
	modules := []optim.Module{{Name: "head", Linear: true}}
	for want, targets := range map[string]optim.Targets{
		"there are no targets": {},
		"a target is empty":    {Parts: []string{"head", ""}},
		"want one of them":     {Pattern: "head", Parts: []string{"head"}},
		"faster to decide":     {Pattern: `(?=x*)(x+x+)+y`},
	} {
		modules := modules
		if targets.Pattern != "" && targets.Parts == nil {
			modules = append(modules, optim.Module{Name: strings.Repeat("x", 60), Linear: true})
		}
		_, _, err := optim.LowRankGroups(unloaded("head.weight"), modules, targets)
		assert.ErrorIs(t, err, optim.ErrOption, want)
		assert.ErrorContains(t, err, want)
	}
}
