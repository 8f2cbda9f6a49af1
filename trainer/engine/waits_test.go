package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/stepcount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// counted is a small version of a workload of internal/bench whose operations are counted: it
// trains for the given number of updates and logs nothing before the end.
type counted func(t *testing.T, p amp.Precision, rules semantics.Rules, updates int) stepcount.Counts

var countedWorkloads = map[string]counted{
	"mlp": func(t *testing.T, p amp.Precision, rules semantics.Rules, updates int) stepcount.Counts {
		model := nn.Sequential{nn.NewLinear(784, 32, nil), nn.ReLU{}, nn.NewLinear(32, 32, nil), nn.ReLU{},
			nn.NewLinear(32, 10, nil)}
		samples := make(data.Slice[data.Example], 32)
		for i := range samples {
			samples[i] = data.Example{Features: make([]float32, 784), Class: int64(i % 10)}
		}
		return countUpdates(t, engine.Classify(model), samples, p, rules, updates)
	},
	"crnn": func(t *testing.T, p amp.Precision, rules semantics.Rules, updates int) stepcount.Counts {
		model, err := crnn.New(crnn.Config{Charset: strings.Split(" abcdefghij", ""), Map2SeqDim: 8, RNNDim: 8,
			ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}})
		require.NoError(t, err)
		samples := make(data.Slice[crnn.Sample], 8)
		for i := range samples {
			samples[i] = crnn.Sample{Pixels: make([]float32, 32*128), Text: "abc"[:1+i%3]}
		}
		return countUpdates(t, crnn.NewTask(model), samples, p, rules, updates)
	},
	"bert_small": func(t *testing.T, p amp.Precision, rules semantics.Rules, updates int) stepcount.Counts {
		return countBERT(t, 2, 0, p, rules, updates)
	},
	"bert_base": func(t *testing.T, p amp.Precision, rules semantics.Rules, updates int) stepcount.Counts {
		return countBERT(t, 3, 32, p, rules, updates)
	},
}

func countBERT(t *testing.T, layers int64, width int, p amp.Precision, rules semantics.Rules,
	updates int) stepcount.Counts {
	model, err := bert.NewClassifier(bert.Config{VocabSize: 100, HiddenSize: 16, NumLayers: layers, NumHeads: 2,
		IntermediateSize: 32})
	require.NoError(t, err)
	task, err := classify.NewTask(model, classify.TaskOptions{Padding: data.Padding{Length: width}})
	require.NoError(t, err)
	samples := make(data.Slice[bert.Sample], 16)
	for i := range samples { // no two have the same length, so every batch has padding
		samples[i] = bert.Sample{InputIDs: make([]int64, 4+i), TokenTypeIDs: make([]int64, 4+i), Label: int64(i % 2)}
	}
	return countUpdates(t, task, samples, p, rules, updates)
}

func countUpdates[S, B any](t *testing.T, task engine.Task[S, B], samples data.Dataset[S], p amp.Precision,
	rules semantics.Rules, updates int) (c stepcount.Counts) {
	sent := engine.PretendRemote(t)
	o := engine.Options{Optimizer: optim.AdamW{LR: 1e-3}}
	if p == amp.BF16 {
		o.Precision = p
	}
	s, err := engine.New(task, o)
	require.NoError(t, err)
	if p == amp.FP16 {
		engine.UseFloat16(s, amp.GradScalerOptions{})
	}
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: updates, BatchSize: 4, Semantics: rules,
		Schedule: lr.Linear{}, Log: trainer.Never, Eval: trainer.Never, Save: trainer.Never}))
	require.NoError(t, err)
	c = stepcount.Of(t, func() {
		_, err := fit.Fit(t.Context(), samples, nil)
		require.NoError(t, err)
	})
	c.Uploads -= sent() // leaves the uploads for which the host would wait
	return c
}

// each returns what one update costs, without the beginning and the end of a run.
func (c counted) each(t *testing.T, p amp.Precision, rules semantics.Rules) stepcount.Counts {
	torch.ManualSeed(1)
	few := c(t, p, rules, 2)
	torch.ManualSeed(1)
	return c(t, p, rules, 6).Each(4, few)
}

// limit is the maximum cost of an update. Libtorch's choice of kernels, which differs between CPUs,
// determines how many tensors operators use, so that limit is generous.
type limit struct{ operators, readBacks, blockingCopies, tensors int }

var limits = map[string]limit{
	"mlp fp32":        {53, 0, 0, 75},
	"mlp bf16":        {60, 0, 0, 95},
	"mlp fp16":        {74, 0, 0, 100},
	"crnn fp32":       {165, 0, 0, 550},
	"crnn bf16":       {3700, 0, 0, 4000}, // its LSTM consists of single operators in bfloat16
	"crnn fp16":       {3700, 0, 0, 4000},
	"bert_small fp32": {370, 0, 0, 450},
	"bert_small bf16": {425, 0, 0, 600},
	"bert_small fp16": {440, 0, 0, 600},
	"bert_base fp32":  {510, 0, 0, 650},
	"bert_base bf16":  {590, 0, 0, 850},
	"bert_base fp16":  {605, 0, 0, 850},
}

