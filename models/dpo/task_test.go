package dpo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// tiny is a small Llama whose answers are far from even.
func tiny(t *testing.T) *auto.CausalLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(5)
	m, err := auto.NewCausalLM(llama.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 2, NumHeads: 2, NumKeyValueHeads: 2,
		IntermediateSize: 24, MaxPositions: 16, EOSTokenIDs: []int64{1}}, nil)
	require.NoError(t, err)
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			p.Tensor.MulScalar_(3)
		}
	})
	return m
}

// samples prefer one token to another.
func samples(n int) (list []dpo.Sample) {
	for i := range n {
		prompt := []int64{0, int64(2 + i%7)}
		if i%3 == 0 {
			prompt = append(prompt, 9)
		}
		list = append(list, dpo.Sample{PromptIDs: prompt, ChosenIDs: []int64{int64(10 + i%3), 1},
			RejectedIDs: []int64{int64(13 + i%4), 15, 1}})
	}
	return list
}

func dpoTask(t *testing.T, m *auto.CausalLanguageModel, o dpo.TaskOptions) *dpo.Task {
	t.Helper()
	task, err := m.DPOTask(o)
	require.NoError(t, err)
	return task
}

// lossOf is the loss of a batch, and its gradients.
func lossOf(t *testing.T, task *dpo.Task, list []dpo.Sample) (loss float64, grads []torch.Tensor) {
	t.Helper()
	b, err := task.Collate(list)
	require.NoError(t, err)
	torch.Scope(func() {
		l := task.Loss(engine.ForwardPass{}, b).Value
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

// TestTokensOfPromptsNeedNotBeScored: on a GPU they are not.
func TestTokensOfPromptsNeedNotBeScored(t *testing.T) {
	m := tiny(t)
	t.Cleanup(func() { logprob.Compact = false })
	for _, types := range [][]dpo.LossType{nil, {dpo.IPO, dpo.SFT}} {
		logprob.Compact = false
		o := dpo.TaskOptions{LossOptions: dpo.LossOptions{LossTypes: types, UseWeighting: true}}
		task := dpoTask(t, m, o)
		want, grads := lossOf(t, task, samples(5))
		logprob.Compact = true
		got, compact := lossOf(t, task, samples(5))
		assert.InDelta(t, want, got, 1e-6)
		for i, g := range compact {
			assert.True(t, g.AllClose(grads[i], 1e-3, 1e-6, false))
		}
	}
}

// TestTheReferenceIsTheModelAsItWas, whatever is trained, and however that is done.
func TestTheReferenceIsTheModelAsItWas(t *testing.T) {
	for name, adapt := range map[string]func(t *testing.T, m *auto.CausalLanguageModel){
		"all weights": func(*testing.T, *auto.CausalLanguageModel) {},
		"a new adapter": func(t *testing.T, m *auto.CausalLanguageModel) {
			require.NoError(t, m.AddLoRA(lora.Config{R: 2, TargetModules: []string{lora.AllLinear}, Dropout: 0.5}))
		},
		"an adapter that was trained before": func(t *testing.T, m *auto.CausalLanguageModel) {
			require.NoError(t, m.AddLoRA(lora.Config{R: 2, Init: lora.InitRandom}))
		},
		"an adapter with a module that is trained as it is": func(t *testing.T, m *auto.CausalLanguageModel) {
			require.NoError(t, m.AddLoRA(lora.Config{R: 2, ModulesToSave: []string{"lm_head"}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := tiny(t)
			adapt(t, m)
			task := dpoTask(t, m, dpo.TaskOptions{KeepDropout: true})
			before, err := task.Precompute(t.Context(), samples(4), 4)
			require.NoError(t, err)
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					if p.Tensor.NeedsGrad() {
						p.Tensor.AddScalar_(0.05)
					}
				}
			})
			after, err := task.Precompute(t.Context(), samples(4), 3)
			require.NoError(t, err)
			now := dpoTask(t, m, dpo.TaskOptions{Precomputed: true})
			trained, err := now.Precompute(t.Context(), samples(4), 4)
			require.NoError(t, err)
			for i, s := range after {
				assert.InDelta(t, before[i].Reference.Chosen, s.Reference.Chosen, 1e-4)
				assert.InDelta(t, before[i].Reference.Rejected, s.Reference.Rejected, 1e-4)
				assert.NotEqual(t, trained[i].Reference.Chosen, s.Reference.Chosen)
			}
			require.NoError(t, task.ValidateOptions(engine.Options{}))
			err = task.ValidateOptions(engine.Options{Sharding: shard.FullShard})
			if name == "all weights" || name == "a new adapter" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "Precompute the log probabilities")
			}
		})
	}
}

