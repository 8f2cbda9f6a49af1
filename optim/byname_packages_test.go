package optim_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

type packagesByNameFile struct {
	Names []string
	Cases []struct {
		Name      string
		Arguments map[string]float64
		OptimArgs string `json:"optim_args"`
		Groups    []map[string]any
	}
}

func readPackagesByName(t *testing.T) (f packagesByNameFile) {
	t.Helper()
	text, err := os.ReadFile("testdata/byname_packages.json")
	require.NoError(t, err, "make golden writes it")
	require.NoError(t, json.Unmarshal(text, &f))
	return f
}

// All settings of all groups are those that transformers' Trainer makes.
func TestByNameMakesTheGroupsOfTransformers(t *testing.T) {
	testenv.RequireTorch(t)
	// Choices of kernels in the original. setup is true after its first update.
	kernels := []string{"foreach", "triton", "setup"}
	for _, c := range readPackagesByName(t).Cases {
		t.Run(c.Name+" "+c.OptimArgs, func(t *testing.T) {
			a := optim.Arguments{LearningRate: c.Arguments["learning_rate"], WeightDecay: c.Arguments["weight_decay"],
				WarmupSteps: int(c.Arguments["warmup_steps"]), OptimArgs: c.OptimArgs}
			for name, to := range map[string]**float64{"adam_beta1": &a.AdamBeta1, "adam_beta2": &a.AdamBeta2,
				"adam_epsilon": &a.AdamEpsilon} {
				if v, ok := c.Arguments[name]; ok {
					*to = &v
				}
			}
			b, err := optim.ByName(c.Name, a)
			require.NoError(t, err)
			decayed := optim.Group{Params: []torch.Named{{Name: "low.weight", Tensor: torch.Ones(5, 5).RequiresGrad()}}}
			rest := optim.Group{Params: []torch.Named{{Name: "low.bias", Tensor: torch.Ones(4).RequiresGrad()}},
				WeightDecay: new(0.0)}
			groups := []optim.Group{decayed, rest}
			if _, low := c.Groups[1%len(c.Groups)]["rank"]; low {
				decayed.LowRank, rest.WeightDecay = true, nil
				groups = []optim.Group{rest, decayed}
			}
			o, err := b.Build(groups[:len(c.Groups)])
			require.NoError(t, err)
			if u, ok := o.(optim.BackwardUpdater); ok {
				defer u.RemoveHooks()
			}
			_, text, err := optim.ToPyTorch(o)
			require.NoError(t, err)
			var got struct {
				Groups []map[string]any `json:"param_groups"`
			}
			require.NoError(t, json.Unmarshal(text, &got))
			for i, want := range c.Groups {
				for key, value := range want {
					if !slices.Contains(kernels, key) {
						assert.Equal(t, value, got.Groups[i][key], "%s of group %d", key, i)
					}
				}
			}
		})
	}
}

func TestByNameKnowsEveryNameOfTransformers(t *testing.T) {
	f := readPackagesByName(t)
	var refused []string
	for _, name := range f.Names {
		if b, err := optim.ByName(name, optim.Arguments{}); err != nil {
			assert.ErrorContains(t, err, "is not available: ")
			refused = append(refused, name)
		} else {
			assert.NotNil(t, b, name)
		}
	}
	assert.Equal(t, []string{"adamw_anyprecision", "adamw_torch_4bit", "adamw_torch_8bit", "adamw_torch_npu_fused",
		"adamw_torch_xla"}, refused)
}

func TestLayerWiseNamesWrapTheOthers(t *testing.T) {
	for _, name := range []string{"galore_adamw", "galore_adamw_8bit", "galore_adafactor", "apollo_adamw"} {
		a := optim.Arguments{LearningRate: 0.01, OptimArgs: "rank=2"}
		whole, err := optim.ByName(name, a)
		require.NoError(t, err)
		layered, err := optim.ByName(name+"_layerwise", a)
		require.NoError(t, err)
		assert.Equal(t, optim.LayerWise{Optimizer: whole}, layered, name)
	}
}
