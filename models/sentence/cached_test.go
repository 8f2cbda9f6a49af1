package sentence_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/sentence"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

var cachedByName = map[string]sentence.Loss{
	"pairs": sentence.CachedMultipleNegativesRankingLoss{MiniBatchSize: 4},
	"whole": sentence.CachedMultipleNegativesRankingLoss{},
	"triplets": &sentence.CachedMultipleNegativesRankingLoss{MiniBatchSize: 2,
		MultipleNegativesRankingLoss: sentence.MultipleNegativesRankingLoss{Scale: 7.5}},
	"dot": sentence.CachedMultipleNegativesRankingLoss{MiniBatchSize: 5,
		MultipleNegativesRankingLoss: sentence.MultipleNegativesRankingLoss{Scale: 1, Similarity: sentence.Dot}},
	"symmetric": sentence.CachedMultipleNegativesRankingLoss{MiniBatchSize: 2,
		MultipleNegativesRankingLoss: sentence.MultipleNegativesRankingLoss{PerDirection: true,
			Directions: []sentence.Direction{sentence.QueryToDoc, sentence.DocToQuery}}},
	"all directions": sentence.CachedMultipleNegativesRankingLoss{MiniBatchSize: 1,
		MultipleNegativesRankingLoss: sentence.MultipleNegativesRankingLoss{Directions: []sentence.Direction{
			sentence.QueryToDoc, sentence.QueryToQuery, sentence.DocToQuery, sentence.DocToDoc}}},
}

// loadCached reads the output of testdata/cached.py.
func loadCached(t *testing.T) (losses []lossCase, runs []run, values *golden.File) {
	t.Helper()
	text, err := os.ReadFile("testdata/cached.json")
	require.NoError(t, err)
	var c struct {
		Losses []lossCase
		Runs   []run
	}
	require.NoError(t, json.Unmarshal(text, &c))
	return c.Losses, c.Runs, golden.Load(t, "testdata/cached.safetensors")
}

func TestCachedGradientsHaveTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	losses, _, values := loadCached(t)
	require.Len(t, losses, len(cachedByName))
	for _, c := range losses {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "sentence", "cached, "+c.Name)
			m := r.model(t, "Bert", sentence.Pooling{})
			task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: cachedByName[c.Name]})
			require.NoError(t, err)
			batch, err := task.Collate(r.samples(t, m, c.Texts, "", nil)[:7])
			require.NoError(t, err)
			torch.ManualSeed(7)
			loss := task.Loss(engine.ForwardPass{}, batch).Value
			stands(t, c.Generator)
			loss.DivScalar(4).Backward()
			stands(t, c.Generator)
			golden.Recorded(t, "loss", loss.Detach(), values.Tensor("loss."+c.Name))
			largest := slices.Max(c.Norms)
			for i, p := range nn.Params(m) {
				if g := p.Tensor.Grad(); g.Defined() {
					norm := g.ToDType(torch.Float64).Norm(2).Item()
					assert.InDelta(t, c.Norms[i], norm, 1e-6*(1+largest)+1e-3*c.Norms[i], p.Name)
				}
			}
			sameSums(t, m, "gradient", c.Grads, torch.Tensor.Grad)
			nn.Evaluating(m, func() {
				torch.NoGrad(func() {
					evaluated := task.LossOf(engine.ForwardPass{}, task.Predict(engine.ForwardPass{}, batch))
					golden.Recorded(t, "loss in evaluation mode", evaluated.Value, values.Tensor("eval."+c.Name))
				})
			})
		})
	}
}

func TestTwentyCachedUpdatesHaveTheBitsOfSentenceTransformerTrainer(t *testing.T) {
	r := load(t)
	_, runs, _ := loadCached(t)
	for _, c := range runs {
		t.Run(c.Encoder+", "+c.Loss, func(t *testing.T) {
			goldencount.Start(t, "sentence", "cached, "+c.Encoder+", "+c.Loss+", run")
			m := r.model(t, c.Encoder, sentence.Pooling{})
			task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: cachedByName[c.Loss]})
			require.NoError(t, err)
			require.Len(t, c.Losses, 20)
			modeltest.Train(t, task, r.samples(t, m, c.Texts, "", nil), c.Accumulate, c.Losses, c.GradNorms)
			stands(t, c.Generator)
			sameSums(t, m, "final weight", c.Final, itself)
		})
	}
}

