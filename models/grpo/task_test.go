package grpo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// tiny is a small Llama without a tokenizer.
func tiny(t *testing.T) *auto.CausalLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(5)
	m, err := auto.NewCausalLM(llama.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 2, NumHeads: 2, NumKeyValueHeads: 2,
		IntermediateSize: 24, MaxPositions: 16, EOSTokenIDs: []int64{1}}, nil)
	require.NoError(t, err)
	return m
}

func samples(n int) (list []grpo.Sample) {
	for i := range n {
		s := grpo.Sample{PromptIDs: []int64{0, int64(2 + i%7)}, Data: float64(i)}
		if i%3 == 0 {
			s.PromptIDs = append(s.PromptIDs, 9)
		}
		list = append(list, s)
	}
	return list
}

// options are those of a task that learns to write even tokens.
func options() grpo.TaskOptions {
	return grpo.TaskOptions{Rewards: []grpo.Reward{evens}, NumGenerations: 4, MaxCompletionLength: 5}
}

func grpoTask(t *testing.T, m *auto.CausalLanguageModel, o grpo.TaskOptions) *grpo.Task {
	t.Helper()
	task, err := m.GRPOTask(o)
	require.NoError(t, err)
	return task
}

var errBroken = errors.New("broken")

type breaks struct{ after int }

func (b breaks) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == b.after {
		return errBroken
	}
	return nil
}

// TestARunContinuesBitForBit, also where completions have been generated that are not learned yet.
func TestARunContinuesBitForBit(t *testing.T) {
	for name, c := range map[string]struct {
		accumulate int
		adapted    bool
		options    func(o *grpo.TaskOptions)
	}{
		"each batch once": {1, false, func(*grpo.TaskOptions) {}},
		"over several updates": {1, false, func(o *grpo.TaskOptions) {
			o.StepsPerGeneration, o.NumIterations, o.Beta = 2, 2, 0.1
		}},
		"with an adapter, in windows of three": {3, true, func(o *grpo.TaskOptions) {
			o.StepsPerGeneration, o.NumIterations, o.Beta, o.LossType = 4, 2, 0.1, grpo.GRPO
		}},
		"RLOO over several updates": {1, false, func(o *grpo.TaskOptions) {
			o.StepsPerGeneration, o.NumIterations, o.RLOO = 2, 2, &grpo.RLOO{NormalizeAdvantages: true}
		}},
		"RLOO with an adapter, in windows of three": {3, true, func(o *grpo.TaskOptions) {
			o.StepsPerGeneration, o.RLOO = 4, &grpo.RLOO{RewardClipRange: &[2]float64{0.2, 0.8}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(dir string, callbacks ...any) (logs []trainer.Logs, weights string, err error) {
				m := tiny(t)
				if c.adapted {
					require.NoError(t, m.AddLoRA(lora.Config{R: 2, Dropout: 0.1}))
				}
				o := options()
				c.options(&o)
				task := grpoTask(t, m, o)
				step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
				require.NoError(t, err)
				fit, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 3, Accumulate: c.accumulate,
					Order: task.Order(3, 1), Log: trainer.Every(2, trainer.Update), Save: trainer.Every(1, trainer.Update),
					Eval: trainer.Every(2, trainer.Update), ResumeFrom: trainer.Latest, Callbacks: callbacks,
					Progress: io.Discard})
				require.NoError(t, err)
				r, err := fit.Fit(t.Context(), data.Slice[grpo.Sample](samples(7)), data.Slice[grpo.Sample](samples(2)))
				if err != nil {
					return nil, "", err
				}
				return withoutTimes(r.History), fmt.Sprint(modeltest.Trained(m)), nil
			}
			want, weights, err := run(t.TempDir())
			require.NoError(t, err)
			dir := t.TempDir()
			_, _, err = run(dir, breaks{3})
			require.ErrorIs(t, err, errBroken)
			got, again, err := run(dir)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			assert.Equal(t, weights, again)
			assert.Contains(t, got[0], "rewards/evens/mean")
		})
	}
}

