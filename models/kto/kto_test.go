package kto_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/kto"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is what testdata/kto.py wrote.
type recorded struct {
	Models  map[string]map[string]any
	Initial map[string]map[string]map[string]string
	Tokens  [][3]json.RawMessage
	Pairs   struct {
		Rows   []chat.Preference
		Tokens [][3]json.RawMessage
	}
	Kept    int
	Batches []struct {
		MaxLength      int       `json:"max_length"`
		Multiple       int       `json:"pad_to_multiple_of"`
		InputIDs       [][]int64 `json:"input_ids"`
		AttentionMask  [][]int64 `json:"attention_mask"`
		CompletionMask [][]int64 `json:"completion_mask"`
		KLInputIDs     [][]int64 `json:"KL_input_ids"`
		KLMask         [][]int64 `json:"KL_completion_mask"`
		Label          []bool
	}
	Cases []struct {
		Name, Family   string
		Rows           []int
		BF16           bool
		Settings       settings
		Generator      string
		Metrics, Grads map[string]string
		Norms          map[string]float64
	}
	Runs, Ranks []struct {
		Name, Family string
		Settings     settings
		LoRA         *struct {
			R     int64
			Alpha float64 `json:"lora_alpha"`
		}
		Generator string
		Final     map[string]string
		Logs      []map[string]string
	}

	file *golden.File
}

// settings are those of KTOConfig.
type settings struct {
	LossType      kto.LossType `json:"loss_type"`
	Beta          float64
	Desirable     *float64 `json:"desirable_weight"`
	Undesirable   *float64 `json:"undesirable_weight"`
	Dropout       *bool    `json:"disable_dropout"`
	MaxSteps      int      `json:"max_steps"`
	Accumulate    int      `json:"gradient_accumulation_steps"`
	Logging       int      `json:"logging_steps"`
	BF16          bool
	Checkpointing bool `json:"gradient_checkpointing"`
}

func (s settings) options() kto.TaskOptions {
	return kto.TaskOptions{LossType: s.LossType, Beta: s.Beta, DesirableWeight: s.Desirable,
		UndesirableWeight: s.Undesirable, MaxLength: 40, KeepDropout: s.Dropout != nil && !*s.Dropout}
}

func load(t *testing.T) (r recorded) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/kto.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &r))
	r.file = golden.Load(t, "testdata/kto.safetensors")
	return r
}

// model makes a model from a seed, with the tokenizer of package dpo's tests.
func (r recorded) model(t *testing.T, family string, seed uint64) *auto.CausalLanguageModel {
	t.Helper()
	return modeltest.TRLModel(t, r.Models[family], seed, r.Initial[family][strconv.FormatUint(seed, 10)],
		func(dir string) (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
		})
}

// reference is the model of the other seed.
func (r recorded) reference(t *testing.T, family string) dpo.Reference {
	t.Helper()
	m := r.model(t, family, 43)
	return dpo.Reference{Run: func(f func(dpo.Model)) { f(m) }}
}

func rated(t *testing.T) []chat.UnpairedPreference {
	t.Helper()
	list, err := chat.ReadUnpairedPreferencesFile("testdata/unpaired.jsonl")
	require.NoError(t, err)
	return list
}

// texts are the rated completions that are texts, as samples.
func texts(t *testing.T, m *auto.CausalLanguageModel) (samples []kto.Sample) {
	t.Helper()
	for _, u := range rated(t)[:40] {
		s, err := m.EncodeUnpairedPreference(u)
		require.NoError(t, err)
		samples = append(samples, s)
	}
	return samples
}

func sameTokens(t *testing.T, want [3]json.RawMessage, s kto.Sample) {
	t.Helper()
	var prompt, completion []int64
	var label bool
	for i, into := range []any{&prompt, &completion, &label} {
		require.NoError(t, json.Unmarshal(want[i], into))
	}
	assert.Equal(t, kto.Sample{PromptIDs: prompt, CompletionIDs: completion, Label: label}, s)
}

func TestTokensAreThoseOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama", 42)
	list := rated(t)
	require.Len(t, list, len(r.Tokens))
	for i, u := range list {
		s, err := m.EncodeUnpairedPreference(u)
		require.NoError(t, err)
		sameTokens(t, r.Tokens[i], s)
	}
	n := len(r.Pairs.Rows)
	for i, p := range r.Pairs.Rows { // TRL has the chosen answers first
		chosen, rejected := p.Unpaired()
		for k, u := range []chat.UnpairedPreference{chosen, rejected} {
			s, err := m.EncodeUnpairedPreference(u)
			require.NoError(t, err)
			sameTokens(t, r.Pairs.Tokens[k*n+i], s)
		}
	}
}

func TestBatchesAreThoseOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama", 42)
	for _, want := range r.Batches {
		task, err := m.KTOTask(kto.TaskOptions{MaxLength: want.MaxLength, Padding: data.Padding{Multiple: want.Multiple}})
		require.NoError(t, err)
		b, err := task.Collate(texts(t, m)[:4])
		require.NoError(t, err)
		assert.Equal(t, want.Label, b.Labels)
		assert.Equal(t, slices.Concat(want.InputIDs...), b.Completions.InputIDs.Values)
		if mask := slices.Concat(want.AttentionMask...); slices.Contains(mask, 0) {
			assert.Equal(t, mask, b.Completions.AttentionMask.Values)
		} else {
			assert.Nil(t, b.Completions.AttentionMask.Values)
		}
		sameMask(t, want.CompletionMask, b.Completions.Answers)
		assert.Equal(t, slices.Concat(want.KLInputIDs...), b.Mismatched.InputIDs.Values)
		sameMask(t, want.KLMask, b.Mismatched.Answers)
	}
	task, err := m.KTOTask(kto.TaskOptions{MaxLength: 40})
	require.NoError(t, err)
	assert.Len(t, task.Keep(texts(t, m)), r.Kept)
}

