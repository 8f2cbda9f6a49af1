package reward_test

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
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/reward"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// tiny is a small Llama whose rewards are far apart.
func tiny(t *testing.T) *auto.SequenceClassifier {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(5)
	m, err := auto.NewSequenceClassification(llama.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 2, NumHeads: 2,
		NumKeyValueHeads: 2, IntermediateSize: 24, MaxPositions: 16, EOSTokenIDs: []int64{1}},
		classify.Head{NumLabels: 1}, nil)
	require.NoError(t, err)
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			p.Tensor.MulScalar_(3)
		}
	})
	return m
}

// samples prefer one token to another.
func samples(n int) (list []reward.Sample) {
	for i := range n {
		s := reward.Sample{ChosenIDs: []int64{0, int64(2 + i%7), int64(10 + i%3), 1},
			RejectedIDs: []int64{0, int64(2 + i%7), int64(13 + i%4), 15, 1}}
		if i%3 == 0 {
			s.Margin = 0.5
		}
		list = append(list, s)
	}
	return list
}

var errBroken = errors.New("broken")

type breaks struct{ after int }

func (b breaks) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == b.after {
		return errBroken
	}
	return nil
}

// TestARunContinuesBitForBit, with an adapter, whose checkpoint has nothing else, and without. The
// checkpoint is a reward model.
func TestARunContinuesBitForBit(t *testing.T) {
	for _, adapted := range []bool{false, true} {
		t.Run(fmt.Sprint("adapter: ", adapted), func(t *testing.T) {
			base := t.TempDir()
			require.NoError(t, tiny(t).Save(base))
			run := func(dir string, callbacks ...any) (logs []trainer.Logs, weights string, err error) {
				m, err := auto.RewardModel(t.Context(), base, auto.Options{Warnings: io.Discard})
				require.NoError(t, err)
				if adapted {
					torch.ManualSeed(2)
					require.NoError(t, m.AddLoRA(lora.Config{R: 2, Dropout: 0.1}))
				}
				step, err := engine.New(rewardTask(t, m, reward.TaskOptions{KeepDropout: true}),
					engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
				require.NoError(t, err)
				fit, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 3, Accumulate: 2,
					Log: trainer.Every(2, trainer.Update), Save: trainer.Every(1, trainer.Update), ResumeFrom: trainer.Latest,
					Callbacks: callbacks, Progress: io.Discard})
				require.NoError(t, err)
				r, err := fit.Fit(t.Context(), data.Slice[reward.Sample](samples(20)), data.Slice[reward.Sample](samples(5)))
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
			assert.Less(t, got[len(got)-1]["loss"], got[0]["loss"], "nothing was learned")
			checkpoint := filepath.Join(dir, "checkpoint-8")
			assert.FileExists(t, filepath.Join(checkpoint, map[bool]string{true: "adapter_model.safetensors",
				false: "model.safetensors"}[adapted]))
			m, err := auto.RewardModel(t.Context(), checkpoint, auto.Options{BaseModel: base, Warnings: io.Discard})
			require.NoError(t, err)
			assert.Equal(t, weights, fmt.Sprint(modeltest.Trained(m)))
			assert.EqualValues(t, 1, m.Limits().PadTokenID)
			assert.Equal(t, "LlamaForSequenceClassification", m.Architecture())
		})
	}
}

// TestScoresAreLogits, however texts are put together to batches.
func TestScoresAreLogits(t *testing.T) {
	r := load(t)
	for _, family := range []string{"llama", "bert"} {
		m := r.model(t, family)
		list, err := chat.ReadPreferencesFile(preferences + "preferences.jsonl")
		require.NoError(t, err)
		var written []string
		var conversations []chat.Conversation
		var want, wantChats []float64
		one := func(ids []int64) (logit float64) {
			nn.Evaluating(m, func() {
				torch.NoGrad(func() {
					logit = m.Forward(torch.From(ids, 1, int64(len(ids))), torch.Tensor{}, torch.Tensor{}).Item()
				})
			})
			return logit
		}
		for _, p := range list {
			s, err := m.EncodePreference(p)
			require.NoError(t, err)
			if p.IsChat() {
				conversations, wantChats = append(conversations, p.Conversation(p.Chosen)), append(wantChats, one(s.ChosenIDs))
			} else {
				written, want = append(written, p.Prompt.Text+p.Chosen.Text), append(want, one(s.ChosenIDs))
			}
		}
		got, err := m.Score(t.Context(), written)
		require.NoError(t, err)
		assert.InDeltaSlice(t, want, got, 1e-5, family)
		got, err = m.ScoreChats(t.Context(), conversations)
		require.NoError(t, err)
		assert.InDeltaSlice(t, wantChats, got, 1e-5, family)
		assert.True(t, m.Training(), "the mode that it had")

		_, err = m.Score(t.Context(), []string{"ok", written[0] + fmt.Sprint(make([]int, 200))})
		require.ErrorContains(t, err, "auto: Score: text 1: the text has 4")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errBroken)
		_, err = m.Score(ended, written)
		require.ErrorIs(t, err, errBroken)
	}
}

