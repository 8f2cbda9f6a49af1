package specaugment_test

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/whisper.py for one model.
type recorded struct {
	Name   string
	Config map[string]any
	Cases  []modeltest.CausalCase
	Run    struct {
		Losses    []string
		GradNorms []string `json:"grad_norms"`
		Final     map[string]string
		EvalLoss  string `json:"eval_loss"`
	}
}

func load(t *testing.T) ([]recorded, []seq2seq.SpeechSample, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	var f struct{ Models []recorded }
	text, err := os.ReadFile("testdata/whisper.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 3)
	file := golden.Load(t, "testdata/whisper.safetensors")
	features, samples := file.Tensor("features"), []seq2seq.SpeechSample(nil)
	for i := range features.Size(0) {
		samples = append(samples, seq2seq.SpeechSample{
			Speech: inputs.Speech{Features: torch.Values[float32](features.Select(0, i))},
			Labels: torch.Values[int64](file.Tensor("target." + strconv.FormatInt(i, 10)))})
	}
	return f.Models, samples, file
}

func (r recorded) fresh(t *testing.T) *auto.SpeechToTextModel {
	t.Helper()
	torch.ManualSeed(42)
	m, err := auto.SpeechToText(t.Context(), modeltest.ConfigFolder(t, r.Config), auto.Options{FromConfig: true,
		Warnings: io.Discard})
	require.NoError(t, err)
	return m
}

func TestPassesOfWhisperHaveTransformersBits(t *testing.T) {
	models, samples, file := load(t)
	for _, r := range models {
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				goldencount.Start(t, "models", "SpecAugment, "+c.Name)
				torch.Scope(func() {
					m := r.fresh(t)
					m.MaskGenerator().Seed(7)
					task := m.Task()
					b, err := task.Collate(samples[:4])
					require.NoError(t, err)
					c.Pass(t, m, file, func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
						func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value })
				})
			})
		}
	}
}

func TestRunsOfWhisperHaveTransformersBits(t *testing.T) {
	models, samples, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "SpecAugment, "+r.Name+", run")
			m := r.fresh(t)
			fit := modeltest.Train(t, m.Task(), samples, 1, r.Run.Losses, r.Run.GradNorms)
			modeltest.SameWeights(t, m, r.Run.Final)
			evaluated, err := fit.Evaluate(t.Context(), data.Slice[seq2seq.SpeechSample](samples[:4]))
			require.NoError(t, err)
			modeltest.SameNumber(t, "eval_loss", evaluated["loss"], r.Run.EvalLoss)
		})
	}
}

// TestMasksOfWhisperAreThoseOfTraining tests that only training draws masks, that they leave the
// batch as it is, and that they are what differs.
func TestMasksOfWhisperAreThoseOfTraining(t *testing.T) {
	models, samples, _ := load(t)
	m := models[0].fresh(t)
	for _, s := range nn.Modules(m) {
		if d, ok := s.Module.(*nn.Dropout); ok {
			d.P = 0
		}
	}
	b, err := m.Task().Collate(samples[:4])
	require.NoError(t, err)
	before := append([]float32(nil), b.Features...)
	logits := func() torch.Tensor { return m.Task().Predict(engine.ForwardPass{}, b).Logits[0].Detach() }
	torch.NoGrad(func() {
		nn.SetTraining(m, false)
		state := m.MaskGenerator().State()
		whole := logits()
		assert.Equal(t, state, m.MaskGenerator().State(), "evaluation draws no masks")
		nn.SetTraining(m, true)
		masked := logits()
		assert.NotEqual(t, state, m.MaskGenerator().State())
		assert.False(t, masked.Equal(whole))
		assert.False(t, masked.Equal(logits()), "each pass draws masks of its own")
	})
	assert.Equal(t, before, b.Features)
	assert.Contains(t, m.Task().Generators(), "spec_augment")
}