func sameMask(t *testing.T, want [][]int64, got []bool) {
	t.Helper()
	var is []bool
	for _, one := range slices.Concat(want...) {
		is = append(is, one == 1)
	}
	assert.Equal(t, is, got)
}

func TestForwardAndBackward(t *testing.T) {
	r := load(t)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "kto "+c.Name)
			torch.Scope(func() {
				m := r.model(t, c.Family, 42)
				o := c.Settings.options()
				o.Reference = r.reference(t, c.Family)
				task, err := m.KTOTask(o)
				require.NoError(t, err)
				kept := task.Keep(texts(t, m))
				var samples []kto.Sample
				for _, i := range c.Rows {
					samples = append(samples, kept[i])
				}
				b, err := task.Collate(samples)
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

func TestRunsHaveTheBitsOfKTOTrainer(t *testing.T) {
	r := load(t)
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "kto run "+run.Name)
			m := r.model(t, run.Family, 42)
			o := run.Settings.options()
			if run.LoRA != nil {
				require.NoError(t, m.AddLoRA(lora.Config{R: run.LoRA.R, Alpha: run.LoRA.Alpha}))
			} else {
				o.Reference = r.reference(t, run.Family)
			}
			task, err := m.KTOTask(o)
			require.NoError(t, err)
			if run.LoRA != nil {
				modeltest.DrawTrained(m)
			}
			samples := task.Keep(texts(t, m))
			eo := engine.Options{Optimizer: optimizer(t), GradientCheckpointing: run.Settings.Checkpointing}
			share := 1e-3
			if run.Settings.BF16 {
				eo.Precision, share = amp.BF16, 5e-2
			}
			step, err := engine.New(task, eo)
			require.NoError(t, err)
			fit, err := trainer.New(step, run.Settings.trainer())
			require.NoError(t, err)
			result, err := fit.Fit(t.Context(), data.Slice[kto.Sample](samples), nil)
			require.NoError(t, err)
			logs := rows(result.History)
			require.Len(t, logs, len(run.Logs)-1)
			for i, l := range logs {
				modeltest.SameNumbers(t, run.Logs[i], l, share)
			}
			if testenv.SameBits() {
				assert.Equal(t, run.Generator, modeltest.Generator(), "the generator has another state")
				assert.Equal(t, run.Final, modeltest.Trained(m))
				share = 1e-5
			}
			metrics, err := fit.Evaluate(t.Context(), data.Slice[kto.Sample](samples[:4]))
			require.NoError(t, err)
			for name, want := range run.Logs[len(logs)] { // the mean over all samples has another order of sums
				w, err := strconv.ParseFloat(want, 64)
				require.NoError(t, err)
				assert.InDelta(t, w, metrics[strings.TrimPrefix(name, "eval_")], share*(1+max(w, -w)), name)
			}
		})
	}
}

// TestRunsOnTwoProcessesHaveTheBitsOfKTOTrainer: the divergence is that of both, and so is the log.
func TestRunsOnTwoProcessesHaveTheBitsOfKTOTrainer(t *testing.T) {
	r := load(t)
	for _, run := range r.Ranks {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "kto on two processes "+run.Name)
			var models [2]*auto.CausalLanguageModel
			var tasks [2]*kto.Task
			for rank := range models {
				models[rank] = r.model(t, run.Family, 42)
				o := run.Settings.options()
				o.Reference = r.reference(t, run.Family)
				var err error
				tasks[rank], err = models[rank].KTOTask(o)
				require.NoError(t, err)
			}
			samples := tasks[0].Keep(texts(t, models[0]))
			optimizer := optimizer(t)
			var logs []trainer.Logs
			for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
				step, err := engine.New(tasks[g.Rank()], engine.Options{Optimizer: optimizer})
				if err != nil {
					return err
				}
				o := run.Settings.trainer()
				o.Group = g
				fit, err := trainer.New(step, o)
				if err != nil {
					return err
				}
				result, err := fit.Fit(ctx, data.Slice[kto.Sample](samples), nil)
				if g.Main() {
					logs = rows(result.History)
				}
				return err
			}) {
				require.NoError(t, err, "rank %d", rank)
			}
			require.Len(t, logs, len(run.Logs))
			for i, l := range logs {
				modeltest.SameNumbers(t, run.Logs[i], l, 1e-3)
			}
			for _, m := range models {
				if testenv.SameBits() {
					assert.Equal(t, run.Final, modeltest.Trained(m))
				}
			}
		})
	}
}

func optimizer(t *testing.T) optim.Builder {
	t.Helper()
	o, err := optim.ByName("adamw_torch_fused", optim.Arguments{LearningRate: 1e-3})
	require.NoError(t, err)
	return o
}

// trainer are the options of a run, in the order of the data set.
func (s settings) trainer() trainer.Options {
	return trainer.Options{MaxSteps: s.MaxSteps, BatchSize: 4, EvalBatchSize: 4, Accumulate: max(1, s.Accumulate),
		Order: data.Sequential{}, Log: trainer.Every(max(1, s.Logging), trainer.Update), Save: trainer.Never,
		Semantics: semantics.HuggingFace, Progress: io.Discard}
}

// rows are the rows of training.
func rows(history []trainer.Logs) []trainer.Logs {
	return slices.DeleteFunc(history, func(l trainer.Logs) bool { _, ok := l["loss"]; return !ok })
}
