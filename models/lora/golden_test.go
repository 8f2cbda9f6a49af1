package lora_test

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/lora.py for one model.
type recorded struct {
	Name           string
	Model          map[string]any // config.json
	Config         lora.Config    // adapter_config.json
	Initial, Final map[string]string
	Trained        []string
	Generator      string // after the model was made
	After          string // after the pass
	Checkpointing  bool
	Saved          map[string]string
	Grads          map[string]string
	Norms          map[string]float64
	Losses         []string
	GradNorms      []string `json:"grad_norms"`
	Merged         map[string]string
}

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/lora.json")
	require.NoError(t, err)
	var f struct{ Models []recorded }
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 11)
	return f.Models, golden.Load(t, "testdata/lora.safetensors")
}

// folder returns a folder with the config.json of the model.
func (r recorded) folder(t *testing.T) string {
	t.Helper()
	return modeltest.ConfigFolder(t, r.Model)
}

// base makes the model without an adapter, with the seed 42.
func (r recorded) base(t *testing.T) *auto.Model {
	t.Helper()
	torch.ManualSeed(42)
	o := auto.Options{FromConfig: true, Warnings: io.Discard}
	if strings.HasPrefix(r.Name, "bert") {
		m, err := auto.SequenceClassification(t.Context(), r.folder(t), o)
		require.NoError(t, err)
		return m.Model
	}
	m, err := auto.CausalLM(t.Context(), r.folder(t), o)
	require.NoError(t, err)
	return m.Model
}

// fresh makes the model with its adapter, with the seed 42.
func (r recorded) fresh(t *testing.T) *auto.Model {
	t.Helper()
	m := r.base(t)
	require.NoError(t, m.AddLoRA(r.Config))
	return m
}

func forward(m *auto.Model, file *golden.File) torch.Tensor {
	return m.Forward(file.Tensor("padded"), file.Tensor("mask"), torch.Tensor{})
}

func TestSameSeedGivesTheWeightsOfPeft(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t)
			if testenv.SameBits() {
				assert.Equal(t, r.Generator, modeltest.Generator(), "the generator has another state")
			}
			modeltest.SameWeights(t, m, r.Initial)
			modeltest.SameAdapter(t, m, r.Trained, r.Saved)
		})
	}
}

func TestForwardAndBackwardHaveTheBitsOfPeft(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+" with updates")
			torch.Scope(func() { r.compare(t, file) })
		})
	}
}

func (r recorded) compare(t *testing.T, file *golden.File) {
	m := r.fresh(t)
	m.SetGradientCheckpointing(r.Checkpointing)
	torch.ManualSeed(7)
	logits := forward(m, file)
	logits.Square().Mean(torch.DefaultDType).Backward()
	golden.Recorded(t, "logits", logits.Detach(), file.Tensor(r.Name+".logits"))
	if testenv.SameBits() {
		assert.Equal(t, r.After, modeltest.Generator(), "the generator has another state")
	}
	modeltest.SameGrads(t, m, r.Grads, r.Norms, 1e-4)
	nn.SetTraining(m, false)
	torch.NoGrad(func() { golden.Recorded(t, "logits in evaluation mode", forward(m, file), file.Tensor(r.Name+".eval")) })
}

func TestRunsHaveTheBitsOfTrainerWithPeft(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		if len(r.Losses) == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+" with updates, run")
			m := r.fresh(t)
			task, err := causallm.NewTask(m, causallm.TaskOptions{CountFirstToken: strings.HasPrefix(r.Name, "gpt2")})
			require.NoError(t, err)
			modeltest.Train(t, task, modeltest.CausalRows(file), 2, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			nn.SetTraining(m, false)
			torch.NoGrad(func() {
				near(t, "logits after training", forward(m, file), file.Tensor(r.Name+".trained"))
				require.NoError(t, m.MergeLoRA())
				near(t, "logits after merging", forward(m, file), file.Tensor(r.Name+".merged"))
			})
			modeltest.SameWeights(t, m, r.Merged)
			assert.Nil(t, m.LoRA())
		})
	}
}

// near compares the result of several updates, bit for bit on machines that compute the same
// numbers.
func near(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	if testenv.SameBits() {
		golden.Bits(t, name, got, want)
		return
	}
	assert.True(t, got.AllClose(want, 1e-3, 1e-3, false), name)
}