// TestTheTokenThatPads is the tokenizer's, or the one that ends texts.
func TestTheTokenThatPads(t *testing.T) {
	r := load(t)
	folder := func(config map[string]any, settings string) string {
		dir := modeltest.ConfigFolder(t, config)
		require.NoError(t, os.CopyFS(dir, os.DirFS(preferences+"tokenizer")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(settings), 0o600))
		return dir
	}
	open := func(config map[string]any, settings string) (*auto.SequenceClassifier, error) {
		return auto.RewardModel(t.Context(), folder(config, settings), auto.Options{FromConfig: true, Warnings: io.Discard})
	}
	for _, c := range []struct {
		family, settings string
		loaded, trained  int64
	}{
		{"llama", `{"eos_token": "</s>"}`, 1, 1},
		{"llama", `{"eos_token": "</s>", "pad_token": "<|user|>"}`, 2, 2},
		{"llama", `{}`, 1, 1},
		{"gemma2", `{"eos_token": "</s>", "pad_token": "<|user|>"}`, 0, 2}, // its config.json names one
	} {
		m, err := open(r.Models[c.family], c.settings)
		require.NoError(t, err)
		assert.Equal(t, c.loaded, m.Limits().PadTokenID, c.settings)
		rewardTask(t, m, reward.TaskOptions{})
		assert.Equal(t, c.trained, m.Limits().PadTokenID, c.settings)
	}
	m, err := open(r.Models["bert"], `{}`) // its tokenizer ends texts itself
	require.NoError(t, err)
	s, err := m.EncodePreference(chat.Preference{Chosen: chat.Content{Text: "a"}, Rejected: chat.Content{Text: "b"}})
	require.NoError(t, err)
	assert.Len(t, s.ChosenIDs, 2)
	require.ErrorContains(t, m.SetPadTokenID(1), "BertForSequenceClassification reads the class from the first token")

	_, err = open(r.Models["llama"], `{"pad_token": "[PAD]"}`)
	require.ErrorContains(t, err, `pad_token of the tokenizer is "[PAD]", which is not among`)

	m, err = auto.NewSequenceClassification(llama.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 1, NumHeads: 2,
		IntermediateSize: 8, EOSTokenIDs: []int64{}}, classify.Head{NumLabels: 1}, nil)
	require.NoError(t, err)
	_, err = m.RewardTask(reward.TaskOptions{})
	require.ErrorContains(t, err, "auto: no token pads texts; want pad_token or eos_token in tokenizer_config.json")
	require.NoError(t, m.SetPadTokenID(4))
	rewardTask(t, m, reward.TaskOptions{})
	_, err = m.Score(t.Context(), []string{"a"})
	require.ErrorContains(t, err, "the model has no tokenizer")
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	m := tiny(t)
	task := rewardTask(t, m, reward.TaskOptions{MaxLength: 5})
	for want, s := range map[string]reward.Sample{
		"ChosenIDs: InputIDs is empty":              {RejectedIDs: []int64{1}},
		"RejectedIDs: token 1 has the id 20":        {ChosenIDs: []int64{1}, RejectedIDs: []int64{2, 20}},
		"the longer text has 6 tokens; want at mos": {ChosenIDs: []int64{1}, RejectedIDs: make([]int64, 6)},
		"Margin is NaN; want a finite number": {ChosenIDs: []int64{1}, RejectedIDs: []int64{1},
			Margin: float32(math.NaN())},
	} {
		_, err := task.Collate([]reward.Sample{samples(1)[0], s})
		require.ErrorContains(t, err, "reward: sample 1 of the batch: "+want)
	}
	for want, o := range map[string]reward.TaskOptions{
		"MaxLength is 17; want 1 to 16":                {MaxLength: 17},
		"TaskOptions.Padding.Left is set":              {Padding: data.Padding{Left: true}},
		"CenterRewardsCoefficient is -1; want a numbe": {CenterRewardsCoefficient: -1},
	} {
		_, err := m.RewardTask(o)
		require.ErrorContains(t, err, want)
	}
	_, err := engine.New(task, engine.Options{LabelSmoothing: 0.1})
	require.ErrorContains(t, err, "LabelSmoothing is set")

	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	_, err = auto.RewardModel(t.Context(), dir, auto.Options{ID2Label: []string{"a", "b"}})
	require.ErrorContains(t, err, "ID2Label has 2 texts, but NumLabels is 1")
	two, err := auto.SequenceClassification(t.Context(), dir, auto.Options{ID2Label: []string{"a", "b"},
		InitMismatched: true, Warnings: io.Discard})
	require.NoError(t, err)
	_, err = two.RewardTask(reward.TaskOptions{})
	require.ErrorContains(t, err, "reward: the model has 2 labels; want one")
	_, err = two.Score(t.Context(), []string{"a"})
	require.ErrorContains(t, err, "auto: Score: the model has 2 labels")
}

