package sft_test

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is what testdata/sft.py wrote.
type recorded struct {
	Models           map[string]map[string]any
	Initial          map[string]map[string]string
	Whole            []string
	Completions      [][2]string
	WholeTokens      [][2][]int64 `json:"whole_tokens"` // tokens and labels
	CompletionTokens [][2][]int64 `json:"completions_tokens"`
	Cases            []struct {
		Name, Family, Generator string
		Whole, BF16             bool
		Settings                settings
		Kept                    int
		Batch                   struct {
			InputIDs      [][]int64 `json:"input_ids"`
			Labels        [][]int64
			AttentionMask [][]int64 `json:"attention_mask"`
		}
		Metrics, Grads map[string]string
		Norms          map[string]float64
	}
	Runs []struct {
		Name, Family string
		Whole        bool
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

// settings are those of SFTConfig.
type settings struct {
	LossType  sft.LossType `json:"loss_type"`
	MaxLength int          `json:"max_length"`
	Multiple  int          `json:"pad_to_multiple_of"`

	modeltest.TRLSettings
}

func (s settings) options(family string) sft.TaskOptions {
	o := sft.TaskOptions{LossType: s.LossType, MaxLength: 24, Padding: data.Padding{Multiple: s.Multiple},
		CountFirstToken: family == "gpt2"}
	if s.MaxLength > 0 {
		o.MaxLength = s.MaxLength
	}
	return o
}

func load(t *testing.T) (r recorded) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/sft.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &r))
	r.file = golden.Load(t, "testdata/sft.safetensors")
	return r
}

func (r recorded) model(t *testing.T, family string) *auto.CausalLanguageModel {
	t.Helper()
	return modeltest.TRLModel(t, r.Models[family], 42, r.Initial[family],
		func(dir string) (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
		})
}

// samples are the recorded texts: whole ones, or prompts with completions.
func (r recorded) samples(whole bool) (samples []sft.Sample) {
	rows := r.CompletionTokens
	if whole {
		rows = r.WholeTokens
	}
	for _, row := range rows {
		samples = append(samples, sft.Sample{Text: inputs.Text{InputIDs: row[0]}, Labels: row[1]})
	}
	return samples
}

func TestTokensAreThoseOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama")
	for i, c := range r.Completions {
		s, err := m.EncodeCompletion(c[0], c[1])
		require.NoError(t, err)
		assert.Equal(t, r.CompletionTokens[i], [2][]int64{s.InputIDs, s.Labels}, "completion %d", i)
	}
	for i, text := range r.Whole { // TRL adds the end token
		s, err := m.Encode(text + "</s>")
		require.NoError(t, err)
		assert.Equal(t, r.WholeTokens[i][0], s.InputIDs, "text %d", i)
	}
}

func TestLossesAndGradientsHaveTheBitsOfTRL(t *testing.T) {
	r := load(t)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "sft "+c.Name)
			torch.Scope(func() {
				m := r.model(t, c.Family)
				task, err := m.SFTTask(c.Settings.options(c.Family))
				require.NoError(t, err)
				samples := task.Keep(r.samples(c.Whole))
				require.Len(t, samples, c.Kept)
				b, err := task.Collate(samples[:6])
				require.NoError(t, err)
				for i, mask := range slices.Concat(c.Batch.AttentionMask...) {
					if mask == 1 { // TRL pads with the tokenizer's token, not with the model's
						assert.Equal(t, slices.Concat(c.Batch.InputIDs...)[i], b.InputIDs.Values[i], i)
					}
				}
				assert.Equal(t, slices.Concat(c.Batch.Labels...), b.Labels.Values)
				nn.SetTraining(m, true)
				precision, computed, share := amp.FP32, torch.Float32, 1e-4
				if c.BF16 {
					precision, computed, share = amp.BF16, torch.BFloat16, 2e-2
				}
				torch.ManualSeed(7)
				var loss engine.Loss
				amp.Autocast(torch.CPU, precision, func() { loss = task.Loss(engine.ForwardPass{}, b) })
				loss.Value.Backward()
				golden.RecordedIn(t, "loss", loss.Value.Detach(), r.file.Tensor(c.Name+".loss"), computed)
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

func TestRunsHaveTheBitsOfSFTTrainer(t *testing.T) {
	r := load(t)
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "sft run "+run.Name)
			m := r.model(t, run.Family)
			if run.LoRA != nil {
				torch.ManualSeed(42)
				require.NoError(t, m.AddLoRA(lora.Config{R: run.LoRA.R, Alpha: run.LoRA.Alpha, Dropout: run.LoRA.Dropout}))
			}
			if testenv.SameBits() {
				assert.Equal(t, run.Initial, modeltest.Trained(m))
			}
			task, err := m.SFTTask(run.Settings.options(run.Family))
			require.NoError(t, err)
			samples := r.samples(run.Whole)
			eval := task.Keep(samples[:8])
			samples = task.Keep(samples)
			modeltest.SameTRLRun(t, task, run.Settings.TRLSettings, samples, eval, run.Logs, run.Final)
		})
	}
}
