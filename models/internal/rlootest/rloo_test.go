package rlootest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// prompt is a sample as the recording has it.
type prompt struct {
	Prompt string
	Bonus  float64
}

// recorded is what testdata/rloo.py wrote.
type recorded struct {
	Prompts, Even []prompt
	Models        map[string]map[string]any
	Initial       map[string]map[string]string
	Runs          []run
	Ranks         [][2]run // of each of two processes
}

// run is a run of RLOOTrainer.
type run struct {
	Name, Family, Rows string
	Rewards            []string
	Settings           settings
	LoRA               *struct {
		R     int64
		Alpha float64 `json:"lora_alpha"`
	}
	Final                map[string]string
	Generator            string
	Generated, Evaluated [][][]int64
	Advantages           [][]string
	EvalLoss             float64 `json:"eval_loss"` // the mean over all batches
	Logs                 []map[string]string
}

// settings are those of RLOOConfig.
type settings struct {
	Beta        *float64
	Epsilon     float64
	EpsilonHigh float64     `json:"epsilon_high"`
	Normalize   bool        `json:"normalize_advantages"`
	Clip        *[2]float64 `json:"reward_clip_range"`
	Generations int         `json:"num_generations"`
	Evaluations int         `json:"num_generations_eval"`
	Weights     []float64   `json:"reward_weights"`
	Mask        bool        `json:"mask_truncated_completions"`
	Temperature float64
	TopK        int  `json:"top_k"`
	NoDropout   bool `json:"disable_dropout"`
	Iterations  int  `json:"num_iterations"`
	Steps       int  `json:"steps_per_generation"`
	Accumulate  int  `json:"gradient_accumulation_steps"`
	MaxSteps    int  `json:"max_steps"`
	Logging     int  `json:"logging_steps"`
	BF16        bool
	WeightDecay float64 `json:"weight_decay"`
}

// functions are the reward functions of testdata/rloo.py.
var functions = map[string]func(c grpo.Completions) ([]float64, error){
	"evens": func(c grpo.Completions) (rewards []float64, err error) {
		for _, ids := range c.IDs {
			n := 0
			for _, id := range ids {
				n += int(1 - id%2)
			}
			rewards = append(rewards, float64(n)/float64(len(ids)))
		}
		return rewards, nil
	},
	"bonus": func(c grpo.Completions) (rewards []float64, err error) {
		for i, ids := range c.IDs {
			r := c.Samples[i].Data.(float64) + float64(len(c.Texts[i]))/10
			if len(ids)%3 == 0 {
				r = math.NaN()
			}
			rewards = append(rewards, r)
		}
		return rewards, nil
	},
}

func load(t *testing.T) (r recorded) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/rloo.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &r))
	return r
}

// model makes the model of a family from its seed, with the tokenizer of package dpo's tests.
func (r recorded) model(t *testing.T, family string) *auto.CausalLanguageModel {
	t.Helper()
	return modeltest.TRLModel(t, r.Models[family], 42, r.Initial[family],
		func(dir string) (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
		})
}

func encode(t *testing.T, m *auto.CausalLanguageModel, prompts []prompt) (samples []grpo.Sample) {
	t.Helper()
	for _, p := range prompts {
		s, err := m.EncodePrompt(p.Prompt)
		require.NoError(t, err)
		s.Data = p.Bonus
		samples = append(samples, s)
	}
	return samples
}

// steps is the number of micro-batches that the completions of a generation are split into.
func (r run) steps() int { return max(r.Settings.Steps, r.Settings.Accumulate, 1) }

// batch is the number of prompts of a generation on a process.
func (r run) batch() int { return 8 * r.steps() / cmp.Or(r.Settings.Generations, 2) }

// task makes the task of a run. Its completions are written to out.
func (r run) task(t *testing.T, m *auto.CausalLanguageModel, out io.Writer) *grpo.Task {
	t.Helper()
	s := r.Settings
	o := grpo.TaskOptions{LossOptions: grpo.LossOptions{Epsilon: s.Epsilon, EpsilonHigh: s.EpsilonHigh},
		RLOO:           &grpo.RLOO{NormalizeAdvantages: s.Normalize, RewardClipRange: s.Clip},
		NumGenerations: s.Generations, NumGenerationsEval: s.Evaluations, StepsPerGeneration: r.steps(),
		NumIterations: s.Iterations, MaxCompletionLength: 6, Temperature: s.Temperature, TopK: s.TopK,
		MaskTruncatedCompletions: s.Mask, DisableDropout: s.NoDropout, LogCompletions: out}
	if s.Beta != nil {
		o.Beta, o.RLOO.NoKL = *s.Beta, *s.Beta == 0
	}
	for i, name := range r.Rewards {
		reward := grpo.Reward{Name: name, Func: functions[name]}
		if s.Weights != nil {
			reward.Weight = &s.Weights[i]
		}
		o.Rewards = append(o.Rewards, reward)
	}
	if !testenv.SameBits() {
		o.Generate = r.replayed(t, m)
	}
	task, err := m.GRPOTask(o)
	require.NoError(t, err)
	return task
}

