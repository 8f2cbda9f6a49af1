package grpo_test

import (
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
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
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

// prompt is a sample as the recording has it.
type prompt struct {
	Prompt string
	Bonus  float64
}

// recorded is what testdata/grpo.py wrote.
type recorded struct {
	Prompts, Even []prompt
	Models        map[string]map[string]any
	Initial       map[string]map[string]string
	Tokens        [][]int64
	Completions   [][]int64
	Chats         [][2]json.RawMessage
	Judged        []struct {
		Name     string
		Rewards  [][]*float64
		Weights  []float64
		Settings settings
		Metrics  map[string]string
		Items    int64
	}
	Cases []struct {
		Name, Family   string
		Old, BF16      bool
		Settings       settings
		Metrics, Grads map[string]string
		Norms          map[string]float64
	}
	Runs []struct {
		Name, Family, Rows string
		Two                bool
		Settings           settings
		LoRA               *struct {
			R     int64
			Alpha float64 `json:"lora_alpha"`
		}
		Final                map[string]string
		Generator            string
		Generated, Evaluated [][][]int64
		EvalLoss             float64 `json:"eval_loss"` // the mean over all batches
		Logs                 []map[string]string
	}
	Ranks [][2]struct { // by run, of each of two processes
		Name      string
		Two       bool
		Settings  settings
		Final     map[string]string
		Generated [][][]int64
		Logs      []map[string]string // of the first process only
	}

	file *golden.File
}

// settings are those of GRPOConfig.
type settings struct {
	LossType      grpo.LossType `json:"loss_type"`
	Epsilon       float64
	EpsilonHigh   float64 `json:"epsilon_high"`
	Delta         float64
	Beta          float64
	BiasCorrect   *bool             `json:"use_bias_correction_kl"`
	Level         grpo.Level        `json:"importance_sampling_level"`
	TopEntropy    float64           `json:"top_entropy_quantile"`
	OffPolicy     float64           `json:"off_policy_mask_threshold"`
	SAPOPos       float64           `json:"sapo_temperature_pos"`
	SAPONeg       float64           `json:"sapo_temperature_neg"`
	KPos          float64           `json:"vespo_k_pos"`
	LambdaPos     float64           `json:"vespo_lambda_pos"`
	KNeg          float64           `json:"vespo_k_neg"`
	LambdaNeg     float64           `json:"vespo_lambda_neg"`
	Scale         grpo.ScaleRewards `json:"scale_rewards"`
	Aggregation   grpo.Aggregation  `json:"multi_objective_aggregation"`
	Weights       []float64         `json:"reward_weights"`
	Mask          bool              `json:"mask_truncated_completions"`
	Temperature   float64
	TopP          float64 `json:"top_p"`
	TopK          int     `json:"top_k"`
	MinP          float64 `json:"min_p"`
	Penalty       float64 `json:"repetition_penalty"`
	NoDropout     bool    `json:"disable_dropout"`
	Iterations    int     `json:"num_iterations"`
	Steps         int     `json:"steps_per_generation"`
	Accumulate    int     `json:"gradient_accumulation_steps"`
	MaxSteps      int     `json:"max_steps"`
	Logging       int     `json:"logging_steps"`
	WeightDecay   float64 `json:"weight_decay"`
	BF16          bool
	Checkpointing bool `json:"gradient_checkpointing"`
}

func (s settings) options(rewards ...grpo.Reward) grpo.TaskOptions {
	for i, w := range s.Weights {
		rewards[i].Weight = &w
	}
	return grpo.TaskOptions{
		LossOptions: grpo.LossOptions{LossType: s.LossType, Epsilon: s.Epsilon, EpsilonHigh: s.EpsilonHigh, Delta: s.Delta,
			Beta: s.Beta, NoBiasCorrectionKL: s.BiasCorrect != nil && !*s.BiasCorrect, ImportanceSamplingLevel: s.Level,
			TopEntropyQuantile: s.TopEntropy, OffPolicyMaskThreshold: s.OffPolicy, SAPOTemperaturePos: s.SAPOPos,
			SAPOTemperatureNeg: s.SAPONeg, VESPOKPos: s.KPos, VESPOLambdaPos: s.LambdaPos, VESPOKNeg: s.KNeg,
			VESPOLambdaNeg: s.LambdaNeg},
		Rewards: rewards, NumGenerations: 4, MaxCompletionLength: 6, ScaleRewards: s.Scale,
		MultiObjectiveAggregation: s.Aggregation, MaskTruncatedCompletions: s.Mask, Temperature: s.Temperature, TopP: s.TopP,
		TopK: s.TopK, MinP: s.MinP, RepetitionPenalty: s.Penalty, DisableDropout: s.NoDropout, NumIterations: s.Iterations,
		StepsPerGeneration: s.Steps}
}

// evens and bonus are the reward functions of testdata/grpo.py.
var (
	evens = grpo.Reward{Name: "evens", Func: func(c grpo.Completions) (rewards []float64, err error) {
		for _, ids := range c.IDs {
			n := 0
			for _, id := range ids {
				n += int(1 - id%2)
			}
			rewards = append(rewards, float64(n)/float64(len(ids)))
		}
		return rewards, nil
	}}
	bonus = grpo.Reward{Name: "bonus", Func: func(c grpo.Completions) (rewards []float64, err error) {
		for i, ids := range c.IDs {
			r := c.Samples[i].Data.(float64) + float64(len(c.Texts[i]))/10
			if len(ids)%3 == 0 {
				r = math.NaN()
			}
			rewards = append(rewards, r)
		}
		return rewards, nil
	}}
)

func load(t *testing.T) (r recorded) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/grpo.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &r))
	r.file = golden.Load(t, "testdata/grpo.safetensors")
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

func TestPromptsHaveTheTokensOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama")
	for i, s := range encode(t, m, r.Prompts) {
		assert.Equal(t, r.Tokens[i], s.PromptIDs)
		assert.Equal(t, r.Prompts[i].Prompt, s.Prompt)
	}
	for _, recorded := range r.Chats {
		var messages []chat.Message
		var want []int64
		require.NoError(t, json.Unmarshal(recorded[0], &messages))
		require.NoError(t, json.Unmarshal(recorded[1], &want))
		s, err := m.EncodeChatPrompt(chat.Conversation{Messages: messages})
		require.NoError(t, err)
		assert.Equal(t, want, s.PromptIDs)
		assert.Equal(t, messages, s.Messages)
	}
}

func TestAdvantagesAreThoseOfTRL(t *testing.T) {
	r := load(t)
	m := r.model(t, "llama")
	samples := encode(t, m, r.Prompts[:2])
	for _, c := range r.Judged {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "grpo advantages "+c.Name)
			var rewards []grpo.Reward
			for k := range c.Rewards[0] {
				rewards = append(rewards, grpo.Reward{Name: "f" + strconv.Itoa(k),
					Func: func(grpo.Completions) (values []float64, err error) {
						for _, of := range c.Rewards {
							v := math.NaN()
							if of[k] != nil {
								v = *of[k]
							}
							values = append(values, v)
						}
						return values, nil
					}})
			}
			c.Settings.Weights = c.Weights
			o := c.Settings.options(rewards...)
			o.Generate = func(engine.ForwardPass, [][]int64, int) ([][]int64, error) { return r.Completions, nil }
			task, err := m.GRPOTask(o)
			require.NoError(t, err)
			torch.Scope(func() {
				advantages, items, logged := grpo.Judge(task, samples)
				golden.Recorded(t, "advantages", torch.From(advantages), r.file.Tensor("judged."+c.Name))
				assert.Equal(t, c.Items, items)
				modeltest.SameNumbers(t, c.Metrics, logged, 1e-5)
			})
		})
	}
}

func reference(m dpo.Model) dpo.Reference {
	return dpo.Reference{Run: func(f func(dpo.Model)) { f(m) }}
}

