package reward_test

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
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/reward"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// preferences has the preferences and the tokenizer.
const preferences = "../dpo/testdata/"

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is what testdata/reward.py wrote.
type recorded struct {
	Models  map[string]map[string]any
	Initial map[string]map[string]string
	Tokens  [][2][]int64
	Kept    int
	Batches []struct {
		Multiple      int       `json:"pad_to_multiple_of"`
		InputIDs      [][]int64 `json:"input_ids"`
		AttentionMask [][]int64 `json:"attention_mask"`
		Margin        []float32
	}
	Cases []struct {
		Name, Family, Generator string
		Margins                 bool
		Settings                settings
		Metrics, Grads          map[string]string
		Norms                   map[string]float64
	}
	Runs []struct {
		Name, Family string
		Margins      bool
		Settings     settings
		Pad          int64
		LoRA         *struct {
			R       int64
			Alpha   float64 `json:"lora_alpha"`
			Dropout float64 `json:"lora_dropout"`
			Targets string  `json:"target_modules"`
		}
		Initial, Final map[string]string
		Logs           []map[string]string
	}

	file *golden.File
}

// settings are those of RewardConfig.
type settings struct {
	Center         float64 `json:"center_rewards_coefficient"`
	DisableDropout *bool   `json:"disable_dropout"`

	modeltest.TRLSettings
}

func (s settings) options() reward.TaskOptions {
	return reward.TaskOptions{MaxLength: 40, CenterRewardsCoefficient: s.Center, KeepDropout: s.DisableDropout != nil}
}

func load(t *testing.T) (r recorded) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/reward.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &r))
	r.file = golden.Load(t, "testdata/reward.safetensors")
	return r
}

// model makes a model from seed 42, with the tokenizer.
func (r recorded) model(t *testing.T, family string) *auto.SequenceClassifier {
	t.Helper()
	return modeltest.TRLModel(t, r.Models[family], 42, r.Initial[family],
		func(dir string) (*auto.SequenceClassifier, error) {
			return auto.RewardModel(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
		})
}

// texts are the preferences that are texts, as samples.
func texts(t *testing.T, m *auto.SequenceClassifier, margins bool) (samples []reward.Sample) {
	t.Helper()
	list, err := chat.ReadPreferencesFile(preferences + "preferences.jsonl")
	require.NoError(t, err)
	for i, p := range list[:40] {
		if margins {
			p.Margin = float64(i%3) / 4
		}
		s, err := m.EncodePreference(p)
		require.NoError(t, err)
		samples = append(samples, s)
	}
	return samples
}

func rewardTask(t *testing.T, m *auto.SequenceClassifier, o reward.TaskOptions) *reward.Task {
	t.Helper()
	task, err := m.RewardTask(o)
	require.NoError(t, err)
	return task
}

func TestTokensAreThoseOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama")
	list, err := chat.ReadPreferencesFile(preferences + "preferences.jsonl")
	require.NoError(t, err)
	require.Len(t, list, len(r.Tokens))
	for i, p := range list {
		s, err := m.EncodePreference(p)
		require.NoError(t, err)
		assert.Equal(t, r.Tokens[i], [2][]int64{s.ChosenIDs, s.RejectedIDs}, "preference %d", i+1)
	}
}

func TestBatchesAreThoseOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama")
	samples := texts(t, m, true)
	for _, want := range r.Batches {
		task := rewardTask(t, m, reward.TaskOptions{MaxLength: 40, Padding: data.Padding{Multiple: want.Multiple}})
		kept := task.Keep(samples)
		assert.Len(t, kept, r.Kept)
		b, err := task.Collate(kept[:4])
		require.NoError(t, err)
		assert.Equal(t, 4, b.Pairs())
		assert.Equal(t, slices.Concat(want.InputIDs...), b.InputIDs.Values)
		assert.Equal(t, slices.Concat(want.AttentionMask...), b.AttentionMask.Values)
		assert.Equal(t, want.Margin, b.Margins)
	}
}

func TestLossesAndGradientsHaveTheBitsOfTRL(t *testing.T) {
	r := load(t)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "reward "+c.Name)
			torch.Scope(func() {
				m := r.model(t, c.Family)
				task := rewardTask(t, m, c.Settings.options())
				b, err := task.Collate(task.Keep(texts(t, m, c.Margins))[:4])
				require.NoError(t, err)
				nn.SetTraining(m, true)
				precision, computed, share := amp.FP32, torch.Float32, 1e-4
				if c.Settings.BF16 {
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

func TestRunsHaveTheBitsOfRewardTrainer(t *testing.T) {
	r := load(t)
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "reward run "+run.Name)
			m := r.model(t, run.Family)
			if l := run.LoRA; l != nil {
				torch.ManualSeed(42)
				c := lora.Config{R: l.R, Alpha: l.Alpha, Dropout: l.Dropout}
				if l.Targets != "" {
					c.TargetModules = []string{l.Targets}
				}
				require.NoError(t, m.AddLoRA(c))
			}
			if testenv.SameBits() {
				assert.Equal(t, run.Initial, modeltest.Trained(m))
			}
			task := rewardTask(t, m, run.Settings.options())
			if run.Family != "bert" {
				assert.Equal(t, run.Pad, m.Limits().PadTokenID)
			}
			samples := texts(t, m, run.Margins)
			eval := task.Keep(samples[:8])
			modeltest.SameTRLRun(t, task, run.Settings.TRLSettings, task.Keep(samples), eval, run.Logs, run.Final)
		})
	}
}
