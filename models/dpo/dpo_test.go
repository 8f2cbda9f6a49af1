package dpo_test

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is what testdata/dpo.py wrote.
type recorded struct {
	Models  map[string]map[string]any
	Initial map[string]map[string]map[string]string
	Tokens  [][3][]int64
	Kept    int
	Batches []struct {
		MaxLength      int       `json:"max_length"`
		TruncationMode string    `json:"truncation_mode"`
		Multiple       int       `json:"pad_to_multiple_of"`
		InputIDs       [][]int64 `json:"input_ids"`
		AttentionMask  [][]int64 `json:"attention_mask"`
		CompletionMask [][]int64 `json:"completion_mask"`
	}
	Cases []struct {
		Name, Family, Generator string
		BF16                    bool
		Settings                settings
		Metrics, Grads          map[string]string
		Norms                   map[string]float64
	}
	Runs []struct {
		Name, Family string
		Settings     settings
		LoRA         *struct {
			R       int64
			Alpha   float64 `json:"lora_alpha"`
			Dropout float64 `json:"lora_dropout"`
		}
		Initial, Final map[string]string
		Logs           []map[string]string
	}

	file *golden.File
}

// settings are those of DPOConfig.
type settings struct {
	LossType     any       `json:"loss_type"`
	LossWeights  []float64 `json:"loss_weights"`
	Beta         float64
	Smoothing    float64         `json:"label_smoothing"`
	LDAlpha      *float64        `json:"ld_alpha"`
	UseWeighting bool            `json:"use_weighting"`
	FDivergence  dpo.FDivergence `json:"f_divergence_type"`
	FAlpha       float64         `json:"f_alpha_divergence_coef"`
	MaxLength    json.RawMessage `json:"max_length"`
	Precompute   bool            `json:"precompute_ref_log_probs"`

	modeltest.TRLSettings
}

func (s settings) options() dpo.TaskOptions {
	o := dpo.TaskOptions{MaxLength: 40, LossOptions: dpo.LossOptions{LossWeights: s.LossWeights, Beta: s.Beta,
		LabelSmoothing: s.Smoothing, LDAlpha: s.LDAlpha, UseWeighting: s.UseWeighting, FDivergence: s.FDivergence,
		FAlphaDivergenceCoef: s.FAlpha}}
	if s.MaxLength != nil { // null
		o.MaxLength = -1
	}
	switch t := s.LossType.(type) {
	case string:
		o.LossTypes = []dpo.LossType{dpo.LossType(t)}
	case []any:
		for _, name := range t {
			o.LossTypes = append(o.LossTypes, dpo.LossType(name.(string)))
		}
	}
	return o
}

func load(t *testing.T) (r recorded) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/dpo.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &r))
	r.file = golden.Load(t, "testdata/dpo.safetensors")
	return r
}

// model makes a model from a seed, with the tokenizer of testdata.
func (r recorded) model(t *testing.T, family string, seed uint64) *auto.CausalLanguageModel {
	t.Helper()
	return modeltest.TRLModel(t, r.Models[family], seed, r.Initial[family][strconv.FormatUint(seed, 10)],
		func(dir string) (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
		})
}

// texts are the preferences that are texts, as samples.
func texts(t *testing.T, m *auto.CausalLanguageModel) (samples []dpo.Sample) {
	t.Helper()
	preferences, err := chat.ReadPreferencesFile("testdata/preferences.jsonl")
	require.NoError(t, err)
	for _, p := range preferences[:40] {
		s, err := m.EncodePreference(p)
		require.NoError(t, err)
		samples = append(samples, s)
	}
	return samples
}

func TestTokensAreThoseOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama", 42)
	preferences, err := chat.ReadPreferencesFile("testdata/preferences.jsonl")
	require.NoError(t, err)
	require.Len(t, preferences, len(r.Tokens))
	for i, p := range preferences {
		s, err := m.EncodePreference(p)
		require.NoError(t, err)
		assert.Equal(t, r.Tokens[i], [3][]int64{s.PromptIDs, s.ChosenIDs, s.RejectedIDs}, "preference %d", i+1)
	}
}

func TestBatchesAreThoseOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama", 42)
	samples := texts(t, m)
	for _, want := range r.Batches {
		task, err := m.DPOTask(dpo.TaskOptions{MaxLength: want.MaxLength, KeepEnd: want.TruncationMode == "keep_end",
			Padding: data.Padding{Multiple: want.Multiple}, Precomputed: true})
		require.NoError(t, err)
		b, err := task.Collate(samples[:4])
		require.NoError(t, err)
		assert.Equal(t, 4, b.Pairs())
		assert.Equal(t, slices.Concat(want.InputIDs...), b.InputIDs.Values)
		assert.Equal(t, slices.Concat(want.AttentionMask...), b.AttentionMask.Values)
		for i, one := range slices.Concat(want.CompletionMask...) {
			assert.Equal(t, one == 1, b.Answers[i], i)
		}
	}
	task, err := m.DPOTask(dpo.TaskOptions{MaxLength: 40, Precomputed: true})
	require.NoError(t, err)
	assert.Len(t, task.Keep(samples), r.Kept)
}

func reference(m dpo.Model) dpo.Reference {
	return dpo.Reference{Run: func(f func(dpo.Model)) { f(m) }}
}

func TestLossesAndGradientsHaveTheBitsOfTRL(t *testing.T) {
	r := load(t)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "dpo "+c.Name)
			torch.Scope(func() {
				m := r.model(t, c.Family, 42)
				o := c.Settings.options()
				o.Reference = reference(r.model(t, c.Family, 43))
				task, err := dpo.NewTask(m, o)
				require.NoError(t, err)
				b, err := task.Collate(task.Keep(texts(t, m))[:4])
				require.NoError(t, err)
				nn.SetTraining(m, true)
				precision, computed, share := amp.FP32, torch.Float32, 1e-4
				if c.BF16 {
					precision, computed, share = amp.BF16, torch.BFloat16, 2e-2
				}
				torch.ManualSeed(7)
				var loss engine.Loss
				amp.Autocast(torch.CPU, precision, func() { loss = task.Loss(engine.ForwardPass{}, b) })
				loss.Value.Backward()
				if want, got := r.file.Tensor(c.Name+".loss"), loss.Value.Detach(); o.FDivergence == dpo.ForwardKL {
					golden.RecordedWithin(t, "loss", got, want, 1024) // what differs is an exponent there
				} else {
					golden.RecordedIn(t, "loss", got, want, computed)
				}
				if testenv.SameBits() {
					assert.Equal(t, c.Generator, modeltest.Generator(), "the generator has another state")
				}
				modeltest.SameGrads(t, m, c.Grads, c.Norms, share)
				numbers := map[string]float64{}
				for i, v := range torch.Values[float64](loss.Logged) {
					numbers[task.TrainingLogs()[i]] = v
				}
				modeltest.SameNumbers(t, c.Metrics, numbers, share*100)
			})
		})
	}
}

func TestRunsHaveTheBitsOfDPOTrainer(t *testing.T) {
	r := load(t)
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "dpo run "+run.Name)
			m := r.model(t, run.Family, 42)
			if run.LoRA != nil {
				torch.ManualSeed(42)
				require.NoError(t, m.AddLoRA(lora.Config{R: run.LoRA.R, Alpha: run.LoRA.Alpha, Dropout: run.LoRA.Dropout}))
			}
			if testenv.SameBits() {
				assert.Equal(t, run.Initial, modeltest.Trained(m))
			}
			o := run.Settings.options()
			o.Precomputed = run.Settings.Precompute
			task, err := m.DPOTask(o)
			require.NoError(t, err)
			samples := texts(t, m)
			eval := slices.Concat(samples[:5], samples[6:9])
			samples = task.Keep(samples)
			if o.Precomputed {
				eval, err = task.Precompute(t.Context(), eval, 8)
				require.NoError(t, err)
				samples, err = task.Precompute(t.Context(), samples, 4)
				require.NoError(t, err)
			}
			modeltest.SameTRLRun(t, task, run.Settings.TRLSettings, samples, eval, run.Logs, run.Final)
		})
	}
}