// withoutTimes returns the rows of a log without how long things took.
func withoutTimes(history []trainer.Logs) (rows []trainer.Logs) {
	for _, row := range history {
		delete(row, "eval_runtime")
		delete(row, "eval_samples_per_second")
		delete(row, "eval_steps_per_second")
		if _, ends := row["train_runtime"]; !ends {
			rows = append(rows, row)
		}
	}
	return rows
}

func TestAStateOfAnotherTaskIsRefused(t *testing.T) {
	m := tiny(t)
	o := options()
	o.NumIterations = 2
	task := grpoTask(t, m, o)
	b, err := task.Collate(samples(2))
	require.NoError(t, err)
	torch.Scope(func() { task.Loss(engine.ForwardPass{WindowLen: 1}, b) })
	state, err := task.State()
	require.NoError(t, err)
	_, err = task.LoadState(state)
	require.NoError(t, err)
	for want, change := range map[string]func(o *grpo.TaskOptions){
		"NumGenerations 2":                   func(o *grpo.TaskOptions) { o.NumGenerations = 2 },
		"NumIterations 1":                    func(o *grpo.TaskOptions) { o.NumIterations = 1 },
		"StepsPerGeneration 3":               func(o *grpo.TaskOptions) { o.StepsPerGeneration = 3 },
		"a completion of":                    func(o *grpo.TaskOptions) { o.Beta = 1 },
		"and the reward functions; want the": func(o *grpo.TaskOptions) { o.Rewards = append(o.Rewards, bonus) },
		"after 1 micro-batches it has 8":     func(o *grpo.TaskOptions) { o.RLOO = &grpo.RLOO{} }, // logs kl
	} {
		o := o
		change(&o)
		_, err := grpoTask(t, m, o).LoadState(state)
		require.ErrorContains(t, err, want)
	}
	o.NumIterations, o.StepsPerGeneration = 1, 2
	task = grpoTask(t, m, o)
	torch.Scope(func() { task.Loss(engine.ForwardPass{WindowLen: 2}, b) }) // no log probabilities at generation
	state, err = task.State()
	require.NoError(t, err)
	o.RLOO = &grpo.RLOO{NoKL: true}
	_, err = grpoTask(t, m, o).LoadState(state)
	require.ErrorContains(t, err, "a completion of")
	_, err = task.LoadState([]byte("nonsense"))
	require.ErrorContains(t, err, "grpo: the state of the task: ")
}

// lossOf is the loss of a batch, and its gradients.
func lossOf(t *testing.T, task *grpo.Task, list []grpo.Sample) (loss float64, grads []torch.Tensor) {
	t.Helper()
	b, err := task.Collate(list)
	require.NoError(t, err)
	torch.ManualSeed(1)
	torch.Scope(func() {
		l := task.Loss(engine.ForwardPass{WindowLen: 1}, b).Value
		loss = l.Item()
		l.Backward()
	})
	for _, p := range nn.Params(task.Model()) {
		if g := p.Tensor.Grad(); g.Defined() {
			grads = append(grads, g)
			p.Tensor.SetGrad(torch.Tensor{})
		}
	}
	return loss, grads
}

// gpt is a small GPT-2, whose positions are learned.
func gpt(t *testing.T) *auto.CausalLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(6)
	m, err := auto.NewCausalLM(gpt2.Config{VocabSize: 20, MaxPositions: 16, HiddenSize: 8, NumLayers: 1, NumHeads: 2,
		EOSTokenIDs: []int64{1}}, nil)
	require.NoError(t, err)
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			p.Tensor.MulScalar_(5)
		}
	})
	return m
}

// TestTokensOfPromptsNeedNotBeScored: on a GPU they are not.
func TestTokensOfPromptsNeedNotBeScored(t *testing.T) {
	for name, m := range map[string]*auto.CausalLanguageModel{"llama": tiny(t), "gpt2": gpt(t)} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { logprob.Compact = false })
			for _, r := range []*grpo.RLOO{nil, {}} {
				o := options()
				o.DisableDropout, o.Beta, o.RLOO = true, 0.3, r
				task := grpoTask(t, m, o)
				logprob.Compact = false
				want, grads := lossOf(t, task, samples(4))
				logprob.Compact = true
				got, compact := lossOf(t, task, samples(4))
				assert.InDelta(t, want, got, 1e-6)
				require.NotEmpty(t, grads)
				for i, g := range compact {
					assert.True(t, g.AllClose(grads[i], 1e-3, 1e-6, false))
				}
			}
		})
	}
}