// TestPrecomputedIsTheSame as a reference that is run in each step.
func TestPrecomputedIsTheSame(t *testing.T) {
	m := tiny(t)
	want, grads := lossOf(t, dpoTask(t, m, dpo.TaskOptions{}), samples(4))
	task := dpoTask(t, m, dpo.TaskOptions{Precomputed: true})
	list, err := task.Precompute(t.Context(), samples(4), 4)
	require.NoError(t, err)
	got, others := lossOf(t, task, list)
	assert.Equal(t, want, got)
	for i, g := range others {
		assert.True(t, g.Equal(grads[i]))
	}
	b, err := task.Collate(samples(1))
	require.NoError(t, err)
	err = torch.Try(func() { task.Loss(engine.ForwardPass{}, b) })
	require.ErrorContains(t, err, "the samples have no Sample.Reference: Task.Precompute")
	_, err = task.Collate(append(list[:1:1], samples(1)...))
	require.ErrorContains(t, err, "sample 1 of the batch: some samples of the batch have Reference")
	_, err = task.Precompute(t.Context(), list, 0)
	require.ErrorContains(t, err, "batches of 0 samples")
}

var errBroken = errors.New("broken")

type breaks struct{ after int }

func (b breaks) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == b.after {
		return errBroken
	}
	return nil
}