// trained runs a few updates with dropout and returns the embeddings afterwards.
func trained(t *testing.T, r *recorded, l sentence.Loss, e engine.Options, o trainer.Options) [][]float32 {
	t.Helper()
	m := r.model(t, "Bert", sentence.Pooling{})
	task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: l})
	require.NoError(t, err)
	e.Optimizer = optim.AdamW{LR: 1e-3}
	step, err := engine.New(task, e)
	require.NoError(t, err)
	o.MaxSteps, o.BatchSize, o.Save, o.Progress = 4, 12, trainer.Never, io.Discard
	fit, err := trainer.New(step, o)
	require.NoError(t, err)
	samples := r.samples(t, m, 2, "", nil)
	_, err = fit.Fit(t.Context(), data.Slice[sentence.Sample](samples), data.Slice[sentence.Sample](samples[:12]))
	require.NoError(t, err)
	got, err := m.Encode(t.Context(), r.Texts, sentence.EncodeOptions{})
	require.NoError(t, err)
	return got
}

// TestCachedLossTrainsLikeTheLossOfTheWholeBatch, which draws the same random numbers for one
// mini-batch, in bf16 too.
func TestCachedLossTrainsLikeTheLossOfTheWholeBatch(t *testing.T) {
	r := load(t)
	for _, p := range []amp.Precision{amp.FP32, amp.BF16} {
		e := engine.Options{Precision: p}
		want := trained(t, r, sentence.MultipleNegativesRankingLoss{}, e, trainer.Options{})
		before := trained(t, r, sentence.MultipleNegativesRankingLoss{Scale: 1e-9}, e, trainer.Options{})
		got := trained(t, r, sentence.CachedMultipleNegativesRankingLoss{}, e, trainer.Options{})
		for i := range want {
			assert.InDeltaSlice(t, want[i], got[i], 2e-2, "%s", p)
			assert.NotEqual(t, before[i], got[i], "%s", p)
		}
	}
}

// TestCachedLossWorksWithOtherOptions covers checkpoints of layers, and forward and backward passes
// with a report between them.
func TestCachedLossWorksWithOtherOptions(t *testing.T) {
	r := load(t)
	l := sentence.CachedMultipleNegativesRankingLoss{MiniBatchSize: 5}
	want := trained(t, r, l, engine.Options{}, trainer.Options{})
	assert.Equal(t, want, trained(t, r, l, engine.Options{GradientCheckpointing: true}, trainer.Options{}))
	assert.Equal(t, want, trained(t, r, l, engine.Options{}, trainer.Options{Callbacks: []any{between{}}}))
}

type between struct{}

func (between) AfterForward(*trainer.Run) error { return nil }

func TestWhatCachedLossesCannotDoIsRefused(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", sentence.Pooling{})
	cached := sentence.CachedMultipleNegativesRankingLoss{}
	for want, l := range map[string]sentence.Loss{
		"MiniBatchSize above 0": sentence.CachedMultipleNegativesRankingLoss{MiniBatchSize: -1},
		"found -2": sentence.CachedMultipleNegativesRankingLoss{
			MultipleNegativesRankingLoss: sentence.MultipleNegativesRankingLoss{Scale: -2}},
		"a sentence.CachedMultipleNegativesRankingLoss inside": sentence.MatryoshkaLoss{Loss: cached, Dims: []int{8}},
	} {
		_, err := sentence.NewTask(m, sentence.TaskOptions{Loss: l})
		require.ErrorContains(t, err, want)
	}
	task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: cached})
	require.NoError(t, err)
	for want, o := range map[string]engine.Options{
		"Options.Loss is set": {Loss: func(engine.ForwardPass, engine.Outputs) engine.Loss { return engine.Loss{} }},
		"Options.Sharding is": {Sharding: shard.FullShard},
	} {
		_, err = engine.New(task, o)
		require.ErrorContains(t, err, want)
	}
	samples := r.samples(t, m, 2, "", nil)
	batch, err := task.Collate(samples[:3])
	require.NoError(t, err)
	err = torch.Try(func() { task.Loss(engine.ForwardPass{Part: true}, batch) })
	require.ErrorContains(t, err, "cannot be trained in parts")
	var ranks [2]*sentence.Task // each rank trains a model of its own, as processes do
	for i := range ranks {
		ranks[i], err = sentence.NewTask(r.model(t, "Bert", sentence.Pooling{}), sentence.TaskOptions{Loss: cached})
		require.NoError(t, err)
	}
	for _, err := range ranktest.Together(t, len(ranks), nil, func(_ context.Context, g *dist.Group) error {
		step, err := engine.New(ranks[g.Rank()], engine.Options{Optimizer: optim.SGD{LR: 0.5}})
		if err != nil {
			return err
		}
		fit, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 4, Group: g, Save: trainer.Never,
			Progress: io.Discard})
		if err != nil {
			return err
		}
		_, err = fit.Fit(t.Context(), data.Slice[sentence.Sample](samples), nil)
		return err
	}) {
		require.ErrorContains(t, err, "2 processes average gradients")
	}
	require.NoError(t, nn.Freeze(m))
	assert.False(t, task.Loss(engine.ForwardPass{}, batch).Value.NeedsGrad())
}