// TestNothingIsLearnedWhereAllWasCutOff, and nothing is divided by 0.
func TestNothingIsLearnedWhereAllWasCutOff(t *testing.T) {
	m := tiny(t)
	o := options()
	o.MaskTruncatedCompletions = true
	o.Generate = func(_ engine.ForwardPass, prompts [][]int64, n int) (completions [][]int64, err error) {
		for i := range len(prompts) * n {
			completions = append(completions, []int64{3, 4, 5, 6, 7}[:1+i%5])
		}
		return completions, nil
	}
	t.Cleanup(func() { logprob.Compact = false })
	for _, compact := range []bool{false, true} {
		for _, loss := range []grpo.LossType{grpo.DAPO, grpo.GRPO, grpo.BNPO} {
			o.LossType = loss
			logprob.Compact = compact
			got := nothing(t, grpoTask(t, m, o))
			assert.Zero(t, got)
		}
		o.LossType = ""
		for _, longest := range []int{1, 5} {
			o := o
			o.RLOO, o.MaxCompletionLength = &grpo.RLOO{}, longest
			if longest == 1 {
				o.Generate = func(_ engine.ForwardPass, prompts [][]int64, n int) ([][]int64, error) {
					return slices.Repeat([][]int64{{4}, {3}}, len(prompts)*n/2), nil
				}
			}
			got := nothing(t, grpoTask(t, m, o))
			assert.InDelta(t, 0, got, 1e-6, "the mean of the advantages")
		}
	}
}

// nothing returns the loss of a task whose gradients are 0.
func nothing(t *testing.T, task *grpo.Task) float64 {
	t.Helper()
	loss, grads := lossOf(t, task, samples(2))
	require.NotEmpty(t, grads)
	for _, g := range grads {
		assert.Zero(t, g.Abs().Sum(torch.DefaultDType).Item())
	}
	return loss
}

// TestPaddingChangesNothing: a completion has the probabilities that it was generated with, however
// long the prompts beside it are, also in a model whose positions are learned.
func TestPaddingChangesNothing(t *testing.T) {
	for name, m := range map[string]*auto.CausalLanguageModel{"llama": tiny(t), "gpt2": gpt(t)} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.LossType, o.DisableDropout, o.ImportanceSamplingLevel = grpo.GRPO, true, grpo.SequenceLevel
			o.Generate = func(_ engine.ForwardPass, prompts [][]int64, n int) (completions [][]int64, err error) {
				for i := range len(prompts) * n {
					k := i % n % 3
					completions = append(completions, []int64{int64(3 + k), 4, 5}[:1+k])
				}
				return completions, nil
			}
			task := grpoTask(t, m, o)
			logps := func(list ...grpo.Sample) []float32 { return grpo.LogProbs(task, list) }
			long, short := grpo.Sample{PromptIDs: []int64{2, 3, 4, 5, 6, 7}}, grpo.Sample{PromptIDs: []int64{8, 9}}
			together := logps(long, short)
			assert.InDeltaSlice(t, append(logps(long), logps(short)...), together, 1e-5)
		})
	}
}

// TestTheReferenceIsTheModelAsItWas: the divergence begins with 0, and grows when the model is changed.
func TestTheReferenceIsTheModelAsItWas(t *testing.T) {
	for _, c := range []struct {
		adapted bool
		rloo    *grpo.RLOO
	}{{false, nil}, {true, nil}, {false, &grpo.RLOO{}}, {true, &grpo.RLOO{}}} {
		m := tiny(t)
		if c.adapted {
			require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
		}
		o := options()
		if o.RLOO = c.rloo; o.RLOO == nil {
			o.Beta = 0.1
		}
		task := grpoTask(t, m, o)
		kl := func() float64 {
			b, err := task.Collate(samples(3))
			require.NoError(t, err)
			torch.NoGrad(func() { torch.Scope(func() { task.Evaluate(engine.ForwardPass{}, b) }) })
			return task.Metrics()["kl"]
		}
		assert.InDelta(t, 0, kl(), 1e-6)
		torch.NoGrad(func() {
			for _, p := range nn.Params(m) {
				if p.Tensor.NeedsGrad() {
					p.Tensor.AddScalar_(0.1)
				}
			}
		})
		assert.Greater(t, math.Abs(kl()), 1e-4) // that of RLOO may be negative
	}
}