func TestLossesAndGradientsHaveTheBitsOfTRL(t *testing.T) {
	r := load(t)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "grpo "+c.Name)
			torch.Scope(func() {
				m := r.model(t, c.Family)
				c.Settings.Steps = 3
				o := c.Settings.options(evens)
				if o.Beta != 0 {
					o.Reference = reference(m)
				}
				task, err := m.GRPOTask(o)
				require.NoError(t, err)
				in := grpo.Recorded{Completions: r.Completions, Advantages: torch.Values[float32](r.file.Tensor("advantages")),
					Items: 70}
				for i := range r.Completions {
					in.Prompts = append(in.Prompts, r.Tokens[i/4])
				}
				if c.Old {
					in.Old = r.file.Tensor("noise.old")
				}
				if o.Beta != 0 {
					in.Ref = r.file.Tensor("noise.ref")
				}
				nn.SetTraining(m, true)
				precision, computed, share := amp.FP32, torch.Float32, 1e-4
				if c.BF16 {
					precision, computed, share = amp.BF16, torch.BFloat16, 2e-2
				}
				loss := grpo.LossOf(task, engine.ForwardPass{WindowLen: 2}, in, precision)
				golden.RecordedIn(t, "loss", loss.Value.Detach(), r.file.Tensor(c.Name+".loss"), computed)
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

func TestRunsHaveTheBitsOfGRPOTrainer(t *testing.T) {
	r := load(t)
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "grpo run "+run.Name)
			m := r.model(t, run.Family)
			if run.LoRA != nil {
				require.NoError(t, m.AddLoRA(lora.Config{R: run.LoRA.R, Alpha: run.LoRA.Alpha}))
			}
			rewards := []grpo.Reward{evens, bonus}
			if !run.Two {
				rewards = rewards[:1]
			}
			steps, accumulate := max(run.Settings.Steps, run.Settings.Accumulate, 1), max(1, run.Settings.Accumulate)
			run.Settings.Steps = steps
			o := run.Settings.options(rewards...)
			task, err := m.GRPOTask(o)
			require.NoError(t, err)
			if run.LoRA != nil {
				modeltest.DrawTrained(m) // after the reference was taken
			}
			recorded := slices.Concat(run.Generated, run.Evaluated)
			grpo.Watch(task, func(completions [][]int64) [][]int64 {
				require.NotEmpty(t, recorded)
				want := recorded[0]
				recorded = recorded[1:]
				if testenv.SameBits() {
					assert.Equal(t, want, completions)
				}
				return want // with other bits, another token may be drawn now and then
			})
			optimizer, err := optim.ByName("adamw_torch_fused", optim.Arguments{LearningRate: 1e-3,
				WeightDecay: run.Settings.WeightDecay})
			require.NoError(t, err)
			eo := engine.Options{Optimizer: optimizer, GradientCheckpointing: run.Settings.Checkpointing}
			share := 1e-3
			if run.Settings.BF16 {
				eo.Precision, share = amp.BF16, 5e-2
			}
			step, err := engine.New(task, eo)
			require.NoError(t, err)
			batch := 8 * steps / 4
			fit, err := trainer.New(step, trainer.Options{MaxSteps: run.Settings.MaxSteps, BatchSize: batch, EvalBatchSize: 2,
				Accumulate: accumulate, Order: task.Order(batch, 42),
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
			logs := slices.DeleteFunc(result.History, func(l trainer.Logs) bool { _, ok := l["loss"]; return !ok })
			require.Len(t, logs, len(run.Logs)-1)
			if testenv.SameBits() {
				assert.Equal(t, run.Final, modeltest.Trained(m))
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
			assert.Empty(t, recorded)
			if testenv.SameBits() {
				share = 1e-5
			}
			assert.InDelta(t, run.EvalLoss, metrics["loss"], share)
			for _, name := range []string{"reward", "rewards/evens/mean", "frac_reward_zero_std",
				"completions/mean_length", "completions/clipped_ratio"} { // those that do not depend on batches
				w, err := strconv.ParseFloat(run.Logs[len(logs)]["eval_"+name], 64)
				require.NoError(t, err)
				assert.InDelta(t, w, metrics[name], share*(1+max(w, -w)), name)
			}
		})
	}
}