// replayed generates completions as package auto does, and returns the recorded ones: with other
// bits, another token may be drawn now and then.
func (r run) replayed(t *testing.T, m *auto.CausalLanguageModel) func(engine.ForwardPass, [][]int64, int) ([][]int64,
	error) {
	t.Helper()
	completions := slices.Concat(r.Generated, r.Evaluated)
	return func(_ engine.ForwardPass, prompts [][]int64, n int) ([][]int64, error) {
		_, err := m.GenerateBatchIDs(t.Context(), prompts, auto.Generation{MaxNewTokens: 6, Sample: true,
			Temperature: r.Settings.Temperature, TopK: cmp.Or(r.Settings.TopK, -1), NumReturnSequences: n})
		if err != nil || len(completions) == 0 {
			return nil, cmp.Or(err, io.EOF)
		}
		want := completions[0]
		completions = completions[1:]
		return want, nil
	}
}

// sameCompletions compares what a task wrote of its completions with those of the recording, and
// their advantages.
func (r run) sameCompletions(t *testing.T, written *bytes.Buffer) {
	t.Helper()
	lines := json.NewDecoder(written)
	for k, completions := range r.Generated {
		for i, want := range completions {
			var line struct {
				IDs       []int64 `json:"completion_ids"`
				Advantage float32
			}
			require.NoError(t, lines.Decode(&line))
			require.Equal(t, want, line.IDs, "completion %d of generation %d", i, k)
			advantage, err := strconv.ParseFloat(r.Advantages[k][i], 64)
			require.NoError(t, err)
			if testenv.SameBits() {
				assert.Equal(t, float32(advantage), line.Advantage, "completion %d of generation %d", i, k)
			} else {
				assert.InDelta(t, advantage, line.Advantage, 1e-2*(1+math.Abs(advantage)))
			}
		}
	}
	assert.False(t, lines.More(), "it generated more often")
}

// sameWeights compares the weights after a run.
func (r run) sameWeights(t *testing.T, m *auto.CausalLanguageModel) {
	t.Helper()
	trained := modeltest.Trained(m)
	for name, sum := range r.Final {
		goldencount.Of(t).Compare(trained[name] == sum)
	}
	if testenv.SameBits() {
		assert.Equal(t, r.Final, trained)
	}
}

func TestRunsHaveTheBitsOfRLOOTrainer(t *testing.T) {
	r := load(t)
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "rloo run "+run.Name).Explain(testenv.Deviation())
			m := r.model(t, run.Family)
			if run.LoRA != nil {
				require.NoError(t, m.AddLoRA(lora.Config{R: run.LoRA.R, Alpha: run.LoRA.Alpha}))
			}
			var written bytes.Buffer
			task := run.task(t, m, &written)
			if run.LoRA != nil {
				modeltest.DrawTrained(m) // after the reference was taken
			}
			optimizer, err := optim.ByName("adamw_torch_fused", optim.Arguments{LearningRate: 1e-3,
				WeightDecay: run.Settings.WeightDecay})
			require.NoError(t, err)
			eo, share := engine.Options{Optimizer: optimizer}, 1e-3
			if run.Settings.BF16 {
				eo.Precision, share = amp.BF16, 5e-2
			}
			step, err := engine.New(task, eo)
			require.NoError(t, err)
			fit, err := trainer.New(step, trainer.Options{MaxSteps: run.Settings.MaxSteps, BatchSize: run.batch(),
				EvalBatchSize: 2, Accumulate: max(1, run.Settings.Accumulate), Order: task.Order(run.batch(), 42),
				Log:  trainer.Every(max(1, run.Settings.Logging), trainer.Update),
				Save: trainer.Never, Semantics: semantics.HuggingFace, Progress: io.Discard})
			require.NoError(t, err)
			prompts := r.Prompts
			if run.Rows == "even" {
				prompts = r.Even
			}
			samples := encode(t, m, prompts)
			result, err := fit.Fit(t.Context(), data.Slice[grpo.Sample](samples), nil)
			require.NoError(t, err)
			run.sameCompletions(t, &written)
			logs := slices.DeleteFunc(result.History, func(l trainer.Logs) bool { _, ok := l["loss"]; return !ok })
			require.Len(t, logs, len(run.Logs)-1)
			run.sameWeights(t, m)
			if testenv.SameBits() {
				assert.Equal(t, run.Generator, modeltest.Generator(), "the generator has another state")
			}
			for i, l := range logs {
				modeltest.SameNumbers(t, run.Logs[i], l, share)
			}
			var eval []grpo.Sample
			for _, i := range data.Permutation(42, 6) { // TRL shuffles them
				eval = append(eval, samples[i])
			}
			metrics, err := fit.Evaluate(t.Context(), data.Slice[grpo.Sample](eval))
			require.NoError(t, err)
			if testenv.SameBits() {
				share = 1e-5
			}
			assert.InDelta(t, run.EvalLoss, metrics["loss"], share)
			same := []string{"frac_reward_zero_std", "completions/mean_length", "completions/clipped_ratio"}
			if run.Rewards[0] == "evens" { // all completions have a reward, so its mean does not depend on batches
				same = append(same, "reward", "rewards/evens/mean")
			}
			for _, name := range same {
				w, err := strconv.ParseFloat(run.Logs[len(logs)]["eval_"+name], 64)
				require.NoError(t, err)
				assert.InDelta(t, w, metrics[name], share*(1+max(w, -w)), name)
			}
		})
	}
}