// TestSeveralProcesses learn what one learns, each with a part of the weights too.
func TestSeveralProcesses(t *testing.T) {
	var drawing sync.Mutex
	run := func(g *dist.Group, s shard.Strategy) (trainer.Metrics, []trainer.Logs, error) {
		drawing.Lock()
		m := tiny(t)
		drawing.Unlock()
		if g != nil { // a trainer seeds the generator that the ranks draw from
			if err := g.Barrier(t.Context()); err != nil {
				return nil, nil, err
			}
		}
		task, err := m.RewardTask(reward.TaskOptions{CenterRewardsCoefficient: 0.1})
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
		r, err := fit.Fit(t.Context(), data.Slice[reward.Sample](samples(12)), nil)
		if err != nil {
			return nil, nil, err
		}
		metrics, err := fit.Evaluate(t.Context(), data.Slice[reward.Sample](samples(7)))
		return metrics, r.History, err
	}
	want, logs, err := run(nil, 0)
	require.NoError(t, err)
	assert.Contains(t, want, "min_reward")
	for _, s := range []shard.Strategy{0, shard.FullShard} {
		for rank, err := range ranktest.Together(t, 2, nil, func(_ context.Context, g *dist.Group) error {
			got, history, err := run(g, s)
			if err != nil {
				return err
			}
			near := cmpopts.EquateApprox(1e-4, 1e-5)
			if diff := cmp.Diff(want, got, near); diff != "" {
				return fmt.Errorf("metrics (-one process +two):\n%s", diff)
			}
			for i := range logs[:3] {
				for _, name := range []string{"loss", "mean_reward", "margin", "accuracy"} {
					if !cmp.Equal(logs[i][name], history[i][name], near) {
						return fmt.Errorf("%s of update %d is %g, want %g", name, i+1, history[i][name], logs[i][name])
					}
				}
			}
			return nil
		}) {
			require.NoError(t, err, "sharding %v, rank %d", s, rank)
		}
	}
}

// TestWeightsInFourBits have the adapter above them learn, and the head, which is not packed.
func TestWeightsInFourBits(t *testing.T) {
	r := load(t)
	dir := modeltest.ConfigFolder(t, r.Models["llama"])
	require.NoError(t, os.CopyFS(dir, os.DirFS(preferences+"tokenizer")))
	m, err := auto.RewardModel(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard,
		DType: torch.BFloat16, Quantize: &quantized.Config{Type: quantized.NF4, ComputeDType: torch.BFloat16}})
	require.NoError(t, err)
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	task := rewardTask(t, m, reward.TaskOptions{MaxLength: 40})
	b, err := task.Collate(task.Keep(texts(t, m, false))[:4])
	require.NoError(t, err)
	loss := task.Loss(engine.ForwardPass{}, b).Value
	assert.Equal(t, torch.Float32, loss.DType())
	assert.InDelta(t, math.Ln2, loss.Item(), 0.1)
	loss.Backward()
	trained := 0
	for _, p := range nn.Params(m) {
		if p.Tensor.Grad().Defined() {
			trained++
		}
	}
	assert.Equal(t, 9, trained) // two matrices for two projections of two layers, and the head
}
