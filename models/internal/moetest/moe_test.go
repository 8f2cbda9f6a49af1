package moetest_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// files are the output of testdata/moe.py, with the number of models in each.
var files = map[string]int{"mixtral": 2, "qwen": 4}

// recorded is a model in one of the files.
type recorded struct {
	Name           string
	Config         map[string]any
	Parameters     []string
	Initial, Files map[string]string // by names in memory and in files
	Generator      string
	Cases          []modeltest.CausalCase
	Runs           []run
	Texts          [][]int64 // written after the last run

	file *golden.File // the tensors
}

// run is a run of Trainer.
type run struct {
	Accumulate int
	Losses     []string
	GradNorms  []string `json:"grad_norms"`
	Eval       string
	Final      map[string]string
}

func load(t *testing.T) (models []recorded) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	for name, count := range files {
		text, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(t, err)
		var f struct{ Models []recorded }
		require.NoError(t, json.Unmarshal(text, &f))
		require.Len(t, f.Models, count, "models of %s", name)
		file := golden.Load(t, "testdata/"+name+".safetensors")
		for _, r := range f.Models {
			r.file = file
			models = append(models, r)
		}
	}
	return models
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T, o auto.Options) *auto.CausalLanguageModel {
	t.Helper()
	torch.ManualSeed(42)
	o.FromConfig, o.Warnings = true, io.Discard
	m, err := auto.CausalLM(t.Context(), modeltest.ConfigFolder(t, r.Config), o)
	require.NoError(t, err)
	return m
}

// TestFilesHaveTransformersForm checks that the weights of a seed are transformers', that files hold
// each expert by itself, and that such a file can be read.
func TestFilesHaveTransformersForm(t *testing.T) {
	for _, r := range load(t) {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, auto.Options{})
			modeltest.SameFresh(t, m, r.Generator, r.Parameters, r.Initial)

			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			var config map[string]any
			text, err := os.ReadFile(filepath.Join(dir, "config.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &config))
			if r.Config["head_dim"] == nil { // null, or not there: written as what it means
				delete(config, "head_dim")
				delete(r.Config, "head_dim")
			}
			assert.Equal(t, r.Config, config, "the saved settings are those that were loaded")
			saved := map[string]string{}
			for _, s := range nn.FileState(m) {
				saved[s.Name] = modeltest.Sum(s.Tensor.Contiguous().Bytes())
			}
			if !m.OutputEmbeddings().Weight.Is(m.InputEmbeddings().Weight) {
				require.Len(t, saved, len(r.Files))
			}
			for name, sum := range r.Files {
				require.Contains(t, saved, name)
				if testenv.SameBits() {
					assert.Equal(t, sum, saved[name], name)
				}
			}

			again, err := auto.CausalLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.NoError(t, err)
			assert.Empty(t, again.Report.Missing)
			assert.Empty(t, again.Report.Unexpected)
			modeltest.SameWeights(t, again, r.Initial)

			// A file with the tensors as they are in memory can be read too.
			require.NoError(t, nn.SaveTensors(filepath.Join(dir, "model.safetensors"), nn.StateDict(m)[:len(nn.Params(m))],
				map[string]string{"format": "pt"}))
			again, err = auto.CausalLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.NoError(t, err)
			modeltest.SameWeights(t, again, r.Initial)
		})
	}
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	for _, r := range load(t) {
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				goldencount.Start(t, "models", c.Name)
				o := auto.Options{Attention: c.Attention}
				if c.Half {
					o.DType = torch.BFloat16
				}
				torch.Scope(func() { c.Compare(t, r.fresh(t, o), modeltest.CausalRows(r.file), r.file) })
			})
		}
	}
}

// TestRunsHaveTransformersBits compares runs of Trainer, without and with windows of two batches,
// and an evaluation after each, then texts that the model generates.
func TestRunsHaveTransformersBits(t *testing.T) {
	for _, r := range load(t) {
		var m *auto.CausalLanguageModel
		for _, run := range r.Runs {
			name := map[int]string{1: ", run", 2: ", run with windows"}[run.Accumulate]
			t.Run(r.Name+name, func(t *testing.T) {
				goldencount.Start(t, "models", r.Name+name)
				m = r.fresh(t, auto.Options{})
				rows := modeltest.CausalRows(r.file)
				fit := modeltest.Train(t, m.Task(), rows, run.Accumulate, run.Losses, run.GradNorms)
				modeltest.SameWeights(t, m, run.Final)
				found, err := fit.Evaluate(t.Context(), data.Slice[causallm.Sample](rows[:6]))
				require.NoError(t, err)
				modeltest.SameNumber(t, "loss of the evaluation", found["loss"], run.Eval)
			})
		}
		for i, g := range []auto.Generation{{MaxNewTokens: 20},
			{MaxNewTokens: 20, Sample: true, Temperature: 0.7, TopK: 20, TopP: 0.9}, {MaxNewTokens: 12, NumBeams: 3}} {
			torch.ManualSeed(3)
			ids, err := m.GenerateIDs(t.Context(), []int64{3, 14, 15}, g)
			require.NoError(t, err)
			if testenv.SameBits() {
				assert.Equal(t, r.Texts[i], ids, r.Name)
			}
		}
	}
}

// TestWhatIsKeptOfATextMakesNoDifference checks that a text that is written token by token is the
// one whose tokens are the most probable ones of the whole.
func TestWhatIsKeptOfATextMakesNoDifference(t *testing.T) {
	for _, r := range load(t) {
		for _, a := range []transformer.Attention{transformer.SDPA, transformer.Eager} {
			m := r.fresh(t, auto.Options{Attention: a})
			torch.NoGrad(func() { m.InputEmbeddings().Weight.MulScalar_(20) }) // makes the logits of tokens differ more
			prompt := []int64{3, 14, 15, 9, 2, 6}
			got, err := m.GenerateIDs(t.Context(), prompt, auto.Generation{MaxNewTokens: 16, EOSTokenIDs: []int64{}})
			require.NoError(t, err)
			ids := append(prompt, got...)
			nn.Evaluating(m, func() {
				torch.NoGrad(func() {
					logits := m.Forward(torch.From(ids, 1, int64(len(ids))), torch.Tensor{}, torch.Tensor{})
					best := torch.Values[int64](logits.ArgMax(-1, false))
					assert.Equal(t, got, best[len(prompt)-1:len(ids)-1], "%s, %s", r.Name, a)
				})
			})
		}
	}
}