func TestCompletionsAreLogged(t *testing.T) {
	m := tiny(t)
	var out bytes.Buffer
	o := options()
	o.LogCompletions, o.Rewards = &out, append(o.Rewards, grpo.Reward{Name: "never",
		Func: func(c grpo.Completions) ([]float64, error) {
			assert.Nil(t, c.Texts)
			assert.False(t, c.Evaluation)
			assert.Equal(t, 1.0, c.Samples[4].Data)
			return []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), 1}, nil
		}})
	lossOf(t, grpoTask(t, m, o), samples(2))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 8)
	var l struct {
		IDs       []int64 `json:"completion_ids"`
		Rewards   map[string]*float64
		Advantage *float64
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &l))
	assert.NotEmpty(t, l.IDs)
	assert.NotNil(t, l.Rewards["evens"])
	assert.NotNil(t, l.Advantage)
	never, ok := l.Rewards["never"]
	assert.True(t, ok && never == nil)
}

// TestDropoutActsWhereItIsLearned, and not where completions are generated.
func TestDropoutActsWhereItIsLearned(t *testing.T) {
	m := gpt(t)
	o := options()
	var generated [][][]int64
	differ := func(o grpo.TaskOptions) bool {
		task := grpoTask(t, m, o)
		grpo.Watch(task, func(ids [][]int64) [][]int64 {
			generated = append(generated, ids)
			return ids
		})
		first, _ := lossOf(t, task, samples(3))
		torch.ManualSeed(1)
		second, _ := lossOf(t, task, samples(3))
		nn.SetTraining(m, false)
		defer nn.SetTraining(m, true)
		third, _ := lossOf(t, task, samples(3))
		return first != third || second != third
	}
	o.LossType = grpo.CISPO
	assert.True(t, differ(o))
	o.DisableDropout = true
	assert.False(t, differ(o))
	for _, ids := range generated[1:] {
		assert.Equal(t, generated[0], ids)
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	m := tiny(t)
	for want, change := range map[string]func(o *grpo.TaskOptions){
		`LossType is "rloo"; want one of`:              func(o *grpo.TaskOptions) { o.LossType = "rloo" },
		`ImportanceSamplingLevel is "word"`:            func(o *grpo.TaskOptions) { o.ImportanceSamplingLevel = "word" },
		"TopEntropyQuantile is 2":                      func(o *grpo.TaskOptions) { o.TopEntropyQuantile = 2 },
		"Epsilon is -1":                                func(o *grpo.TaskOptions) { o.Epsilon, o.EpsilonHigh = -1, 1 },
		"Rewards is empty":                             func(o *grpo.TaskOptions) { o.Rewards = nil },
		`Rewards[1] has the name "evens"`:              func(o *grpo.TaskOptions) { o.Rewards = []grpo.Reward{evens, evens} },
		"NumGenerations is 1; want at least 2":         func(o *grpo.TaskOptions) { o.NumGenerations = 1 },
		"MaxCompletionLength is 16; want 1 to 15":      func(o *grpo.TaskOptions) { o.MaxCompletionLength = 16 },
		"MaxCompletionLength is 512; want 1 to 15":     func(o *grpo.TaskOptions) { o.MaxCompletionLength = 0 },
		"Temperature is -1":                            func(o *grpo.TaskOptions) { o.Temperature = -1 },
		"TopP is 2":                                    func(o *grpo.TaskOptions) { o.TopP = 2 },
		"ScaleRewards is some":                         func(o *grpo.TaskOptions) { o.ScaleRewards = "some" },
		"MultiObjectiveAggregation is max":             func(o *grpo.TaskOptions) { o.MultiObjectiveAggregation = "max" },
		"StepsPerGeneration is -1":                     func(o *grpo.TaskOptions) { o.StepsPerGeneration = -1 },
		"Rewards[0].Weight is NaN; want a finite numb": func(o *grpo.TaskOptions) { o.Rewards[0].Weight = new(math.NaN()) },
	} {
		o := options()
		change(&o)
		_, err := m.GRPOTask(o)
		require.ErrorContains(t, err, want)
	}
	set := func(change func(o *grpo.TaskOptions)) func(o *grpo.TaskOptions) {
		return func(o *grpo.TaskOptions) {
			o.RLOO = &grpo.RLOO{}
			change(o)
		}
	}
	for name, change := range map[string]func(o *grpo.TaskOptions){
		"LossType":                  func(o *grpo.TaskOptions) { o.LossType = grpo.GRPO },
		"Delta":                     func(o *grpo.TaskOptions) { o.Delta = 2 },
		"NoBiasCorrectionKL":        func(o *grpo.TaskOptions) { o.NoBiasCorrectionKL = true },
		"ImportanceSamplingLevel":   func(o *grpo.TaskOptions) { o.ImportanceSamplingLevel = grpo.SequenceLevel },
		"TopEntropyQuantile":        func(o *grpo.TaskOptions) { o.TopEntropyQuantile = 1 },
		"OffPolicyMaskThreshold":    func(o *grpo.TaskOptions) { o.OffPolicyMaskThreshold = 1 },
		"SAPOTemperaturePos":        func(o *grpo.TaskOptions) { o.SAPOTemperaturePos = 1 },
		"SAPOTemperatureNeg":        func(o *grpo.TaskOptions) { o.SAPOTemperatureNeg = 1 },
		"VESPOKPos":                 func(o *grpo.TaskOptions) { o.VESPOKPos = 1 },
		"VESPOLambdaPos":            func(o *grpo.TaskOptions) { o.VESPOLambdaPos = 1 },
		"VESPOKNeg":                 func(o *grpo.TaskOptions) { o.VESPOKNeg = 1 },
		"VESPOLambdaNeg":            func(o *grpo.TaskOptions) { o.VESPOLambdaNeg = 1 },
		"ScaleRewards":              func(o *grpo.TaskOptions) { o.ScaleRewards = grpo.ScaleNone },
		"MultiObjectiveAggregation": func(o *grpo.TaskOptions) { o.MultiObjectiveAggregation = grpo.SumThenNormalize },
	} {
		o := options()
		set(change)(&o)
		_, err := m.GRPOTask(o)
		require.ErrorContains(t, err, "grpo: TaskOptions."+name+" is set, which does not apply to RLOO")
	}
	for want, change := range map[string]func(o *grpo.TaskOptions){
		"RLOO.RewardClipRange is 2 to 1; want": func(o *grpo.TaskOptions) { o.RLOO.RewardClipRange = &[2]float64{2, 1} },
		"RLOO.RewardClipRange is NaN to 1;": func(o *grpo.TaskOptions) {
			o.RLOO.RewardClipRange = &[2]float64{math.NaN(), 1}
		},
		"Beta is 0.1 and RLOO.NoKL is set":     func(o *grpo.TaskOptions) { o.Beta, o.RLOO.NoKL = 0.1, true },
		"Beta is -1; want a finite number":     func(o *grpo.TaskOptions) { o.Beta = -1 },
		"NumGenerations is 1; want at least 2": func(o *grpo.TaskOptions) { o.NumGenerations = 1 },
	} {
		o := options()
		set(change)(&o)
		_, err := m.GRPOTask(o)
		require.ErrorContains(t, err, want)
	}
	masked := options()
	masked.MaskTruncatedCompletions, masked.EOSTokenIDs = true, []int64{}
	_, err := m.GRPOTask(masked)
	require.ErrorContains(t, err, "MaskTruncatedCompletions is true; want a model that ends completions")
	_, err = grpo.NewTask(m, options())
	require.ErrorContains(t, err, "GRPOTask of package auto sets it")
	task := grpoTask(t, m, options())
	for want, ids := range map[string][]int64{"InputIDs is empty": nil, "token 0 has the id 20": {20},
		"the prompt has 12 tokens, and the model has positions for 16, of which TaskOptions.": make([]int64, 12)} {
		_, err := task.Collate([]grpo.Sample{samples(1)[0], {PromptIDs: ids}})
		require.ErrorContains(t, err, "grpo: sample 1 of the batch: "+want)
	}
	err = torch.Try(func() { task.Loss(engine.ForwardPass{Part: true}, grpo.Batch{}) })
	require.ErrorContains(t, err, "did not fit into memory, and it cannot be divided")
	for want, eo := range map[string]engine.Options{"Options.NEFTuneAlpha is set": {NEFTuneAlpha: 1},
		"Options.Graphs is set": {Graphs: engine.Graphs{Kinds: 1}}} {
		require.ErrorContains(t, task.ValidateOptions(eo), want)
	}
	require.NoError(t, m.AddLoRA(lora.Config{TargetModules: []string{"q_proj", "lm_head"}}))
	_, err = m.GRPOTask(options())
	require.ErrorContains(t, err, "the output layer of the model has an update")
}

// TestWhatEndsARun: what is found out only while it trains.
func TestWhatEndsARun(t *testing.T) {
	reward := func(f func(c grpo.Completions) ([]float64, error)) func(o *grpo.TaskOptions) {
		return func(o *grpo.TaskOptions) { o.Rewards = []grpo.Reward{{Name: "mine", Func: f}} }
	}
	generate := func(ids ...int64) func(o *grpo.TaskOptions) {
		return func(o *grpo.TaskOptions) {
			o.Generate = func(_ engine.ForwardPass, prompts [][]int64, n int) (all [][]int64, err error) {
				for range len(prompts) * n {
					all = append(all, ids)
				}
				return all, nil
			}
		}
	}
	for want, change := range map[string]func(o *grpo.TaskOptions){
		`the reward function "mine": out of order`: reward(func(grpo.Completions) ([]float64, error) {
			return nil, errors.New("out of order")
		}),
		`"mine": it returned 1 rewards for 8 completions`: reward(func(grpo.Completions) ([]float64, error) {
			return []float64{1}, nil
		}),
		`"mine": it returned +Inf for completion 3; want`: reward(func(c grpo.Completions) ([]float64, error) {
			rewards := make([]float64, len(c.IDs))
			rewards[3] = math.Inf(1)
			return rewards, nil
		}),
		"returned 0 tokens in completion 0; want 1 to 5": generate(),
		"returned the token 20 in completion 0":          generate(20),
		"a batch of 2 prompts makes 8 completions, which cannot be spread over 3": func(o *grpo.TaskOptions) {
			o.StepsPerGeneration = 3
		},
		"the batch has other prompts than those whose completions are learned in 2 micro-batches": func(o *grpo.TaskOptions) {
			o.NumIterations = 2
		},
	} {
		o := options()
		change(&o)
		step, err := engine.New(grpoTask(t, tiny(t), o), engine.Options{})
		require.NoError(t, err)
		fit, err := trainer.New(step, trainer.Options{BatchSize: 2, MaxSteps: 2, Save: trainer.Never, Progress: io.Discard})
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), data.Slice[grpo.Sample](samples(7)), nil)
		require.ErrorContains(t, err, want)
	}
}

// TestASecondRunBeginsAnew, after one that has stopped among completions that are learned twice.
func TestASecondRunBeginsAnew(t *testing.T) {
	o := options()
	o.NumIterations = 2
	task := grpoTask(t, tiny(t), o)
	step, err := engine.New(task, engine.Options{})
	require.NoError(t, err)
	for range 2 {
		fit, err := trainer.New(step, trainer.Options{BatchSize: 2, MaxSteps: 1, Order: task.Order(2, 1), Save: trainer.Never,
			Progress: io.Discard})
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), data.Slice[grpo.Sample](samples(7)), nil)
		require.NoError(t, err)
	}
}