// TestARunContinuesBitForBit, with an adapter, whose checkpoint has nothing else, and without.
func TestARunContinuesBitForBit(t *testing.T) {
	for _, adapted := range []bool{false, true} {
		t.Run(fmt.Sprint("adapter: ", adapted), func(t *testing.T) {
			run := func(dir string, callbacks ...any) (logs []trainer.Logs, weights string, err error) {
				m := tiny(t)
				if adapted {
					require.NoError(t, m.AddLoRA(lora.Config{R: 2, Dropout: 0.1}))
				}
				step, err := engine.New(dpoTask(t, m, dpo.TaskOptions{KeepDropout: true}),
					engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
				require.NoError(t, err)
				fit, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 3, Accumulate: 2,
					Log: trainer.Every(2, trainer.Update), Save: trainer.Every(1, trainer.Update), ResumeFrom: trainer.Latest,
					Callbacks: callbacks, Progress: io.Discard})
				require.NoError(t, err)
				r, err := fit.Fit(t.Context(), data.Slice[dpo.Sample](samples(20)), data.Slice[dpo.Sample](samples(5)))
				if err != nil {
					return nil, "", err
				}
				for _, row := range r.History {
					if _, ok := row["loss"]; ok {
						logs = append(logs, row)
					}
				}
				return logs, fmt.Sprint(modeltest.Trained(m)), nil
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
			assert.Contains(t, got[0], "rewards/margins")
			assert.Less(t, got[len(got)-1]["loss"], got[0]["loss"], "nothing was learned")
			files, err := filepath.Glob(filepath.Join(dir, "checkpoint-3", "*model.safetensors"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			assert.Equal(t, map[bool]string{true: "adapter_model.safetensors", false: "model.safetensors"}[adapted],
				filepath.Base(files[0]))
			if adapted {
				assert.FileExists(t, filepath.Join(dir, "checkpoint-3", "adapter_config.json"))
			}
		})
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	m := tiny(t)
	task := dpoTask(t, m, dpo.TaskOptions{MaxLength: 6})
	for want, s := range map[string]dpo.Sample{
		"ChosenIDs or RejectedIDs is empty": {PromptIDs: []int64{2}, RejectedIDs: []int64{1}},
		"the prompt has 6 tokens, and TaskOptions.": {PromptIDs: make([]int64, 6), ChosenIDs: []int64{1},
			RejectedIDs: []int64{1}},
		"there is no prompt, and an answer of one":  {ChosenIDs: []int64{1}, RejectedIDs: []int64{1}},
		"token 1 has the id 20, but the vocabulary": {PromptIDs: []int64{2}, ChosenIDs: []int64{20}, RejectedIDs: []int64{1}},
	} {
		_, err := task.Collate([]dpo.Sample{samples(1)[0], s})
		require.ErrorContains(t, err, "dpo: sample 1 of the batch: "+want)
	}
	for want, o := range map[string]dpo.TaskOptions{
		"MaxLength is 17; want 2 to 16":                        {MaxLength: 17},
		"TaskOptions.Padding.Left is set":                      {Padding: data.Padding{Left: true}},
		`TaskOptions.LossTypes has "x"`:                        {LossOptions: dpo.LossOptions{LossTypes: []dpo.LossType{"x"}}},
		"want one of TaskOptions.Reference, with Run, and Pre": {Precomputed: true, Reference: reference(m)},
	} {
		_, err := m.DPOTask(o)
		require.ErrorContains(t, err, want)
	}
	_, err := dpo.NewTask(m, dpo.TaskOptions{})
	require.ErrorContains(t, err, "DPOTask of package auto makes the reference")
	_, err = engine.New(task, engine.Options{LabelSmoothing: 0.1})
	require.ErrorContains(t, err, "LabelSmoothing is set")
	require.NoError(t, m.AddLoRA(lora.Config{TargetModules: []string{"q_proj", "lm_head"}}))
	_, err = m.DPOTask(dpo.TaskOptions{})
	require.ErrorContains(t, err, "the output layer of the model has an update (lora.Config.TargetModules)")
}

// TestDropoutIsTakenAway unless it is to stay.
func TestDropoutIsTakenAway(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := auto.NewCausalLM(gpt2.Config{VocabSize: 20, MaxPositions: 8, HiddenSize: 8, NumLayers: 1, NumHeads: 2}, nil)
	require.NoError(t, err)
	list := samples(2)
	differ := func(task *dpo.Task) bool {
		a, _ := lossOf(t, task, list)
		b, _ := lossOf(t, task, list)
		return a != b
	}
	assert.True(t, differ(dpoTask(t, m, dpo.TaskOptions{KeepDropout: true})))
	assert.False(t, differ(dpoTask(t, m, dpo.TaskOptions{})))
}

// TestSeveralProcesses learn what one learns, each with a part of the weights too.
func TestSeveralProcesses(t *testing.T) {
	var drawing sync.Mutex
	run := func(g *dist.Group, adapted bool, s shard.Strategy) (trainer.Metrics, []trainer.Logs, error) {
		drawing.Lock()
		m := tiny(t)
		var err error
		if adapted {
			err = m.AddLoRA(lora.Config{R: 2})
		}
		drawing.Unlock()
		if err == nil && g != nil { // a trainer seeds the generator that the ranks draw from
			err = g.Barrier(t.Context())
		}
		if err != nil {
			return nil, nil, err
		}
		task, err := m.DPOTask(dpo.TaskOptions{})
		if err != nil {
			return nil, nil, err
		}
		step, err := engine.New(task, engine.Options{Optimizer: optim.SGD{LR: 0.5}, Sharding: s})
		if err != nil {
			return nil, nil, err
		}
		fit, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 4 / max(1, g.World()), EvalBatchSize: 2, Group: g,
			Log: trainer.Every(1, trainer.Update), Save: trainer.Never, Order: data.Sequential{}, Progress: io.Discard})
		if err != nil {
			return nil, nil, err
		}
		r, err := fit.Fit(t.Context(), data.Slice[dpo.Sample](samples(12)), nil)
		if err != nil {
			return nil, nil, err
		}
		metrics, err := fit.Evaluate(t.Context(), data.Slice[dpo.Sample](samples(7)))
		return metrics, r.History, err
	}
	for _, adapted := range []bool{false, true} {
		want, logs, err := run(nil, adapted, 0)
		require.NoError(t, err)
		for _, s := range []shard.Strategy{0, shard.FullShard} {
			for rank, err := range ranktest.Together(t, 2, nil, func(_ context.Context, g *dist.Group) error {
				got, history, err := run(g, adapted, s)
				if err != nil {
					return err
				}
				near := cmpopts.EquateApprox(1e-4, 1e-5)
				if diff := cmp.Diff(want, got, near); diff != "" {
					return fmt.Errorf("metrics (-one process +two):\n%s", diff)
				}
				for i := range logs[:3] {
					for _, name := range []string{"loss", "rewards/margins", "logps/chosen", "rewards/accuracies"} {
						if !cmp.Equal(logs[i][name], history[i][name], near) {
							return fmt.Errorf("%s of update %d is %g, want %g", name, i+1, history[i][name], logs[i][name])
						}
					}
				}
				return nil
			}) {
				require.NoError(t, err, "adapter: %t, sharding %v, rank %d", adapted, s, rank)
			}
		}
	}
}

// TestWeightsInFourBits have the adapter above them learn, whose reference needs no copy of them.
func TestWeightsInFourBits(t *testing.T) {
	r := load(t)
	dir := modeltest.ConfigFolder(t, r.Models["llama"])
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/tokenizer")))
	m, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard, DType: torch.BFloat16,
		Quantize: &quantized.Config{Type: quantized.NF4, ComputeDType: torch.BFloat16}})
	require.NoError(t, err)
	_, err = m.DPOTask(dpo.TaskOptions{})
	require.ErrorContains(t, err, "AddLoRA comes before DPOTask")
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	task := dpoTask(t, m, dpo.TaskOptions{MaxLength: 40})
	loss, grads := lossOf(t, task, task.Keep(texts(t, m))[:4])
	assert.InDelta(t, math.Ln2, loss, 1e-3)
	assert.Len(t, grads, 8)
}