func TestCostOfAnUpdateStaysWithinItsLimits(t *testing.T) {
	testenv.RequireTorch(t)
	if _, set := os.LookupEnv(testenv.TestPins); set {
		t.Skip("what an update costs is the same on the code paths of every CPU")
	}
	if testing.Short() {
		t.Skip("thousands of operators are written down, which takes long under the race detector")
	}
	live := testenv.Live()
	for _, name := range slices.Sorted(maps.Keys(countedWorkloads)) {
		for _, p := range []amp.Precision{amp.FP32, amp.BF16, amp.FP16} {
			key := fmt.Sprintf("%s %s", name, p)
			t.Run(key, func(t *testing.T) {
				if runtime.GOARCH != "amd64" && key == "crnn fp32" {
					t.Skip("oneDNN has an LSTM of one operator on x86-64 only")
				}
				got, want := countedWorkloads[name].each(t, p, semantics.HuggingFace), limits[key]
				t.Log(got)
				assert.LessOrEqual(t, got.Operators, want.operators, "operators")
				assert.LessOrEqual(t, got.ReadBacks, want.readBacks, "read-backs: %v", got.ByName)
				assert.LessOrEqual(t, got.Uploads, want.blockingCopies, "copies that are waited for")
				assert.LessOrEqual(t, got.Tensors, want.tensors, "tensors")
			})
		}
	}
	assert.LessOrEqual(t, testenv.Live(), live, "tensors are left") // it may be fewer: tensors of earlier tests are freed
}

// If the schedule must know whether updates were made, fp16 reads one number per update. Optimizers
// without a fused kernel and an average of the weights also require this.
func TestAnUpdateIsWaitedForWhereTheRateAsks(t *testing.T) {
	testenv.RequireTorch(t)
	mlp := countedWorkloads["mlp"]
	assert.Equal(t, 1, mlp.each(t, amp.FP16, semantics.Default).ReadBacks)
	assert.Zero(t, mlp.each(t, amp.FP32, semantics.Default).ReadBacks)
	moves := semantics.Default
	moves.ScheduleOnSkip = true
	assert.Zero(t, mlp.each(t, amp.FP16, moves).ReadBacks)
}

// asking is a Step that must know whether each update was made, as the schedules of other semantics
// do.
type asking struct {
	*engine.Step[data.Example, engine.Examples]
}

func (a asking) Train(ctx context.Context, b engine.Examples, w trainer.Window) error {
	w.SkipUnseen = false
	return a.Step.Train(ctx, b, w)
}

func TestUpdatesThatNobodyAsksForHaveTheSameBits(t *testing.T) {
	testenv.RequireTorch(t)
	for _, optimizer := range []optim.Builder{optim.AdamW{LR: 0.01}, optim.SGD{LR: 0.01, Momentum: 0.9, Dampening: 0.5},
		optim.Adagrad{LR: 0.01}} {
		run := func(asks bool) (string, float64) {
			torch.ManualSeed(9)
			s, err := engine.New(engine.Classify(newNet()), engine.Options{Optimizer: optimizer})
			require.NoError(t, err)
			engine.UseFloat16(s, amp.GradScalerOptions{InitScale: 1 << 20, GrowthInterval: 2})
			var step trainer.Step[data.Example, engine.Examples] = s
			if asks {
				step = asking{s}
			}
			fit, err := trainer.New(step, quiet(trainer.Options{Epochs: 2, BatchSize: 2, Semantics: semantics.HuggingFace,
				Save: trainer.Never}))
			require.NoError(t, err)
			_, err = fit.Fit(t.Context(), ring(20), nil)
			require.NoError(t, err)
			return fmt.Sprintf("%s %+v %d", fingerprint(s), engine.Scaler(s).State(), s.Optimizer().Updates()),
				engine.Scaler(s).GetScale()
		}
		want, scale := run(true)
		require.Less(t, scale, float64(1<<20), "no gradient overflowed")
		got, _ := run(false)
		assert.Equal(t, want, got, "%T", optimizer)
	}
}

func TestAnUpdateLeftOutUnseenIsReported(t *testing.T) {
	testenv.RequireTorch(t)
	for _, fp16 := range []bool{true, false} {
		s, err := engine.New(engine.Classify(newNet()), engine.Options{})
		require.NoError(t, err)
		if fp16 {
			engine.UseFloat16(s, amp.GradScalerOptions{})
		}
		batch, err := s.Collate(ring(2))
		require.NoError(t, err)
		for k, poison := range []bool{false, true, false} {
			require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1, SkipUnseen: true,
				SkipNonFinite: !fp16}))
			weight := nn.Params(s.Model())[0].Tensor
			if poison {
				weight.Grad().Fill_(math.Inf(1))
			}
			before := torch.Values[float32](weight)
			require.NoError(t, s.Clip(t.Context()))
			applied, err := s.Update(t.Context(), 0.1)
			require.NoError(t, err)
			assert.True(t, applied, "Update does not wait to learn the truth")
			r, err := s.Report(t.Context())
			require.NoError(t, err)
			assert.Equal(t, poison, r.Skipped, "update %d, fp16 %t", k, fp16)
			assert.Equal(t, poison, slices.Equal(before, torch.Values[float32](weight)), "update %d, fp16 %t", k, fp16)
		}
		assert.Equal(t, 2, s.Optimizer().Updates())
	}
}
